//! A node with an interface on the VIP network, and its facts.

use std::collections::{BTreeMap, BTreeSet};

use litek8s_kernel::{Applied, Kernel, Links};
use litek8s_plan::{Address, AddressKey, Desired, Facts, LIFETIME, Observed, Op, Vip, compile, diff};

use crate::scratch::Scratch;

/// A namespace with `eth1` up, its other end in a namespace of its own.
pub(crate) struct Node {
    pub(crate) scratch: Scratch,
    pub(crate) outside: Scratch,
    pub(crate) kernel: Kernel,
    pub(crate) links: Links,
}

impl Node {
    pub(crate) async fn new() -> Self {
        Self::with_interface("eth1").await
    }

    pub(crate) async fn with_interface(name: &str) -> Self {
        let (scratch, outside) = (Scratch::new(), Scratch::new());
        let links = Links::open(&scratch.netns).unwrap();
        links.add_veth(name, "far", &outside.netns).await.unwrap();
        links.set_up("lo").await.unwrap();
        links.set_up(name).await.unwrap();
        let far = Links::open(&outside.netns).unwrap();
        far.set_up("far").await.unwrap();
        far.add_address("far", "203.0.113.254/24".parse().unwrap()).await.unwrap();
        far.add_address("far", "2001:db8:113::254/64".parse().unwrap()).await.unwrap();
        let kernel = Kernel::open(scratch.reopen()).unwrap();
        Self { scratch, outside, kernel, links }
    }

    /// The desired state for these VIPs as the node is now.
    pub(crate) async fn plan(&self, vips: &[Vip]) -> (Desired, Observed) {
        let observed = self.kernel.observe().await.unwrap();
        let facts = Facts {
            mask: 0x7f,
            cluster_networks: ["10.42.0.0/16", "10.96.0.0/12", "fd42::/56"]
                .map(|net| net.parse().unwrap())
                .into(),
            node_addresses: ["192.0.2.1", "192.0.2.2", "fd00:192::1"].map(|ip| ip.parse().unwrap()).into(),
            vips: vips.to_vec(),
            interfaces: observed.interfaces.clone(),
            ..Facts::default()
        };
        (compile(&facts).desired, observed)
    }

    /// Brings the node to what these VIPs want and returns the ops it took.
    pub(crate) async fn settle(&self, vips: &[Vip]) -> Vec<Op> {
        let (desired, observed) = self.plan(vips).await;
        let ops = diff(&desired, &observed);
        let applied: Applied = self.kernel.apply(&ops).await;
        assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
        assert_eq!(applied.done, ops.len());
        self.assert_settled(vips).await;
        ops
    }

    /// The kernel holds exactly what is desired, and nothing is left to do.
    pub(crate) async fn assert_settled(&self, vips: &[Vip]) {
        let (desired, observed) = self.plan(vips).await;
        assert_eq!(observed.nft, desired.nft);
        assert_eq!(observed.rules, desired.rules);
        assert_eq!(observed.routes, desired.routes);
        // Of a lifetime some may be gone.
        let whole = |(key, address): (&AddressKey, &Address)| {
            (key.clone(), Address { seconds: LIFETIME, ..address.clone() })
        };
        let there: BTreeMap<_, _> = observed.addresses.iter().map(whole).collect();
        assert_eq!(there, desired.addresses);
        assert_eq!(diff(&desired, &observed), []);
    }
}

/// The `number`th VIP, on eth1: 203.0.113.10 is the first.
pub(crate) fn vip(number: u32, sources: &[&str]) -> Vip {
    let last = u8::try_from(9 + number).unwrap();
    Vip {
        name: format!("default/web-{number}"),
        index: number,
        interface: "eth1".into(),
        virtual_cidr: format!("203.0.113.{last}/24").parse().unwrap(),
        gateway: Some("203.0.113.254".parse().unwrap()),
        source_cidrs: sources.iter().map(|source| source.parse().unwrap()).collect(),
        mark: number,
        table: 20000 + number,
        priority: 20000 + number,
        endpoints: BTreeSet::new(),
    }
}

/// The `number`th VIP, of IPv6: 2001:db8:113::10 is the first.
pub(crate) fn long_vip(number: u32, sources: &[&str]) -> Vip {
    let last = 9 + number;
    Vip {
        virtual_cidr: format!("2001:db8:113::{last}/64").parse().unwrap(),
        gateway: "2001:db8:113::254".parse().ok(),
        source_cidrs: sources.iter().map(|source| source.parse().unwrap()).collect(),
        ..vip(number, &[])
    }
}

/// The VIPs of the golden files with both families.
pub(crate) fn dual() -> Vec<Vip> {
    let mut vips = golden();
    let mut third = long_vip(3, &["2001:db8:9::/48"]);
    third.virtual_cidr = "2001:db8:113::10/64".parse().unwrap();
    third.endpoints.insert("fd42::5".parse().unwrap());
    vips.push(third);
    vips
}

/// The two VIPs of the golden files.
pub(crate) fn golden() -> Vec<Vip> {
    let mut first = vip(1, &["10.9.0.0/16"]);
    first.endpoints.insert("10.42.0.5".parse().unwrap());
    vec![first, vip(2, &["0.0.0.0/0"])]
}
