//! Tries, in an empty namespace that ends with the call, everything a plan may ask of the kernel: what is missing has a
//! name before anything is built on it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::thread;

use ipnet::{IpNet, Ipv4Net};
use litek8s_plan::{Facts, Flow, Interface, Op, Vip, compile, diff};
use nix::sched::{CloneFlags, unshare};

use crate::{Kernel, KernelError, Links, Netns};

/// A kernel feature that was tried and is not there, or not for this process.
#[derive(Debug, thiserror::Error)]
#[error("this kernel has no {feature} ({option}), or does not let this process use it")]
pub struct MissingFeature {
    /// What is missing, in words.
    pub feature: &'static str,
    /// The kernel options or modules that bring it.
    pub option: &'static str,
    /// What the kernel said.
    #[source]
    pub source: KernelError,
}

/// Tries links, addresses, routes, rules, nftables, connection tracking and raw sockets.
///
/// # Errors
/// With the first feature that is missing.
pub async fn probe() -> Result<(), MissingFeature> {
    let missing = |feature, option| move |source| MissingFeature { feature, option, source };
    let namespace = anonymous().map_err(missing("network namespaces", "CONFIG_NET_NS"))?;
    let links = Links::open(&namespace).map_err(missing("rtnetlink", "CONFIG_NET"))?;
    links.add_bridge("probe-br").await.map_err(missing("bridges", "CONFIG_BRIDGE, module bridge"))?;
    let veth = links.add_veth("probe-a", "probe-b", &namespace).await;
    veth.map_err(missing("veth pairs", "CONFIG_VETH, module veth"))?;
    for end in ["probe-a", "probe-b"] {
        links.set_up(end).await.map_err(missing("veth pairs that go up", "CONFIG_VETH"))?;
    }
    let kernel = Kernel::open(namespace)
        .map_err(missing("netfilter or packet sockets", "CONFIG_NETFILTER_NETLINK, CONFIG_PACKET"))?;
    let observed = kernel.observe().await.map_err(missing("nf_tables", "CONFIG_NF_TABLES"))?;
    let mut ops = diff(&compile(&facts()).desired, &observed);
    ops.push(Op::Forget(Flow::Address(ADDRESS.into())));
    for op in ops {
        if let Some((op, source)) = kernel.apply(std::slice::from_ref(&op)).await.failed {
            let (feature, option) = needed(&op);
            return Err(MissingFeature { feature, option, source });
        }
    }
    Ok(())
}

/// An address that is documentation's, in a namespace that nothing leaves.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// One VIP with everything a VIP can have.
fn facts() -> Facts {
    let network = |a, b, c, length| -> IpNet {
        Ipv4Net::new(Ipv4Addr::new(a, b, c, 0), length).unwrap_or_default().into()
    };
    Facts {
        mask: 0x7f,
        cluster_networks: vec![network(10, 42, 0, 16)],
        vips: vec![Vip {
            name: "probe/probe-1".to_owned(),
            index: 1,
            interface: "probe-a".to_owned(),
            virtual_cidr: Ipv4Net::new(ADDRESS, 24).unwrap_or_default().into(),
            gateway: Some(Ipv4Addr::new(203, 0, 113, 254).into()),
            source_cidrs: vec![network(10, 9, 0, 16)],
            mark: 1,
            table: 20001,
            priority: 20001,
            endpoints: BTreeSet::from([Ipv4Addr::new(10, 42, 0, 5).into()]),
        }],
        interfaces: BTreeMap::from([(
            "probe-a".to_owned(),
            Interface { up: true, carrier: true, ..Interface::default() },
        )]),
        ..Facts::default()
    }
}

/// What an op needs of the kernel.
fn needed(op: &Op) -> (&'static str, &'static str) {
    match op {
        Op::AddRule(_) | Op::DeleteRule(_) => ("policy routing", "CONFIG_IP_MULTIPLE_TABLES"),
        Op::AddRoute(..) | Op::ReplaceRoute(..) | Op::DeleteRoute(..) => {
            ("route tables", "CONFIG_IP_MULTIPLE_TABLES")
        }
        Op::Nft(_) => (
            "nf_tables with verdict maps, conntrack keys, NAT and routing lookups",
            "CONFIG_NF_TABLES_INET, CONFIG_NFT_CT, CONFIG_NFT_NAT, CONFIG_NFT_FIB_INET",
        ),
        Op::Forget(_) => ("conntrack netlink", "CONFIG_NF_CT_NETLINK"),
        Op::AddAllowedIp(..) | Op::RemoveAllowedIp(..) => ("WireGuard", "CONFIG_WIREGUARD"),
        Op::Announce { .. } => ("packet sockets", "CONFIG_PACKET"),
        Op::AddAddress(..) | Op::RenewAddress(..) | Op::DeleteAddress(_) | Op::PromoteSecondaries(_) => {
            ("IPv4", "CONFIG_INET")
        }
    }
}

/// A namespace without a name: the handle alone keeps it.
fn anonymous() -> Result<Netns, KernelError> {
    let fail = |source| KernelError::Namespace { name: "(probe)".to_owned(), action: "create it", source };
    let made = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| fail(errno.into()))?;
        Netns::current()
    });
    made.join().unwrap_or_else(|_| Err(fail(std::io::Error::other("the thread making it died"))))
}
