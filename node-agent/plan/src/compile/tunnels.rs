//! Gateway pods behind WireGuard interfaces of others. What is sent to a gateway's destination reaches a pod there only
//! when the destination is among the allowed IPs of the peer that the pod is behind. An interface has a network at one peer
//! alone, so the pods of one peer are used, and entries of others stay where they are.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Plan, gateway};
use crate::{AllowedIp, Facts, GatewayPod, NextHop, PeerKey, Tunnel};

/// A peer's endpoint inside the destination, and the interface whose peer it is.
pub(super) fn endpoint(facts: &Facts, destination: IpNet) -> Option<(&str, IpAddr)> {
    facts.tunnels.iter().find_map(|(name, tunnel)| Some((name.as_str(), tunnel.endpoint_in(destination)?)))
}

/// A pod behind a peer, and the way to it.
struct Behind<'a> {
    pod: &'a GatewayPod,
    way: &'a NextHop,
    peer: PeerKey,
}

/// The ways that packets to the destination can take. The allowed IPs they need go into the plan, and pods that no packet
/// would reach to the unusable ones.
pub(super) fn passable<'a>(
    plan: &mut Plan,
    facts: &Facts,
    destination: IpNet,
    ways: Vec<(&'a GatewayPod, &'a NextHop)>,
    unusable: &mut Vec<String>,
) -> Vec<&'a NextHop> {
    let mut passable = Vec::new();
    let mut behind: BTreeMap<&str, Vec<Behind<'a>>> = BTreeMap::new();
    for (pod, way) in ways {
        let interface = way.interface.as_str();
        let Some(tunnel) = facts.tunnels.get(interface) else {
            passable.push(way);
            continue;
        };
        match tunnel.peer_of(pod.address.into()) {
            Some(peer) => behind.entry(interface).or_default().push(Behind { pod, way, peer }),
            None => {
                unusable
                    .push(gateway::unusable(pod, &format!("no peer of {interface} is allowed its address")));
            }
        }
    }
    for (interface, mut pods) in behind {
        pods.sort_by_key(|behind| behind.pod.address);
        let key = AllowedIp { interface: interface.to_owned(), network: destination };
        let chosen = choose(plan, facts, &facts.tunnels[interface], &key, &pods);
        for Behind { pod, way, peer } in pods {
            match chosen {
                Ok(chosen) if chosen == peer => passable.push(way),
                Ok(chosen) | Err(chosen) => {
                    let why =
                        format!("{interface} leads {destination} to another peer, {chosen}, than {peer}");
                    unusable.push(gateway::unusable(pod, &why));
                }
            }
        }
        if let Ok(chosen) = chosen
            && facts.tunnels[interface].peer_of(destination) != Some(chosen)
        {
            plan.desired.allowed_ips.insert(key, chosen);
        }
    }
    passable
}

/// The peer that is to have the destination, or the one that has it and cannot lead to any of the pods.
///
/// What its owner gave to a peer stays there. Else the peer that has it from us keeps it while it can, so that no
/// connection is cut; else it is the one with the first pod.
fn choose(
    plan: &Plan,
    facts: &Facts,
    tunnel: &Tunnel,
    key: &AllowedIp,
    pods: &[Behind<'_>],
) -> Result<PeerKey, PeerKey> {
    let leads = |peer: &PeerKey| pods.iter().any(|behind| behind.peer == *peer);
    if let Some(holder) = tunnel.holder(key.network).or_else(|| plan.desired.allowed_ips.get(key).copied()) {
        return if leads(&holder) { Ok(holder) } else { Err(holder) };
    }
    let kept = facts.allowed_ips.get(key).copied().filter(leads);
    Ok(kept.unwrap_or(pods[0].peer))
}
