//! Rules as expressions.

use litek8s_plan::Family;
use litek8s_plan::nft::{Rule, Selector, Verdict};

use super::{
    CT_STATE, EQUAL, FIB_SOURCE, FIB_TYPE, FIRST, FIRST_WORD, FULLY_RANDOM, ICMPX_PROHIBITED, LOCAL,
    LOOPBACK, META_MARK, META_OUTPUT, META_PROTOCOL, META_TRANSPORT, NETWORK_HEADER, NO_CONNECTION,
    REJECT_ICMPX, REJECT_RESET, TCP, TRANSPORT_HEADER, UNEQUAL, VERDICT_REGISTER, layout, words,
};
use crate::nft::constants::verdict;
use crate::wire::Writer;

/// Writes the rule's expressions into `NFTA_RULE_EXPRESSIONS`.
pub(in crate::nft) fn write_rule(writer: &mut Writer, rule: &Rule) {
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
pub(in crate::nft) fn write_verdict(writer: &mut Writer, verdict: &Verdict) {
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
