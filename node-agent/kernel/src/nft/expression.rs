//! Rules as the kernel's expressions, and expressions read as rules again.
//!
//! A rule is a little program over registers. Reading runs it: what every register holds is followed, and a program
//! that is none of ours reads as [`Rule::Foreign`].

use std::collections::BTreeMap;

use litek8s_plan::Family;
use litek8s_plan::nft::{Rule, Selector, Verdict};

use super::constants::{IPV4, IPV6, verdict};
use crate::wire::{Attributes, Writer};

/// The register of verdicts.
const VERDICT_REGISTER: u32 = 0;
/// The first register of 16 bytes, the same place as [`FIRST_WORD`].
const FIRST: u32 = 1;
/// The first register of four bytes.
const FIRST_WORD: u32 = 8;

const META_MARK: u32 = 3;
const META_OUTPUT: u32 = 7;
const META_PROTOCOL: u32 = 15;
const META_TRANSPORT: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
/// `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_SADDR`, and `RTN_LOCAL`.
const FIB_TYPE: u32 = 3;
const FIB_SOURCE: u32 = 1;
const LOCAL: u32 = 2;
/// `NFT_CT_STATE`, and the bits `NF_CT_STATE_INVALID_BIT` and `NF_CT_STATE_UNTRACKED_BIT`.
const CT_STATE: u32 = 0;
const NO_CONNECTION: u32 = 0x41;
/// The loopback interface's name as a register holds it.
const LOOPBACK: &[u8; 16] = b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// `NFT_CMP_EQ` and `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`
const FULLY_RANDOM: u32 = 0x10;

/// `NFT_REJECT_TCP_RST`, `NFT_REJECT_ICMPX_UNREACH` and `NFT_REJECT_ICMPX_ADMIN_PROHIBITED`.
const REJECT_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const ICMPX_PROHIBITED: u8 = 3;

/// Where the addresses of a family are.
struct Layout {
    /// `NFPROTO_…`
    protocol: u8,
    /// The bytes of an address.
    width: u32,
    /// In the header.
    source: u32,
    destination: u32,
    /// `NFT_CT_SRC_IP…` and `NFT_CT_DST_IP…`
    original_source: u32,
    original_destination: u32,
    /// ICMP as a transport, and its message that tells another router.
    icmp: u8,
    redirect: u8,
}

const LAYOUT_V4: Layout = Layout {
    protocol: IPV4,
    width: 4,
    source: 12,
    destination: 16,
    original_source: 19,
    original_destination: 20,
    icmp: 1,
    redirect: 5,
};
const LAYOUT_V6: Layout = Layout {
    protocol: IPV6,
    width: 16,
    source: 8,
    destination: 24,
    original_source: 21,
    original_destination: 22,
    icmp: 58,
    redirect: 137,
};
const FAMILIES: [(Family, &Layout); 2] = [(Family::V4, &LAYOUT_V4), (Family::V6, &LAYOUT_V6)];

fn layout(family: Family) -> &'static Layout {
    match family {
        Family::V4 => &LAYOUT_V4,
        Family::V6 => &LAYOUT_V6,
    }
}

