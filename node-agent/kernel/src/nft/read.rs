//! Our table, read from the kernel into the plan's model.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use litek8s_plan::Family;
use litek8s_plan::nft::{Base, Chain, Field, Kind, Part, Set, TABLE, Table, Value};

use super::constants::{INET, INTERVAL_END, SUBSYSTEM, data_type, message, set_flag};
use super::encode::{key_type, width};
use super::expression::{read_rule, read_verdict};
use crate::KernelError;
use crate::wire::{Attributes, NLM_F_DUMP, NLM_F_REQUEST, NetfilterSocket, Writer};

/// How often a table that changes while it is read is read again.
const ATTEMPTS: usize = 10;

/// The keys our sets have. A set with another key reads as one without columns, equal to none of ours.
const KEYS: [&[Field]; 8] = [
    &[FOUR],
    &[FOUR, FOUR],
    &[Field::Mark, FOUR, Field::Interface],
    &[SIX],
    &[SIX, SIX],
    &[Field::Mark, SIX, Field::Interface],
    &[Field::Mark],
    &[Field::Mark, Field::Interface],
];
const FOUR: Field = Field::Address(Family::V4);
const SIX: Field = Field::Address(Family::V6);

/// The number of transactions the namespace has seen.
pub(crate) fn generation(socket: &mut NetfilterSocket) -> Result<u32, KernelError> {
    let request = request(message::GET_GENERATION, 0, |_| {});
    let number = socket.get(&request, "nftables generation", |message| message.attributes().be32(1))?;
    number.ok_or(KernelError::Malformed("nftables generation"))
}

/// The table, if there is one, and the generation it is of.
pub(crate) fn read_table(socket: &mut NetfilterSocket) -> Result<(u32, Option<Table>), KernelError> {
    for _ in 0..ATTEMPTS {
        let before = generation(socket)?;
        let table = read_once(socket)?;
        if let Some(table) = table
            && generation(socket)? == before
        {
            return Ok((before, table));
        }
    }
    Err(KernelError::Interrupted("nftables"))
}

