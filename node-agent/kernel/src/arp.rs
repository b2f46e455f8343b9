//! ARP frames: announcements in both forms, and questions (RFC 826, RFC 5227).

use std::net::Ipv4Addr;

pub(crate) const ETH_P_ARP: u16 = 0x0806;
const BROADCAST: [u8; 6] = [0xff; 6];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// The announcement of an address, as request and as reply: devices heed one or the other.
pub(crate) fn announcements(mac: [u8; 6], address: Ipv4Addr) -> [[u8; 42]; 2] {
    [REQUEST, REPLY].map(|operation| frame(mac, address, operation))
}

/// RFC 826 in an Ethernet frame: sender and target are the announced address (RFC 5227, section 3).
fn frame(mac: [u8; 6], address: Ipv4Addr, operation: u16) -> [u8; 42] {
    let target = if operation == REQUEST { [0; 6] } else { mac };
    build(mac, address, operation, target, address)
}

/// A question who has `address`, from nobody (RFC 5227, section 1.1): it changes no neighbour's table.
pub(crate) fn question(mac: [u8; 6], address: Ipv4Addr) -> [u8; 42] {
    build(mac, Ipv4Addr::UNSPECIFIED, REQUEST, [0; 6], address)
}

/// Who an ARP frame says has an address.
pub(crate) fn claim(frame: &[u8]) -> Option<(Ipv4Addr, [u8; 6])> {
    let ethernet = frame.get(12..20)? == [8, 6, 0, 1, 8, 0, 6, 4];
    let sender: [u8; 4] = frame.get(28..32)?.try_into().ok()?;
    let mac: [u8; 6] = frame.get(22..28)?.try_into().ok()?;
    (ethernet && sender != [0; 4]).then(|| (sender.into(), mac))
}

fn build(mac: [u8; 6], sender: Ipv4Addr, operation: u16, target_mac: [u8; 6], target: Ipv4Addr) -> [u8; 42] {
    let mut frame = [0; 42];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&BROADCAST);
    put(&mac);
    put(&ETH_P_ARP.to_be_bytes());
    // Ethernet, IPv4 and the lengths of their addresses.
    put(&[0, 1, 8, 0, 6, 4]);
    put(&operation.to_be_bytes());
    put(&mac);
    put(&sender.octets());
    put(&target_mac);
    put(&target.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::{REPLY, REQUEST, claim, frame, question};

    #[test]
    fn both_forms_name_the_address_twice_and_are_broadcast() {
        let mac = [2, 0, 0, 0, 0, 1];
        for operation in [REQUEST, REPLY] {
            let frame = frame(mac, [203, 0, 113, 10].into(), operation);
            assert_eq!(frame[..14], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6]);
            assert_eq!((&frame[28..32], &frame[38..42]), (&[203, 0, 113, 10][..], &[203, 0, 113, 10][..]));
            assert_eq!(frame[20..22], operation.to_be_bytes());
            assert_eq!(claim(&frame), Some(([203, 0, 113, 10].into(), mac)));
        }
    }

    #[test]
    fn a_question_claims_nothing() {
        let frame = question([2, 0, 0, 0, 0, 1], [203, 0, 113, 10].into());
        assert_eq!((&frame[28..32], &frame[38..42]), (&[0; 4][..], &[203, 0, 113, 10][..]));
        assert_eq!((claim(&frame), claim(&frame[..30])), (None, None));
    }
}