/// Writes the rule's expressions into `NFTA_RULE_EXPRESSIONS`.
pub(super) fn write_rule(writer: &mut Writer, rule: &Rule) {
    match rule {
        Rule::InSet(selector, set, verdict) => {
            load_key(writer, std::slice::from_ref(selector));
            lookup(writer, set, None);
            immediate(writer, verdict);
        }
        Rule::Redirect(family, set, verdict) => {
            let layout = layout(*family);
            protocol(writer, *family);
            load_meta(writer, META_TRANSPORT, FIRST);
            equal(writer, layout.icmp);
            payload(writer, TRANSPORT_HEADER, 0, 1, FIRST);
            equal(writer, layout.redirect);
            network_address(writer, *family, layout.destination, FIRST);
            lookup(writer, set, None);
            immediate(writer, verdict);
        }
        Rule::Lookup(key, map) => {
            load_key(writer, key);
            lookup(writer, map, Some(VERDICT_REGISTER));
        }
        Rule::Always(verdict) => immediate(writer, verdict),
        Rule::NotLocal(verdict) => {
            expression(writer, "fib", |writer| {
                writer.be32(1, FIRST);
                writer.be32(2, FIB_TYPE);
                writer.be32(3, FIB_SOURCE);
            });
            compare(writer, UNEQUAL, &LOCAL.to_ne_bytes());
            immediate(writer, verdict);
        }
        Rule::Loopback(verdict) => {
            load_meta(writer, META_OUTPUT, FIRST);
            compare(writer, EQUAL, LOOPBACK);
            immediate(writer, verdict);
        }
        Rule::Untracked(family, set, verdict) => {
            expression(writer, "ct", |writer| {
                writer.be32(2, CT_STATE);
                writer.be32(1, FIRST);
            });
            bitwise(writer, NO_CONNECTION, 0);
            compare(writer, UNEQUAL, &0_u32.to_ne_bytes());
            protocol(writer, *family);
            network_address(writer, *family, layout(*family).source, FIRST);
            lookup(writer, set, None);
            immediate(writer, verdict);
        }
        Rule::SetMark { keep, mark } => {
            load_meta(writer, META_MARK, FIRST);
            bitwise(writer, *keep, *mark);
            expression(writer, "meta", |writer| {
                writer.be32(2, META_MARK);
                writer.be32(3, FIRST);
            });
        }
        Rule::Snat(family, key, map) => {
            load_key(writer, key);
            lookup(writer, map, Some(FIRST));
            expression(writer, "nat", |writer| {
                writer.be32(1, 0);
                writer.be32(2, layout(*family).protocol.into());
                writer.be32(3, FIRST);
                writer.be32(7, FULLY_RANDOM);
            });
        }
        Rule::Reset => {
            load_meta(writer, META_TRANSPORT, FIRST);
            equal(writer, TCP);
            reject(writer, REJECT_RESET, 0);
        }
        Rule::Prohibit => reject(writer, REJECT_ICMPX, ICMPX_PROHIBITED),
        Rule::Foreign => {}
    }
}

/// Loads a key into consecutive registers of four bytes; a wider column takes several.
fn load_key(writer: &mut Writer, key: &[Selector]) {
    let family = key.iter().find_map(|part| match part {
        Selector::Source(family) | Selector::Destination(family) => Some(*family),
        Selector::OriginalSource(_)
        | Selector::OriginalDestination(_)
        | Selector::MaskedMark(_)
        | Selector::OutputInterface => None,
    });
    if let Some(family) = family {
        protocol(writer, family);
    }
    let mut next = FIRST_WORD;
    for selector in key {
        let register = if next == FIRST_WORD { FIRST } else { next };
        next += words(*selector);
        match selector {
            Selector::Source(family) => network_address(writer, *family, layout(*family).source, register),
            Selector::Destination(family) => {
                network_address(writer, *family, layout(*family).destination, register);
            }
            Selector::OriginalSource(family) => original(writer, layout(*family).original_source, register),
            Selector::OriginalDestination(family) => {
                original(writer, layout(*family).original_destination, register);
            }
            Selector::MaskedMark(mask) => {
                load_meta(writer, META_MARK, register);
                bitwise(writer, *mask, 0);
            }
            Selector::OutputInterface => load_meta(writer, META_OUTPUT, register),
        }
    }
}

/// Only this family: in an inet table packets may be of either family.
fn protocol(writer: &mut Writer, family: Family) {
    load_meta(writer, META_PROTOCOL, FIRST);
    equal(writer, layout(family).protocol);
}

/// Goes on only when the first register holds this byte.
fn equal(writer: &mut Writer, byte: u8) {
    compare(writer, EQUAL, &[byte]);
}

fn compare(writer: &mut Writer, how: u32, value: &[u8]) {
    expression(writer, "cmp", |writer| {
        writer.be32(1, FIRST);
        writer.be32(2, how);
        writer.nest(3, |writer| writer.put(1, value));
    });
}

/// An address of the header.
fn network_address(writer: &mut Writer, family: Family, offset: u32, register: u32) {
    payload(writer, NETWORK_HEADER, offset, layout(family).width, register);
}

/// How many registers of four bytes a column takes.
fn words(selector: Selector) -> u32 {
    match selector {
        Selector::Source(family)
        | Selector::Destination(family)
        | Selector::OriginalSource(family)
        | Selector::OriginalDestination(family) => layout(family).width / 4,
        Selector::MaskedMark(_) => 1,
        Selector::OutputInterface => 4,
    }
}

fn expression(writer: &mut Writer, name: &str, body: impl FnOnce(&mut Writer)) {
    writer.nest(1, |writer| {
        writer.string(1, name);
        writer.nest(2, body);
    });
}

