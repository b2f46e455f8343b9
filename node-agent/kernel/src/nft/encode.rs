//! Changes as netlink messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use litek8s_plan::Family;
use litek8s_plan::nft::{Base, Change, Field, Kind, Part, Set, TABLE, Value};

use super::constants::{INET, INTERVAL_END, SUBSYSTEM, data_type, message, set_flag};
use super::expression::{write_rule, write_verdict};
use crate::wire::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, Writer};

/// An element takes at most 160 bytes and a list of them has to stay below 64 KiB.
const ELEMENTS_PER_MESSAGE: usize = 350;

/// One message of a transaction, remembered so that an error can say what it is about.
pub(super) struct Sent<'a> {
    pub(super) change: &'a Change,
    /// Where in the message each element is, and which.
    pub(super) elements: Vec<(usize, &'a [Part], &'a Value)>,
}

/// Writes the messages of one change; a large list of elements takes several.
pub(super) fn write_change<'a>(
    writer: &mut Writer,
    change: &'a Change,
    sequence: &mut u32,
    sent: &mut Vec<Sent<'a>>,
) {
    let mut message = |kind: u16, flags: u16, body: &dyn Fn(&mut Writer)| {
        let kind = SUBSYSTEM << 8 | kind;
        writer.message(kind, NLM_F_REQUEST | flags, *sequence, (INET, 0), |writer| body(writer));
        *sequence += 1;
        sent.push(Sent { change, elements: Vec::new() });
    };
    match change {
        Change::AddTable => {
            message(message::NEW_TABLE, NLM_F_CREATE | NLM_F_EXCL, &|writer| writer.string(1, TABLE));
        }
        Change::DeleteTable => message(message::DELETE_TABLE, 0, &|writer| writer.string(1, TABLE)),
        Change::AddSet(name, set) => {
            message(message::NEW_SET, NLM_F_CREATE | NLM_F_EXCL, &|writer| write_set(writer, name, set));
        }
        Change::DeleteSet(name) => message(message::DELETE_SET, 0, &|writer| {
            writer.string(1, TABLE);
            writer.string(2, name);
        }),
        Change::AddChain(name, base) => {
            message(message::NEW_CHAIN, NLM_F_CREATE | NLM_F_EXCL, &|writer| {
                write_chain(writer, name, *base)
            });
        }
        Change::DeleteChain(name) => message(message::DELETE_CHAIN, 0, &|writer| {
            writer.string(1, TABLE);
            writer.string(3, name);
        }),
        // Without a handle: all rules of the chain.
        Change::FlushChain(name) => message(message::DELETE_RULE, 0, &|writer| {
            writer.string(1, TABLE);
            writer.string(2, name);
        }),
        Change::AddRule(chain, rule) => {
            message(message::NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, &|writer| {
                writer.string(1, TABLE);
                writer.string(2, chain);
                writer.nest(4, |writer| write_rule(writer, rule));
            });
        }
        Change::AddElements(name, set, elements) => {
            let list: Vec<_> = elements.iter().collect();
            write_elements(
                writer,
                (message::NEW_ELEMENTS, NLM_F_CREATE),
                (change, name, set),
                &list,
                sequence,
                sent,
            );
        }
        Change::DeleteElements(name, set, elements) => {
            let list: Vec<_> = elements.iter().collect();
            write_elements(writer, (message::DELETE_ELEMENTS, 0), (change, name, set), &list, sequence, sent);
        }
    }
}

fn write_elements<'a>(
    writer: &mut Writer,
    (kind, flags): (u16, u16),
    (change, name, set): (&'a Change, &str, &Set),
    elements: &[(&'a Vec<Part>, &'a Value)],
    sequence: &mut u32,
    sent: &mut Vec<Sent<'a>>,
) {
    for chunk in elements.chunks(ELEMENTS_PER_MESSAGE) {
        let start = writer.bytes.len();
        let mut places = Vec::with_capacity(chunk.len());
        let kind = SUBSYSTEM << 8 | kind;
        writer.message(kind, NLM_F_REQUEST | flags, *sequence, (INET, 0), |writer| {
            writer.string(1, TABLE);
            writer.string(2, name);
            writer.nest(3, |writer| {
                for &(key, value) in chunk {
                    places.push((writer.bytes.len() - start, key.as_slice(), value));
                    write_element(writer, set, key, value);
                }
            });
        });
        *sequence += 1;
        sent.push(Sent { change, elements: places });
    }
}

