//! The table in the words of `nft -f`.

use std::fmt;

use super::{Base, Field, Kind, Part, Rule, Selector, Set, TABLE, Table, Value, Verdict};
use crate::family::network_between;

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(first, last) if first == last => write!(f, "{first}"),
            Self::Addresses(first, last) => match network_between(*first, *last) {
                Some(network) => write!(f, "{network}"),
                None => write!(f, "{first}-{last}"),
            },
            Self::Mark(mark) => write!(f, "{mark:#010x}"),
            Self::Interface(name) => write!(f, "\"{name}\""),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("accept"),
            Self::Drop => f.write_str("drop"),
            Self::Return => f.write_str("return"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

/// An element as it stands between the braces.
pub(super) fn element(key: &[Part], value: &Value) -> String {
    let key = joined(key);
    match value {
        Value::Nothing => key,
        Value::Verdict(verdict) => format!("{key} : {verdict}"),
        Value::Address(address) => format!("{key} : {address}"),
    }
}

fn joined<T: fmt::Display>(parts: &[T]) -> String {
    parts.iter().map(T::to_string).collect::<Vec<_>>().join(" . ")
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(family) => write!(f, "{} saddr", family.nft_word()),
            Self::Destination(family) => write!(f, "{} daddr", family.nft_word()),
            Self::OriginalSource(family) => write!(f, "ct original {} saddr", family.nft_word()),
            Self::OriginalDestination(family) => write!(f, "ct original {} daddr", family.nft_word()),
            Self::MaskedMark(mask) => write!(f, "meta mark & {mask:#010x}"),
            Self::OutputInterface => f.write_str("oifname"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InSet(selector, set, verdict) => write!(f, "{selector} @{set} {verdict}"),
            Self::Redirect(family, set, verdict) => {
                write!(f, "{} {} daddr @{set} {verdict}", family.nft_redirect(), family.nft_word())
            }
            Self::Lookup(key, map) => write!(f, "{} vmap @{map}", joined(key)),
            Self::Always(verdict) => write!(f, "{verdict}"),
            Self::SetMark { keep, mark } => {
                write!(f, "meta mark set meta mark & {keep:#010x} | {mark:#010x}")
            }
            Self::NotLocal(verdict) => write!(f, "fib saddr type != local {verdict}"),
            Self::Untracked(family, set, verdict) => {
                write!(f, "ct state invalid,untracked {} saddr @{set} {verdict}", family.nft_word())
            }
            Self::Loopback(verdict) => write!(f, "oifname \"lo\" {verdict}"),
            Self::Snat(family, key, map) => {
                write!(f, "snat {} to {} map @{map} fully-random", family.nft_word(), joined(key))
            }
            Self::Reset => f.write_str("meta l4proto tcp reject with tcp reset"),
            Self::Prohibit => f.write_str("reject with icmpx admin-prohibited"),
            Self::Foreign => f.write_str("# not one of ours"),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = match self.hook {
            0 => "prerouting",
            1 => "input",
            2 => "forward",
            3 => "output",
            _ => "postrouting",
        };
        write!(f, "type {} hook {hook} priority {}; policy accept;", self.kind, self.priority)
    }
}

impl Set {
    /// `set` or `map`.
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Set => "set",
            Kind::VerdictMap | Kind::AddressMap(_) => "map",
        }
    }

    /// Its type line.
    pub(super) fn declaration(&self) -> String {
        let columns: Vec<&str> = self
            .key
            .iter()
            .map(|field| match field {
                Field::Address(family) => family.nft_type(),
                Field::Mark => "mark",
                Field::Interface => "ifname",
            })
            .collect();
        let to = match self.kind {
            Kind::Set => String::new(),
            Kind::VerdictMap => " : verdict".to_owned(),
            Kind::AddressMap(family) => format!(" : {}", family.nft_type()),
        };
        let flags = if self.interval { "; flags interval" } else { "" };
        format!("type {}{to}{flags}", columns.join(" . "))
    }
}

/// The elements of a set, joined for one pair of braces.
pub(super) fn elements<'a>(of: impl Iterator<Item = (&'a Vec<Part>, &'a Value)>, separator: &str) -> String {
    of.map(|(key, value)| element(key, value)).collect::<Vec<_>>().join(separator)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "table inet {TABLE} {{")?;
        for (name, set) in &self.sets {
            writeln!(f, "  {} {name} {{", set.word())?;
            writeln!(f, "    {}", set.declaration())?;
            if !set.elements.is_empty() {
                writeln!(f, "    elements = {{ {} }}", elements(set.elements.iter(), ",\n      "))?;
            }
            writeln!(f, "  }}")?;
        }
        // A chain that is jumped to stands before the one that jumps, as nft wants to read it.
        let (bases, others): (Vec<_>, Vec<_>) =
            self.chains.iter().partition(|(_, chain)| chain.base.is_some());
        for (name, chain) in others.into_iter().chain(bases) {
            writeln!(f, "  chain {name} {{")?;
            if let Some(base) = &chain.base {
                writeln!(f, "    {base}")?;
            }
            for rule in &chain.rules {
                writeln!(f, "    {rule}")?;
            }
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}