fn load_meta(writer: &mut Writer, key: u32, register: u32) {
    expression(writer, "meta", |writer| {
        writer.be32(2, key);
        writer.be32(1, register);
    });
}

fn payload(writer: &mut Writer, header: u32, offset: u32, length: u32, register: u32) {
    expression(writer, "payload", |writer| {
        writer.be32(1, register);
        writer.be32(2, header);
        writer.be32(3, offset);
        writer.be32(4, length);
    });
}

fn original(writer: &mut Writer, key: u32, register: u32) {
    expression(writer, "ct", |writer| {
        writer.be32(2, key);
        writer.be32(1, register);
        writer.put(3, &[0]);
    });
}

/// `register 1 = register 1 & mask ^ xor`; marks are in the host's byte order.
fn bitwise(writer: &mut Writer, mask: u32, xor: u32) {
    expression(writer, "bitwise", |writer| {
        writer.be32(1, FIRST);
        writer.be32(2, FIRST);
        writer.be32(3, 4);
        writer.nest(4, |writer| writer.put(1, &mask.to_ne_bytes()));
        writer.nest(5, |writer| writer.put(1, &xor.to_ne_bytes()));
    });
}

fn lookup(writer: &mut Writer, set: &str, register: Option<u32>) {
    expression(writer, "lookup", |writer| {
        writer.string(1, set);
        writer.be32(2, FIRST);
        if let Some(register) = register {
            writer.be32(3, register);
        }
    });
}

fn reject(writer: &mut Writer, kind: u32, code: u8) {
    expression(writer, "reject", |writer| {
        writer.be32(1, kind);
        writer.put(2, &[code]);
    });
}

fn immediate(writer: &mut Writer, verdict: &Verdict) {
    expression(writer, "immediate", |writer| {
        writer.be32(1, VERDICT_REGISTER);
        writer.nest(2, |writer| write_verdict(writer, verdict));
    });
}

/// `NFTA_DATA_VERDICT`
pub(super) fn write_verdict(writer: &mut Writer, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (verdict::ACCEPT, None),
        Verdict::Drop => (verdict::DROP, None),
        Verdict::Return => (verdict::RETURN, None),
        Verdict::Jump(chain) => (verdict::JUMP, Some(chain)),
        Verdict::Goto(chain) => (verdict::GOTO, Some(chain)),
    };
    writer.nest(2, |writer| {
        writer.put(1, &code.to_be_bytes());
        if let Some(chain) = chain {
            writer.string(2, chain);
        }
    });
}

/// The verdict in `NFTA_DATA_VERDICT`.
pub(super) fn read_verdict(data: Attributes<'_>) -> Option<Verdict> {
    let attributes = data.nest(2)?;
    let code = i32::from_be_bytes(attributes.get(1)?.try_into().ok()?);
    let chain = || attributes.string(2).map(str::to_owned);
    match code {
        verdict::ACCEPT => Some(Verdict::Accept),
        verdict::DROP => Some(Verdict::Drop),
        verdict::RETURN => Some(Verdict::Return),
        verdict::JUMP => chain().map(Verdict::Jump),
        verdict::GOTO => chain().map(Verdict::Goto),
        _ => None,
    }
}

/// What a register holds while a rule is read.
enum Held {
    Field(Selector),
    Protocol,
    Transport,
    IcmpType,
    SourceType,
    State,
    /// Of the state whether there is no connection.
    NoConnection,
    Mark,
    /// The mark with some bits kept and some set.
    Changed(u32, u32),
    /// What a map gave for a key.
    Mapped(Vec<Selector>, String),
}

/// Reads `NFTA_RULE_EXPRESSIONS` as one of our rules.
pub(super) fn read_rule(expressions: Attributes<'_>) -> Rule {
    let mut reader =
        Reader { held: BTreeMap::new(), family: None, icmp: None, tcp: false, only: None, in_set: None };
    let mut rule = None;
    for (_, expression) in expressions {
        let expression = Attributes(expression);
        let data = expression.nest(2).unwrap_or(Attributes(&[]));
        // Nothing of ours follows the expression that ends a rule.
        let step = match (expression.string(1), &rule) {
            (Some(name), None) => reader.step(name, data),
            _ => None,
        };
        match step {
            Some(Step::Going) => {}
            Some(Step::Ended(ended)) => rule = Some(ended),
            None => return Rule::Foreign,
        }
    }
    rule.unwrap_or(Rule::Foreign)
}

enum Step {
    Going,
    Ended(Rule),
}