/// An interval over one column is two elements, its first and the one after its last; over several columns it is one
/// element with two keys.
fn write_element(writer: &mut Writer, set: &Set, key: &[Part], value: &Value) {
    let first = key_bytes(key, true);
    let last = key_bytes(key, false);
    let several = set.key.len() > 1;
    writer.nest(1, |writer| {
        writer.nest(1, |writer| writer.put(1, &first));
        if set.interval && several {
            writer.nest(10, |writer| writer.put(1, &last));
        }
        match value {
            Value::Nothing => {}
            Value::Verdict(verdict) => writer.nest(2, |writer| write_verdict(writer, verdict)),
            Value::Address(address) => writer.nest(2, |writer| writer.put(1, &octets(*address))),
        }
    });
    if set.interval
        && !several
        && let [Part::Addresses(_, last)] = key
        && let Some(after) = following(*last)
    {
        writer.nest(1, |writer| {
            writer.nest(1, |writer| writer.put(1, &octets(after)));
            writer.be32(3, INTERVAL_END);
        });
    }
}

/// In network order.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The next address; `None` after the last one.
fn following(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

fn key_bytes(key: &[Part], first: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(36);
    for part in key {
        match part {
            Part::Addresses(from, to) => bytes.extend(octets(*if first { from } else { to })),
            Part::Mark(mark) => bytes.extend(mark.to_ne_bytes()),
            Part::Interface(name) => {
                let start = bytes.len();
                bytes.extend(name.as_bytes().iter().take(15));
                bytes.resize(start + 16, 0);
            }
        }
    }
    bytes
}

/// The bytes a column takes.
pub(super) fn width(field: Field) -> u32 {
    match field {
        Field::Address(Family::V4) | Field::Mark => 4,
        Field::Address(Family::V6) | Field::Interface => 16,
    }
}

/// nft's number for a key, which is also how a set is recognised when it is read.
pub(super) fn key_type(key: &[Field]) -> u32 {
    key.iter().fold(0, |packed, field| {
        packed << 6
            | match field {
                Field::Address(family) => address_type(*family),
                Field::Mark => data_type::MARK,
                Field::Interface => data_type::INTERFACE,
            }
    })
}

fn address_type(family: Family) -> u32 {
    match family {
        Family::V4 => data_type::ADDRESS_V4,
        Family::V6 => data_type::ADDRESS_V6,
    }
}

fn write_set(writer: &mut Writer, name: &str, set: &Set) {
    let several = set.key.len() > 1;
    let mut flags = 0;
    if set.interval {
        flags |= set_flag::INTERVAL;
    }
    if set.interval && several {
        flags |= set_flag::CONCATENATION;
    }
    if set.kind != Kind::Set {
        flags |= set_flag::MAP;
    }
    writer.string(1, TABLE);
    writer.string(2, name);
    writer.be32(3, flags);
    writer.be32(4, key_type(&set.key));
    writer.be32(5, set.key.iter().map(|field| width(*field)).sum());
    match set.kind {
        Kind::Set => {}
        Kind::VerdictMap => {
            writer.be32(6, data_type::VERDICT);
            writer.be32(7, 16);
        }
        Kind::AddressMap(family) => {
            writer.be32(6, address_type(family));
            writer.be32(7, width(Field::Address(family)));
        }
    }
    if set.interval && several {
        writer.nest(9, |writer| {
            writer.nest(2, |writer| {
                for field in &set.key {
                    writer.nest(1, |writer| writer.be32(1, width(*field)));
                }
            });
        });
    }
    // The kernel wants a number for use within the transaction; we always name sets.
    writer.be32(10, 1);
}

fn write_chain(writer: &mut Writer, name: &str, base: Option<Base>) {
    writer.string(1, TABLE);
    writer.string(3, name);
    if let Some(base) = base {
        writer.nest(4, |writer| {
            writer.be32(1, base.hook);
            writer.put(2, &base.priority.to_be_bytes());
        });
        writer.be32(5, 1);
        writer.string(7, base.kind);
    }
}
