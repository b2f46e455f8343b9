//! Builds what the topology describes: namespaces, bridges, cables, addresses, routes.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use litek8s_kernel::{Links, Netns};

use crate::topology::{pod_address, pod_gateway, pod_v6, within};
use crate::{Cable, Member, Topology};

/// A new bridge to nowhere takes a port that was cut, so that its carrier stays: what a broken switch looks like.
const NOWHERE_PREFIX: &str = "x-";

/// Builds everything; what is half there afterwards, `down` removes.
pub(crate) async fn build(topology: &Topology) -> Result<()> {
    for member in topology.members() {
        add_member(topology, &member).await.with_context(|| format!("build {member}"))?;
    }
    let lan = Links::open(&open(topology, &Member::Lan)?)?;
    for cable in topology.cables() {
        plug_in(topology, &lan, &cable).await.with_context(|| format!("plug in {}", cable.port()))?;
    }
    for member in topology.members() {
        address(topology, &member).await.with_context(|| format!("address {member}"))?;
    }
    Ok(())
}

/// The open namespace of a member.
pub(crate) fn open(topology: &Topology, member: &Member) -> Result<Netns> {
    let name = topology.namespace(member);
    Netns::open(&name).with_context(|| format!("cluster {} has no {member}", topology.name()))
}

async fn add_member(topology: &Topology, member: &Member) -> Result<()> {
    let namespace = Netns::create(&topology.namespace(member))?;
    for (key, value) in topology.sysctls(member) {
        if has_ipv6() || !key.starts_with("net/ipv6/") {
            namespace.write_sysctl(key, value)?;
        }
    }
    let links = Links::open(&namespace)?;
    links.set_up("lo").await?;
    for bridge in topology.bridges(member) {
        links.add_bridge(bridge).await?;
        links.set_up(bridge).await?;
    }
    Ok(())
}

async fn plug_in(topology: &Topology, lan: &Links, cable: &Cable) -> Result<()> {
    let far = open(topology, &cable.member)?;
    lan.add_veth(&cable.port(), cable.segment.device(), &far).await?;
    lan.attach(&cable.port(), cable.segment.bridge()).await?;
    Links::open(&far)?.set_up(cable.segment.device()).await?;
    Ok(())
}

async fn address(topology: &Topology, member: &Member) -> Result<()> {
    let links = Links::open(&open(topology, member)?)?;
    for interface in topology.addresses(member) {
        if has_ipv6() || interface.address.addr().is_ipv4() {
            links.add_address(interface.device, interface.address).await?;
        }
    }
    for (gateway, device) in topology.default_routes(member) {
        if has_ipv6() || gateway.is_ipv4() {
            links.add_route(everywhere(gateway), Some(gateway), device).await?;
        }
    }
    Ok(())
}

/// Whether this machine's kernel has IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A namespace behind a node's pod bridge, as a CNI plugin would make it. Gives its IPv4 address; that of IPv6 ends alike.
pub(crate) async fn add_pod(topology: &Topology, node: u8, name: &str, index: u8) -> Result<Ipv4Net> {
    let member = Member::Pod(name.to_owned());
    let address = pod_address(node, index).with_context(|| format!("no address left on node {node}"))?;
    let pod = Netns::create(&topology.namespace(&member))?;
    let host = Links::open(&open(topology, &Member::Node(node))?)?;
    // A name for the host's end that the kernel takes, whatever the pod is called.
    let end = format!("pod{node}x{index}");
    host.add_veth(&end, "eth0", &pod).await?;
    host.attach(&end, "cni0").await?;
    let inside = Links::open(&pod)?;
    inside.set_up("lo").await?;
    inside.set_up("eth0").await?;
    let mut addresses = vec![(IpNet::V4(address), IpAddr::V4(pod_gateway(node)))];
    if has_ipv6() {
        let six = pod_v6(node, address.addr().octets()[3]);
        addresses.push((within(six), pod_v6(node, 1).into()));
    }
    for (address, gateway) in addresses {
        inside.add_address("eth0", address).await?;
        inside.add_route(everywhere(gateway), Some(gateway), "eth0").await?;
    }
    Ok(address)
}

/// Takes a cable's port off its bridge: no packet passes, both ends keep their carrier.
pub(crate) async fn cut(topology: &Topology, cable: &Cable) -> Result<()> {
    let lan = Links::open(&open(topology, &Member::Lan)?)?;
    let nowhere = format!("{NOWHERE_PREFIX}{}", cable.port());
    if lan.get(&nowhere).await.is_err() {
        lan.add_bridge(&nowhere).await?;
        lan.set_up(&nowhere).await?;
    }
    Ok(lan.attach(&cable.port(), &nowhere).await?)
}

/// Undoes [`cut`].
pub(crate) async fn heal(topology: &Topology, cable: &Cable) -> Result<()> {
    let lan = Links::open(&open(topology, &Member::Lan)?)?;
    Ok(lan.attach(&cable.port(), cable.segment.bridge()).await?)
}

/// Sets the bridge's end of a cable down or up: the member's device loses or regains its carrier.
pub(crate) async fn set_carrier(topology: &Topology, cable: &Cable, carrier: bool) -> Result<()> {
    let lan = Links::open(&open(topology, &Member::Lan)?)?;
    if carrier {
        lan.set_up(&cable.port()).await?
    } else {
        lan.set_down(&cable.port()).await?
    }
    Ok(())
}

/// All addresses of a gateway's family.
fn everywhere(gateway: IpAddr) -> IpNet {
    if gateway.is_ipv4() { Ipv4Net::default().into() } else { Ipv6Net::default().into() }
}

#[cfg(test)]
mod tests;