/// What a comparison leaves over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    /// What has no address of this node as its source.
    Away,
    /// What the node says to itself.
    Loopback,
    /// What belongs to no connection.
    Untracked,
}

struct Reader {
    held: BTreeMap<u32, Held>,
    /// The family that all packets are of from here on.
    family: Option<Family>,
    /// Whether only ICMP passes here, and of that only redirects.
    icmp: Option<bool>,
    /// Whether only TCP passes here.
    tcp: bool,
    /// Which packets alone pass here.
    only: Option<Only>,
    in_set: Option<(Selector, String)>,
}

impl Reader {
    fn step(&mut self, name: &str, data: Attributes<'_>) -> Option<Step> {
        match name {
            "meta" => return self.meta(data),
            "cmp" => self.compare(data)?,
            "fib" => {
                ((data.be32(2)?, data.be32(3)?) == (FIB_TYPE, FIB_SOURCE)).then_some(())?;
                self.hold(data, Held::SourceType)?;
            }
            "payload" => {
                let held = match (data.be32(2)?, data.be32(3)?, data.be32(4)?) {
                    (NETWORK_HEADER, offset, length) => Held::Field(self.address(offset, length)?),
                    (TRANSPORT_HEADER, 0, 1) => Held::IcmpType,
                    _ => return None,
                };
                self.hold(data, held)?;
            }
            "ct" if data.be32(2)? == CT_STATE => self.hold(data, Held::State)?,
            "ct" => {
                (data.get(3)? == [0]).then_some(())?;
                let asked = data.be32(2)?;
                let selector = FAMILIES.iter().find_map(|&(family, layout)| {
                    if asked == layout.original_source {
                        Some(Selector::OriginalSource(family))
                    } else {
                        (asked == layout.original_destination)
                            .then_some(Selector::OriginalDestination(family))
                    }
                })?;
                self.hold(data, Held::Field(selector))?;
            }
            "bitwise" => self.bitwise(data)?,
            "lookup" => return self.lookup(data),
            "immediate" => {
                let verdict = read_verdict(data.nest(2)?)?;
                (!self.tcp).then_some(())?;
                return Some(Step::Ended(match (self.in_set.take(), self.icmp, self.only) {
                    (Some((selector, set)), None, None) => Rule::InSet(selector, set, verdict),
                    (Some((Selector::Destination(family), set)), Some(true), None) => {
                        Rule::Redirect(family, set, verdict)
                    }
                    (Some((Selector::Source(family), set)), None, Some(Only::Untracked)) => {
                        Rule::Untracked(family, set, verdict)
                    }
                    (None, None, Some(Only::Away)) => Rule::NotLocal(verdict),
                    (None, None, Some(Only::Loopback)) => Rule::Loopback(verdict),
                    (None, None, None) => Rule::Always(verdict),
                    _ => return None,
                }));
            }
            "nat" => return self.nat(data),
            "reject" => {
                let plain = self.in_set.is_none() && self.icmp.is_none() && self.only.is_none();
                let code = data.get(2).unwrap_or(&[0]);
                return match (data.be32(1)?, code, self.tcp) {
                    (REJECT_RESET, _, true) if plain => Some(Step::Ended(Rule::Reset)),
                    (REJECT_ICMPX, &[ICMPX_PROHIBITED], false) if plain => Some(Step::Ended(Rule::Prohibit)),
                    _ => None,
                };
            }
            _ => return None,
        }
        Some(Step::Going)
    }

    /// What a packet has to be to go on.
    fn compare(&mut self, data: Attributes<'_>) -> Option<()> {
        let value = data.nest(3)?.get(1)?;
        match (self.held.get(&word(data.be32(1)?))?, data.be32(2)?, value) {
            (Held::SourceType, UNEQUAL, value) if value == LOCAL.to_ne_bytes() => {
                self.only = Some(Only::Away);
            }
            (Held::Field(Selector::OutputInterface), EQUAL, value) if value == LOOPBACK => {
                self.only = Some(Only::Loopback);
            }
            (Held::NoConnection, UNEQUAL, &[0, 0, 0, 0]) => self.only = Some(Only::Untracked),
            (Held::Protocol, EQUAL, &[value]) => {
                self.family = Some(FAMILIES.iter().find(|(_, layout)| value == layout.protocol)?.0);
            }
            (Held::Transport, EQUAL, &[TCP]) => self.tcp = true,
            (Held::Transport, EQUAL, &[value]) if value == layout(self.family?).icmp => {
                self.icmp = Some(false);
            }
            (Held::IcmpType, EQUAL, &[value]) if value == layout(self.family?).redirect => {
                self.icmp = self.icmp.map(|_| true);
            }
            _ => return None,
        }
        Some(())
    }

