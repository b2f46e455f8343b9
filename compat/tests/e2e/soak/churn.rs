//! What happens to the cluster, chosen by a seed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually};
use litek8s_lab::{Member, Role};
use serde_json::{Value, json};

use super::super::manifests::{config, endpoints, list, network, service};

/// Services, each with addresses of its own; together fewer than the smallest mask has values.
const SERVICES: u64 = 6;
const ADDRESSES: u64 = 3;
const GATEWAYS: [(&str, &str, u32); 2] = [("one", "198.18.0.0/16", 200), ("two", "198.19.0.0/16", 201)];
/// What others do to a node.
const DAMAGE: [&str; 6] = [
    "nft flush ruleset",
    "nft delete table inet netwrangler",
    "ip rule flush proto 110",
    "ip route flush table all proto 110",
    "ip addr flush dev eth1",
    "ip link set eth1 down && ip link set eth1 up",
];

/// `SplitMix64`: the same seed, the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.below(of.len() as u64)).ok()?)
    }

    fn likely(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The cluster as it should be, and what is to happen next.
pub(super) struct Churn {
    random: Random,
    nodes: u8,
    /// A pod on each node: its name and address.
    pods: Vec<(String, String)>,
    /// The addresses of each Service there is, and the nodes with its endpoints.
    services: BTreeMap<u64, (Vec<String>, BTreeSet<u8>)>,
    gateways: BTreeSet<usize>,
    gateway_pods: BTreeSet<usize>,
    drained: BTreeSet<u8>,
}

impl Churn {
    pub(super) fn new(seed: u64, nodes: u8, pods: Vec<(String, String)>) -> Self {
        Self {
            random: Random(seed),
            nodes,
            pods,
            services: BTreeMap::new(),
            gateways: BTreeSet::new(),
            gateway_pods: BTreeSet::new(),
            drained: BTreeSet::new(),
        }
    }

    /// One thing happens.
    pub(super) async fn step(&mut self, cluster: &Cluster) -> Result<()> {
        match self.random.below(100) {
            0..35 => self.put_service(cluster),
            35..45 => self.drop_service(cluster),
            45..53 => self.put_network(cluster),
            53..56 => self.drop_network(cluster),
            56..62 => self.put_config(cluster),
            62..69 => self.toggle_gateway(cluster),
            69..76 => self.toggle_gateway_pod(cluster),
            76..81 => self.toggle_drain(cluster),
            81..91 => self.damage(cluster),
            91..97 => self.kill_agent(cluster).await,
            _ => self.kill_server(cluster).await,
        }
    }

    /// Puts back what is needed for everything to have its place: a configuration, a network, and nobody dead.
    pub(super) async fn settle(&mut self, cluster: &Cluster) -> Result<()> {
        cluster.lab.revive().await?;
        for node in std::mem::take(&mut self.drained) {
            let line = ["annotate", "node", &format!("node-{node}"), "netwrangler.dev/drain-"];
            cluster.kubectl.ok(&line)?;
        }
        cluster.kubectl.apply(&list(&[config(), network()])).map(drop)
    }

    /// The addresses that have to be in place once it is settled.
    pub(super) fn expected(&self) -> Vec<String> {
        let served = self.services.values().filter(|(_, nodes)| !nodes.is_empty());
        served.flat_map(|(addresses, _)| addresses.clone()).collect()
    }

    /// Everything is deleted.
    pub(super) fn end(&mut self, cluster: &Cluster) -> Result<()> {
        self.services.clear();
        for kinds in ["services,endpointslices,pods", "vipgateways,vipnetworks", "vipconfigs"] {
            cluster.kubectl.ok(&["delete", kinds, "--all", "--force", "--grace-period=0"])?;
        }
        Ok(())
    }

    fn put_service(&mut self, cluster: &Cluster) -> Result<()> {
        let key = self.random.below(SERVICES);
        let name = format!("churn-{key}");
        let most = 1 + self.random.below(ADDRESSES);
        let addresses: Vec<String> =
            (0..most).map(|place| format!("203.0.113.{}", 10 + 10 * key + place)).collect();
        let nodes: BTreeSet<u8> = (1..=self.nodes).filter(|_| self.random.likely(60)).collect();
        let mut object = if self.random.likely(25) {
            balanced(&name, &addresses)
        } else {
            service(&name, &addresses.iter().map(String::as_str).collect::<Vec<_>>())
        };
        if self.random.likely(50) {
            let egress = if self.random.likely(30) { "required" } else { "enabled" };
            object["metadata"]["labels"]["netwrangler.dev/egress"] = egress.into();
        }
        let ready: Vec<(String, String)> =
            nodes.iter().map(|&node| (format!("node-{node}"), self.address_on(node))).collect();
        let ready: Vec<(&str, &str)> = ready.iter().map(|(node, ip)| (node.as_str(), ip.as_str())).collect();
        cluster.kubectl.apply(&list(&[object, endpoints(&name, &ready)]))?;
        self.services.insert(key, (addresses, nodes));
        Ok(())
    }

    /// The node itself, or the pod on it.
    fn address_on(&mut self, node: u8) -> String {
        match self.pods.get(usize::from(node) - 1).filter(|_| self.random.likely(50)) {
            Some((_, address)) => address.clone(),
            None => format!("192.0.2.{node}"),
        }
    }

    fn drop_service(&mut self, cluster: &Cluster) -> Result<()> {
        let keys: Vec<u64> = self.services.keys().copied().collect();
        let Some(&key) = self.random.one(&keys) else { return Ok(()) };
        self.services.remove(&key);
        let name = format!("churn-{key}");
        cluster.kubectl.ok(&["delete", "service", &name])?;
        // Its slice may have gone with it, and need not.
        cluster.kubectl.ok(&["delete", "endpointslice", &format!("{name}-1"), "--ignore-not-found"]).map(drop)
    }

    fn put_network(&mut self, cluster: &Cluster) -> Result<()> {
        let mut wanted = network();
        let sources = [&["0.0.0.0/0"][..], &["198.51.100.0/24"], &["10.0.0.0/8", "198.51.0.0/16"], &[]];
        wanted["spec"]["sourceCIDRs"] = json!(self.random.one(&sources));
        if self.random.likely(10) {
            // It cannot be used: what is there stays.
            wanted["spec"]["gatewayIP"] = "198.51.100.1".into();
        }
        // One that it cannot be is refused by the API, or by the controller.
        let _ = cluster.kubectl.run(&["apply", "-f", "-"], &wanted.to_string())?;
        Ok(())
    }

    fn drop_network(&mut self, cluster: &Cluster) -> Result<()> {
        cluster.kubectl.ok(&["delete", "vipnetwork", "public", "--ignore-not-found"]).map(drop)
    }

    fn put_config(&mut self, cluster: &Cluster) -> Result<()> {
        if self.random.likely(20) {
            return cluster.kubectl.ok(&["delete", "vipconfig", "default", "--ignore-not-found"]).map(drop);
        }
        let mut wanted = config();
        let (mark, mask) = *self.random.one(&[(1, 0x7f), (1, 0x3f), (0x100, 0x7f00)]).context("a mask")?;
        wanted["spec"]["firewallMark"] = mark.into();
        wanted["spec"]["firewallMarkMask"] = mask.into();
        wanted["spec"]["routeTable"] = json!(self.random.one(&[20001, 21001]));
        wanted["spec"]["maxAddressCount"] = json!(self.random.one(&[127, 8]));
        cluster.kubectl.apply(&wanted.to_string()).map(drop)
    }

    fn toggle_gateway(&mut self, cluster: &Cluster) -> Result<()> {
        let index = usize::try_from(self.random.below(GATEWAYS.len() as u64))?;
        let (name, destination, table) = GATEWAYS[index];
        if self.gateways.remove(&index) {
            return cluster.kubectl.ok(&["delete", "vipgateway", name]).map(drop);
        }
        self.gateways.insert(index);
        let wanted = json!({
            "apiVersion": "netwrangler.dev/v1", "kind": "VipGateway", "metadata": {"name": name},
            "spec": {"destinationCIDR": destination, "routeTable": table, "routingPriority": table,
                "podSelector": {"matchLabels": {"app": "edge"}}},
        });
        cluster.kubectl.apply(&wanted.to_string()).map(drop)
    }

    fn toggle_gateway_pod(&mut self, cluster: &Cluster) -> Result<()> {
        let index = usize::try_from(self.random.below(self.pods.len() as u64))?;
        let (name, address) = self.pods[index].clone();
        if self.gateway_pods.remove(&index) {
            return cluster.kubectl.ok(&["delete", "pod", &name, "--force", "--grace-period=0"]).map(drop);
        }
        self.gateway_pods.insert(index);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "edge", "netwrangler.dev/gateway": "enabled"}},
            "spec": {"nodeName": format!("node-{}", index + 1), "containers": [{"name": "edge", "image": "edge"}]},
        });
        cluster.kubectl.apply(&pod.to_string())?;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        let patch =
            ["patch", "pod", &name, "--subresource=status", "--type=merge", "-p", &status.to_string()];
        cluster.kubectl.ok(&patch).map(drop)
    }

    fn toggle_drain(&mut self, cluster: &Cluster) -> Result<()> {
        let node = self.node()?;
        let drained = self.drained.contains(&node);
        let word = if drained { "netwrangler.dev/drain-" } else { "netwrangler.dev/drain=true" };
        cluster.kubectl.ok(&["annotate", "node", &format!("node-{node}"), word])?;
        if drained {
            self.drained.remove(&node);
        } else {
            self.drained.insert(node);
        }
        Ok(())
    }

    fn damage(&mut self, cluster: &Cluster) -> Result<()> {
        let node = Member::Node(self.node()?);
        let damage = *self.random.one(&DAMAGE).context("some damage")?;
        // What is not there cannot be damaged.
        cluster.run(&node, &["sh", "-c", &format!("{damage} || true")]).map(drop)
    }

    /// Sometimes together with a change that it does not see any more.
    async fn kill_agent(&mut self, cluster: &Cluster) -> Result<()> {
        let node = Member::Node(self.node()?);
        cluster.lab.kill(Role::Agent, &node)?;
        if self.random.likely(70) {
            self.put_service(cluster)?;
        }
        if self.random.likely(30) {
            self.damage(cluster)?;
        }
        cluster.lab.revive().await
    }

    async fn kill_server(&mut self, cluster: &Cluster) -> Result<()> {
        cluster.lab.kill(Role::Apiserver, &Member::Server)?;
        self.damage(cluster)?;
        cluster.lab.revive().await?;
        eventually("the API to answer", || {
            let listed = cluster.kubectl.ok(&["get", "nodes", "-o", "name"])?;
            ensure!(listed.lines().count() == usize::from(self.nodes), "{listed}");
            Ok(())
        })
    }

    fn node(&mut self) -> Result<u8> {
        Ok(1 + u8::try_from(self.random.below(u64::from(self.nodes)))?)
    }
}

/// A Service of our load balancer class.
fn balanced(name: &str, addresses: &[String]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": {},
            "annotations": {"netwrangler.dev/addresses": addresses.join(",")}},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "netwrangler.dev/vip",
            "ports": [{"port": 80, "protocol": "TCP"}]},
    })
}
