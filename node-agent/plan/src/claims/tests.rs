//! What stays known of ours, whatever an agent's life or the interfaces' owner does.

use super::*;
use crate::{Peer, Tunnel};

const EAST: PeerKey = PeerKey([2; 32]);
const WEST: PeerKey = PeerKey([3; 32]);

fn network() -> IpNet {
    "172.30.0.0/16".parse().unwrap()
}

fn key() -> AllowedIp {
    AllowedIp { interface: "wg0".into(), network: network() }
}

/// A node whose wg0 has the network at this peer, as read from the kernel.
fn read(index: u32, holder: Option<PeerKey>) -> Observed {
    let peers = [(EAST, "10.42.2.0/24"), (WEST, "10.42.3.0/24")].map(|(peer, pods)| {
        let mut allowed_ips = BTreeSet::from([pods.parse().unwrap()]);
        allowed_ips.extend((holder == Some(peer)).then(network));
        (peer, Peer { endpoint: None, allowed_ips })
    });
    let tunnels = [("wg0".to_owned(), Tunnel { index, peers: peers.into() })];
    Observed { tunnels: tunnels.into(), ..Observed::default() }
}

/// At which peer the network is found to be ours.
fn ours(claims: &Claims, index: u32, holder: Option<PeerKey>) -> Option<PeerKey> {
    let mut observed = read(index, holder);
    claims.sort_out(&mut observed);
    let found = observed.allowed_ips.get(&key()).copied();
    let theirs = observed.tunnels["wg0"].holder(network());
    assert_eq!(found.or(theirs), holder, "an entry is ours or theirs");
    found
}

#[test]
fn an_entry_is_ours_from_before_it_is_added_until_it_is_removed() {
    let none = Claims::default();
    assert_eq!(ours(&none, 7, Some(EAST)), None, "what its owner gave is theirs");
    let adding = Claims::before(&read(7, None), &[Op::AddAllowedIp(key(), EAST)]);
    assert_eq!(ours(&adding, 7, None), None, "died before it was added");
    assert_eq!(ours(&adding, 7, Some(EAST)), Some(EAST), "died after it was added");

    // Moved: both are known until it has moved.
    let mut observed = read(7, Some(EAST));
    adding.sort_out(&mut observed);
    let moving = Claims::before(&observed, &[Op::AddAllowedIp(key(), WEST)]);
    assert_eq!([EAST, WEST].map(|at| ours(&moving, 7, Some(at))), [Some(EAST), Some(WEST)]);
    let desired = Desired { allowed_ips: [(key(), WEST)].into(), ..Desired::default() };
    let moved = Claims::after(&desired, &observed, [].iter());
    assert_eq!([EAST, WEST].map(|at| ours(&moved, 7, Some(at))), [None, Some(WEST)]);

    // Removed, unless the kernel refused.
    let mut observed = read(7, Some(WEST));
    moved.sort_out(&mut observed);
    let remove = Op::RemoveAllowedIp(key(), WEST);
    assert_eq!(Claims::before(&observed, std::slice::from_ref(&remove)), moved);
    assert_eq!(Claims::after(&Desired::default(), &observed, [remove].iter()), moved);
    assert_eq!(Claims::after(&Desired::default(), &observed, [].iter()), none);
}

#[test]
fn what_its_owner_moved_or_made_anew_is_theirs() {
    let claims = Claims::before(&read(7, None), &[Op::AddAllowedIp(key(), EAST)]);
    assert_eq!(ours(&claims, 7, Some(WEST)), None, "at another peer");
    assert_eq!(ours(&claims, 8, Some(EAST)), None, "on another interface of the same name");
    // And forgotten with the next note.
    let mut observed = read(7, Some(WEST));
    claims.sort_out(&mut observed);
    assert_eq!(Claims::before(&observed, &[]), Claims::default());
}