    /// Which address of the header is read.
    fn address(&self, offset: u32, length: u32) -> Option<Selector> {
        let family = self.family?;
        let layout = layout(family);
        (length == layout.width).then_some(())?;
        match offset {
            offset if offset == layout.source => Some(Selector::Source(family)),
            offset if offset == layout.destination => Some(Selector::Destination(family)),
            _ => None,
        }
    }

    fn hold(&mut self, data: Attributes<'_>, held: Held) -> Option<()> {
        self.held.insert(word(data.be32(1)?), held);
        Some(())
    }

    fn meta(&mut self, data: Attributes<'_>) -> Option<Step> {
        let key = data.be32(2)?;
        if let Some(register) = data.be32(3) {
            let Held::Changed(keep, mark) = self.held.get(&word(register))? else { return None };
            let ended = Rule::SetMark { keep: *keep, mark: *mark };
            return (key == META_MARK).then_some(Step::Ended(ended));
        }
        let held = match key {
            META_MARK => Held::Mark,
            META_OUTPUT => Held::Field(Selector::OutputInterface),
            META_PROTOCOL => Held::Protocol,
            META_TRANSPORT => Held::Transport,
            _ => return None,
        };
        self.hold(data, held)?;
        Some(Step::Going)
    }

    fn bitwise(&mut self, data: Attributes<'_>) -> Option<()> {
        let number =
            |kind| -> Option<u32> { Some(u32::from_ne_bytes(data.nest(kind)?.get(1)?.try_into().ok()?)) };
        let (mask, xor) = (number(4)?, number(5)?);
        let held = match (self.held.get(&word(data.be32(1)?))?, mask, xor) {
            (Held::State, NO_CONNECTION, 0) => Held::NoConnection,
            // With nothing set it is a key or a change of the mark; only what follows tells.
            (Held::Mark, mask, 0) => Held::Field(Selector::MaskedMark(mask)),
            (Held::Mark, mask, xor) => Held::Changed(mask, xor),
            _ => return None,
        };
        self.held.insert(word(data.be32(2)?), held);
        Some(())
    }

    fn lookup(&mut self, data: Attributes<'_>) -> Option<Step> {
        let set = data.string(1)?.to_owned();
        let inverted = data.be32(5).is_some_and(|flags| flags != 0);
        let key = self.key(word(data.be32(2)?))?;
        if inverted {
            return None;
        }
        match data.be32(3) {
            Some(VERDICT_REGISTER) => return Some(Step::Ended(Rule::Lookup(key, set))),
            Some(register) => {
                self.held.insert(word(register), Held::Mapped(key, set));
            }
            None => {
                let [selector] = key.as_slice() else { return None };
                self.in_set = Some((*selector, set));
            }
        }
        Some(Step::Going)
    }

    /// The columns from a register on.
    fn key(&self, register: u32) -> Option<Vec<Selector>> {
        let mut key = Vec::new();
        let mut next = register;
        while let Some(Held::Field(selector)) = self.held.get(&next) {
            key.push(*selector);
            next += words(*selector);
        }
        (!key.is_empty()).then_some(key)
    }

    fn nat(&mut self, data: Attributes<'_>) -> Option<Step> {
        let source = data.be32(1)? == 0;
        let protocol = u8::try_from(data.be32(2)?).ok()?;
        let family = FAMILIES.iter().find(|(_, layout)| layout.protocol == protocol)?.0;
        // The kernel adds a flag of its own for a map of addresses.
        let random = data.be32(7)? & FULLY_RANDOM != 0;
        match self.held.remove(&word(data.be32(3)?))? {
            Held::Mapped(key, map) if source && random => Some(Step::Ended(Rule::Snat(family, key, map))),
            Held::Mapped(..)
            | Held::Field(_)
            | Held::Protocol
            | Held::Transport
            | Held::IcmpType
            | Held::SourceType
            | Held::State
            | Held::NoConnection
            | Held::Mark
            | Held::Changed(..) => None,
        }
    }
}

/// The register of four bytes at the same place.
fn word(register: u32) -> u32 {
    match register {
        VERDICT_REGISTER => VERDICT_REGISTER,
        1..=4 => FIRST_WORD + (register - 1) * 4,
        register => register,
    }
}