/// `None` when it changed meanwhile.
fn read_once(socket: &mut NetfilterSocket) -> Result<Option<Option<Table>>, KernelError> {
    let there = request(message::GET_TABLE, 0, |writer| writer.string(1, TABLE));
    if socket.get(&there, "nftables table", |_| Some(()))?.is_none() {
        return Ok(Some(None));
    }
    let mut table = Table::default();
    let mut whole =
        socket.dump(&request(message::GET_CHAIN, NLM_F_DUMP, |_| {}), "nftables chains", |message| {
            let attributes = message.attributes();
            if attributes.string(1) == Some(TABLE)
                && let Some(name) = attributes.string(3)
            {
                let chain = Chain { base: read_base(attributes), rules: Vec::new() };
                table.chains.insert(name.to_owned(), chain);
            }
        })?;
    let rules = request(message::GET_RULE, NLM_F_DUMP, |writer| writer.string(1, TABLE));
    whole &= socket.dump(&rules, "nftables rules", |message| {
        let attributes = message.attributes();
        let chain = attributes.string(2).and_then(|name| table.chains.get_mut(name));
        if let Some(chain) = chain
            && attributes.string(1) == Some(TABLE)
        {
            let expressions = attributes.nest(4).unwrap_or(Attributes(&[]));
            chain.rules.push(read_rule(expressions));
        }
    })?;
    let sets = request(message::GET_SET, NLM_F_DUMP, |writer| writer.string(1, TABLE));
    whole &= socket.dump(&sets, "nftables sets", |message| {
        let attributes = message.attributes();
        if attributes.string(1) == Some(TABLE)
            && let Some(name) = attributes.string(2)
        {
            table.sets.insert(name.to_owned(), read_set(attributes));
        }
    })?;
    for (name, set) in &mut table.sets {
        match read_elements(socket, name, set) {
            Ok(all) => whole &= all,
            // The set went while we read: the generation tells.
            Err(KernelError::Refused { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(whole.then_some(Some(table)))
}

fn request(kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) -> Writer {
    let mut writer = Writer::default();
    writer.message(SUBSYSTEM << 8 | kind, NLM_F_REQUEST | flags, 1, (INET, 0), body);
    writer
}

fn read_base(chain: Attributes<'_>) -> Option<Base> {
    let hook = chain.nest(4)?;
    let kind = match chain.string(7)? {
        "filter" => "filter",
        "route" => "route",
        "nat" => "nat",
        _ => "unknown",
    };
    // A policy other than accept makes it another chain.
    let kind = if chain.be32(5) == Some(1) { kind } else { "unknown" };
    Some(Base { kind, hook: hook.be32(1)?, priority: i32::from_be_bytes(hook.get(2)?.try_into().ok()?) })
}

fn read_set(attributes: Attributes<'_>) -> Set {
    let flags = attributes.be32(3).unwrap_or_default();
    let known = set_flag::INTERVAL | set_flag::MAP | set_flag::CONCATENATION;
    let packed = attributes.be32(4).unwrap_or_default();
    let key = KEYS.iter().find(|key| key_type(key) == packed && flags & !known == 0);
    let kind = match attributes.be32(6) {
        None => Kind::Set,
        Some(data_type::VERDICT) => Kind::VerdictMap,
        Some(data_type::ADDRESS_V6) => Kind::AddressMap(Family::V6),
        Some(_) => Kind::AddressMap(Family::V4),
    };
    Set {
        key: key.map(|key| key.to_vec()).unwrap_or_default(),
        kind,
        interval: flags & set_flag::INTERVAL != 0,
        elements: BTreeMap::new(),
    }
}

fn read_elements(socket: &mut NetfilterSocket, name: &str, set: &mut Set) -> Result<bool, KernelError> {
    if set.key.is_empty() {
        return Ok(true);
    }
    let list = request(message::GET_ELEMENTS, NLM_F_DUMP, |writer| {
        writer.string(1, TABLE);
        writer.string(2, name);
    });
    // Bounds of intervals over one column: where one begins, and where one has ended.
    let mut bounds: Vec<(IpAddr, bool)> = Vec::new();
    let pairs = set.interval && set.key.len() == 1;
    let whole = socket.dump(&list, "nftables elements", |message| {
        let elements = message.attributes().nest(3).unwrap_or(Attributes(&[]));
        for (_, element) in elements {
            let element = Attributes(element);
            let Some(first) = element.nest(1).and_then(|key| key.get(1)) else { continue };
            if pairs {
                if let Some(at) = read_address(first) {
                    let ends = element.be32(3).is_some_and(|flags| flags & INTERVAL_END != 0);
                    bounds.push((at, ends));
                }
                continue;
            }
            let last = element.nest(10).and_then(|key| key.get(1)).unwrap_or(first);
            if let Some(key) = read_key(&set.key, first, last) {
                set.elements.insert(key, read_value(element));
            }
        }
    })?;
    // An end sorts before a beginning at the same place: the intervals are next to each other.
    bounds.sort_by_key(|&(at, ends)| (at, !ends));
    let mut begun = None;
    for (at, ends) in bounds {
        if !ends {
            begun = Some(at);
        } else if let Some(first) = begun.take() {
            set.elements.insert(vec![Part::Addresses(first, preceding(at))], Value::Nothing);
        }
    }
    if let Some(first) = begun {
        set.elements.insert(vec![Part::Addresses(first, Family::of(first).last())], Value::Nothing);
    }
    Ok(whole)
}

fn read_key(fields: &[Field], first: &[u8], last: &[u8]) -> Option<Vec<Part>> {
    let mut at = 0;
    fields
        .iter()
        .map(|field| {
            let range = at..at + usize::try_from(width(*field)).ok()?;
            at = range.end;
            let (first, last) = (first.get(range.clone())?, last.get(range)?);
            Some(match field {
                Field::Address(_) => Part::Addresses(read_address(first)?, read_address(last)?),
                Field::Mark => Part::Mark(u32::from_ne_bytes(first.try_into().ok()?)),
                Field::Interface => {
                    let end = first.iter().position(|byte| *byte == 0).unwrap_or(first.len());
                    Part::Interface(String::from_utf8_lossy(&first[..end]).into_owned())
                }
            })
        })
        .collect()
}

fn read_value(element: Attributes<'_>) -> Value {
    let Some(data) = element.nest(2) else { return Value::Nothing };
    if let Some(verdict) = read_verdict(data) {
        return Value::Verdict(verdict);
    }
    data.get(1).and_then(read_address).map_or(Value::Nothing, Value::Address)
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// The address before one that is not the first.
fn preceding(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().saturating_sub(1)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().saturating_sub(1)).into(),
    }
}
