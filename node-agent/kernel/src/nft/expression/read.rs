//! Expressions as rules. Reading runs the program: what every register holds is followed, and one that is none of ours
//! reads as [`Rule::Foreign`].

use std::collections::BTreeMap;

use litek8s_plan::Family;
use litek8s_plan::nft::{Rule, Selector, Verdict};

use super::{
    CT_STATE, EQUAL, FAMILIES, FIB_SOURCE, FIB_TYPE, FIRST_WORD, FULLY_RANDOM, ICMPX_PROHIBITED, LOCAL,
    LOOPBACK, META_MARK, META_OUTPUT, META_PROTOCOL, META_TRANSPORT, NETWORK_HEADER, NO_CONNECTION,
    REJECT_ICMPX, REJECT_RESET, TCP, TRANSPORT_HEADER, UNEQUAL, VERDICT_REGISTER, layout, words,
};
use crate::nft::constants::verdict;
use crate::wire::Attributes;

/// The verdict in `NFTA_DATA_VERDICT`.
pub(in crate::nft) fn read_verdict(data: Attributes<'_>) -> Option<Verdict> {
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
pub(in crate::nft) fn read_rule(expressions: Attributes<'_>) -> Rule {
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
