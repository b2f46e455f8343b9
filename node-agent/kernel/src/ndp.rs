//! Neighbour discovery frames: what gratuitous ARP and ARP questions are for IPv4 (RFC 4861, sections 4.3 and 4.4).

use std::net::Ipv6Addr;

const ETH_P_IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
pub(crate) const ADVERTISEMENT: u8 = 136;
/// Option types: the sender's and the target's hardware address.
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;
/// Of an advertisement: it replaces what the neighbour knew.
const OVERRIDE: u8 = 0x20;
/// What does not come from the link itself has passed a router and has less.
pub(crate) const HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// An unsolicited advertisement: all nodes of the link learn who has `address` (RFC 4861, section 7.2.6).
pub(crate) fn advertisement(mac: [u8; 6], address: Ipv6Addr) -> Vec<u8> {
    let option = [&[TARGET_ADDRESS, 1], &mac[..]].concat();
    message(mac, address, ALL_NODES, &[ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0], address, &option)
}

/// A question who has `address`. From `source` the answer comes to us alone; from nobody, as before an address is used
/// (RFC 4862, section 5.4.2), it goes to all nodes, and no neighbour remembers that it was asked.
pub(crate) fn question(mac: [u8; 6], source: Option<Ipv6Addr>, address: Ipv6Addr) -> Vec<u8> {
    let option = match source {
        Some(_) => [&[SOURCE_ADDRESS, 1], &mac[..]].concat(),
        None => Vec::new(),
    };
    let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let group = solicited_node(address);
    message(mac, source, group, &[SOLICITATION, 0, 0, 0, 0, 0, 0, 0], address, &option)
}

/// Who an ICMPv6 message says has an address.
pub(crate) fn claim(message: &[u8]) -> Option<(Ipv6Addr, [u8; 6])> {
    if *message.first()? != ADVERTISEMENT {
        return None;
    }
    let target: [u8; 16] = message.get(8..24)?.try_into().ok()?;
    let mut options = message.get(24..)?;
    // Whoever answers a question to many says where he is.
    while let [kind, length, ..] = *options {
        let option = options.get(..usize::from(length) * 8).filter(|option| !option.is_empty())?;
        if kind == TARGET_ADDRESS {
            return Some((target.into(), option.get(2..8)?.try_into().ok()?));
        }
        options = &options[option.len()..];
    }
    None
}

/// The group that only hosts with the same last three bytes listen to (RFC 4291, section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

fn message(
    mac: [u8; 6],
    source: Ipv6Addr,
    group: Ipv6Addr,
    head: &[u8; 8],
    target: Ipv6Addr,
    option: &[u8],
) -> Vec<u8> {
    let mut body = [&head[..], &target.octets(), option].concat();
    let length = u16::try_from(body.len()).unwrap_or_default();
    let sum = checksum(&[
        &source.octets(),
        &group.octets(),
        &u32::from(length).to_be_bytes(),
        &[0, 0, 0, ICMPV6],
        &body,
    ]);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    // A group's hardware address ends in its last four bytes (RFC 2464, section 7).
    let to = [&[0x33, 0x33], &group.octets()[12..]].concat();
    [
        &to[..],
        &mac,
        &ETH_P_IPV6.to_be_bytes(),
        &[0x60, 0, 0, 0],
        &length.to_be_bytes(),
        &[ICMPV6, HOP_LIMIT],
        &source.octets(),
        &group.octets(),
        &body,
    ]
    .concat()
}

/// The internet checksum (RFC 1071). Every part has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or_default())).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn vip() -> Ipv6Addr {
        "2001:db8:113::10".parse().unwrap()
    }

    /// With its own checksum in it, a message sums up to all ones.
    fn is_sound(frame: &[u8]) -> bool {
        let length = &[0, 0, frame[18], frame[19]];
        checksum(&[&frame[22..54], length, &[0, 0, 0, ICMPV6], &frame[54..]]) == 0
    }

    #[test]
    fn an_advertisement_tells_all_nodes_to_replace_what_they_knew() {
        let frame = advertisement(MAC, vip());
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!((frame[21], frame[54], frame[58]), (255, 136, 0x20));
        assert!(is_sound(&frame));
        assert_eq!(claim(&frame[54..]), Some((vip(), MAC)));
    }

    #[test]
    fn a_question_goes_to_the_few_it_may_concern_and_claims_nothing() {
        let asked = question(MAC, None, vip());
        assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0, 0, 0x10]);
        assert_eq!((asked.len(), claim(&asked[54..])), (78, None));
        let named = question(MAC, "fe80::1".parse().ok(), vip());
        assert_eq!(named[78..], [1, 1, 2, 0, 0, 0, 0, 1]);
        assert!(is_sound(&asked) && is_sound(&named));
    }

    #[test]
    fn a_message_that_is_cut_off_claims_nothing() {
        let frame = advertisement(MAC, vip());
        for end in 54..frame.len() {
            assert_eq!(claim(&frame[54..end]), None);
        }
    }
}
