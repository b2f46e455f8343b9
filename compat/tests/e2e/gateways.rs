//! Pods as gateways: packets go through them, or nowhere.
//!
//! ```text
//! client on node-3 ─► node-3 ─► node-1 or node-2 ─► gateway pod, which masquerades ─► its node ─► 198.51.100.1 outside
//! ```
//! The responder outside says which address it saw: a pod's is right, the client's own came by the default route.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use litek8s_compat::{Cluster, Counters, Traffic, eventually};
use litek8s_lab::{Member, Role};
use serde_json::{Value, json};

use super::manifests::{dual_config, list};

const WHO: &str = "http://198.51.100.1:8080/client";
const WHO_V6: &str = "http://[2001:db8:51::1]:8080/client";
/// Agents killed while pods come or go, each a little later into it than the one before.
const CRASHES: u64 = 8;
const CRASH_STEP: Duration = Duration::from_millis(20);

pub(super) fn gateway(name: &str, destination: &str) -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipGateway", "metadata": {"name": name},
        "spec": {"destinationCIDR": destination, "routeTable": 200, "routingPriority": 100,
            "podSelector": {"matchLabels": {"app": "edge"}}},
    })
}

/// A cluster of three nodes with routes between their pods as a network plugin makes them, and a client on the third.
pub(super) struct Place {
    pub(super) cluster: Cluster,
    client: Member,
    client_address: String,
    _outside: litek8s_compat::Background,
}

impl Place {
    async fn up(name: &str) -> Result<Self> {
        Self::on(Cluster::up(name, 3).await?).await
    }

    /// The same on a cluster of three nodes that is there.
    pub(super) async fn on(mut cluster: Cluster) -> Result<Self> {
        let outside = cluster.responder(&Member::Outside, 8080)?;
        for node in 1..=3u8 {
            for other in (1..=3u8).filter(|other| *other != node) {
                let line = format!(
                    "ip route add 10.42.{other}.0/24 via 192.0.2.{other}; ip route add fd42:0:0:{other}::/64 via fd00:192::{other}"
                );
                cluster.run(&Member::Node(node), &["sh", "-c", &line])?;
            }
            let line = format!(
                "ip route add 10.42.{node}.0/24 via 192.0.2.{node}; ip route add fd42:0:0:{node}::/64 via fd00:192::{node}"
            );
            cluster.run(&Member::Outside, &["sh", "-c", &line])?;
        }
        // Each connection may take another pod.
        let policy = ["net.ipv4.fib_multipath_hash_policy=1", "net.ipv6.fib_multipath_hash_policy=1"];
        cluster.run(&Member::Node(3), &["sysctl", "-qw", policy[0], policy[1]])?;
        let client_address = cluster.lab.add_pod(&Member::Node(3), "client").await?.to_string();
        cluster.kubectl.apply(&list(&[dual_config()]))?;
        Ok(Self { cluster, client: Member::Pod("client".to_owned()), client_address, _outside: outside })
    }

    /// A pod on a node that leads to everywhere, and its object. Gives its address.
    pub(super) async fn add_pod(&mut self, node: u8, name: &str) -> Result<String> {
        let address = self.cluster.lab.add_pod(&Member::Node(node), name).await?.to_string();
        let script = "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; nft 'table inet edge { chain out { \
            type nat hook postrouting priority srcnat; ip daddr 198.51.100.0/24 masquerade; \
            ip6 daddr 2001:db8:51::/48 masquerade; }; }'";
        self.cluster.run(&Member::Pod(name.to_owned()), &["sh", "-c", script])?;
        self.announce(node, name, &address)?;
        Ok(address)
    }

    /// The object of a pod that runs.
    fn announce(&self, node: u8, name: &str, address: &str) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "edge", "netwrangler.dev/gateway": "enabled"}},
            "spec": {"nodeName": format!("node-{node}"), "containers": [{"name": "gateway", "image": "gateway"}]},
        });
        self.cluster.kubectl.apply(&pod.to_string())?;
        let both = json!([{"ip": address}, {"ip": six(address)}]);
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": both}});
        let patch = ["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &status.to_string()];
        self.cluster.kubectl.ok(&patch)?;
        Ok(())
    }

    pub(super) fn delete_pod(&self, name: &str) -> Result<()> {
        self.cluster.kubectl.ok(&["delete", "pod", name, "--force", "--grace-period=0"])?;
        Ok(())
    }

    fn seen(&self) -> Result<String> {
        self.cluster.ask(&self.client, WHO, None)
    }

    /// Waits until the client is seen outside with this address.
    pub(super) fn await_seen(&self, address: &str) -> Result<()> {
        eventually(&format!("the client to be seen as {address}"), || match self.seen()? {
            seen if seen == address => Ok(()),
            other => bail!("seen as {other}"),
        })
        .with_context(|| self.cluster.logs())
    }

    /// Waits until packets are refused at once, which is neither an answer nor silence.
    pub(super) fn await_refused(&self) -> Result<()> {
        eventually("the destination to be unreachable", || match self.seen() {
            Ok(seen) => bail!("seen as {seen}"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains("No route to host"), "{text}");
                Ok(())
            }
        })
        .with_context(|| self.cluster.logs())
    }

    /// Waits until a VipGateway stands so on the nodes: `3/3`.
    pub(super) fn await_nodes(&self, name: &str, nodes: &str) -> Result<Value> {
        eventually(&format!("{name} on {nodes} nodes"), || {
            let found = self.cluster.kubectl.json(&["get", "vipgateway", name])?;
            ensure!(found["status"]["nodes"] == nodes, "{found}");
            Ok(found)
        })
        .with_context(|| self.cluster.logs())
    }

    /// Counts what arrives outside with the client's own source: it came by a default route.
    pub(super) fn leaks(&self) -> Result<Counters> {
        let leaked = format!("ip daddr 198.51.100.1 ip saddr {}", self.client_address);
        Counters::new(&self.cluster, &Member::Outside, "prerouting", &[("leaked", &leaked)])
    }
}

/// The IPv6 address of a pod, which ends like that of IPv4: 10.42.1.2 and fd42:0:0:1::2.
fn six(address: &str) -> String {
    let mut numbers = address.rsplit('.');
    let (last, node) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    format!("fd42:0:0:{node}::{last}")
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

#[tokio::test]
async fn traffic_goes_through_the_gateways_pods_or_nowhere() -> Result<()> {
    let mut place = Place::up("gateways").await?;
    let own = place.client_address.clone();
    place.await_seen(&own)?;
    place.cluster.kubectl.apply(&gateway("edge", "198.51.100.0/24").to_string())?;
    place.await_nodes("edge", "3/3")?;
    let leaks = place.leaks()?;
    place.await_refused()?;

    let first = place.add_pod(1, "first").await?;
    place.await_seen(&first)?;
    let second = place.add_pod(2, "second").await?;
    place.await_seen(&second)?;
    place.await_seen(&first)?;
    let route = place.cluster.run(&Member::Node(3), &["ip", "route", "show", "table", "200"])?;
    ensure!(route.contains("nexthop via 192.0.2.1 dev eth0") && route.contains("via 192.0.2.2"), "{route}");
    // A node with a pod of its own uses that one.
    let route = place.cluster.run(&Member::Node(1), &["ip", "route", "show", "table", "200"])?;
    ensure!(route.contains(&format!("via {first} dev cni0")) && !route.contains("192.0.2.2"), "{route}");

    // The first one dies: only the other is left.
    place.cluster.lab.remove_pod("first")?;
    place.delete_pod("first")?;
    eventually("one way to be left", || {
        let route = place.cluster.run(&Member::Node(3), &["ip", "route", "show", "table", "200"])?;
        ensure!(!route.contains("192.0.2.1 ") && route.contains("via 192.0.2.2"), "{route}");
        Ok(())
    })?;
    for _ in 0..10 {
        ensure!(place.seen()? == second);
    }
    place.delete_pod("second")?;
    place.await_refused()?;
    let closed = place.await_nodes("edge", "3/3")?;
    ensure!(condition(&closed, "Ready")["reason"] == "NoPod", "{closed}");

    // A pod that is replaced has another address.
    let third = place.add_pod(1, "third").await?;
    ensure!(third != first);
    place.await_seen(&third)?;
    ensure!(leaks.read(&place.cluster, "leaked")? == 0, "something left by the default route");

    // Without the gateway the way is open again, and nothing of it is left.
    place.cluster.kubectl.ok(&["delete", "vipgateway", "edge"])?;
    place.await_seen(&own)?;
    eventually("nothing of it to be left", || {
        for node in 1..=3 {
            let rules = place.cluster.run(&Member::Node(node), &["ip", "rule"])?;
            ensure!(!rules.contains("proto 110"), "{rules}");
        }
        Ok(())
    })
}

#[tokio::test]
async fn traffic_of_ipv6_goes_through_the_gateways_pods_or_nowhere() -> Result<()> {
    let mut place = Place::up("gatewaysix").await?;
    let own = six(&place.client_address);
    let seen_as = |place: &Place, address: &str| {
        eventually(&format!("the client to be seen as {address}"), || {
            let seen = place.cluster.ask(&place.client, WHO_V6, None)?;
            ensure!(seen == address, "seen as {seen}");
            Ok(())
        })
        .with_context(|| place.cluster.logs())
    };
    seen_as(&place, &own)?;
    place.cluster.kubectl.apply(&gateway("edge", "2001:db8:51::/48").to_string())?;
    place.await_nodes("edge", "3/3")?;
    let leaked = format!("ip6 daddr 2001:db8:51::1 ip6 saddr {own}");
    let leaks = Counters::new(&place.cluster, &Member::Outside, "prerouting", &[("leaked", &leaked)])?;
    let first = six(&place.add_pod(1, "first").await?);
    seen_as(&place, &first)?;
    let second = six(&place.add_pod(2, "second").await?);
    seen_as(&place, &second)?;
    seen_as(&place, &first)?;
    // The other family does not go there.
    ensure!(place.seen()? == place.client_address);
    for pod in ["first", "second"] {
        place.cluster.lab.remove_pod(pod)?;
        place.delete_pod(pod)?;
    }
    eventually("the destination to be unreachable", || {
        match place.cluster.ask(&place.client, WHO_V6, None) {
            Ok(seen) => bail!("seen as {seen}"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains("Network is unreachable"), "{text}");
                Ok(())
            }
        }
    })
    .with_context(|| place.cluster.logs())?;
    ensure!(leaks.read(&place.cluster, "leaked")? == 0, "something left by the default route");
    Ok(())
}

#[tokio::test]
async fn no_packet_takes_the_default_route_wherever_an_agent_dies() -> Result<()> {
    let mut place = Place::up("gatewaycrash").await?;
    place.cluster.kubectl.apply(&gateway("edge", "198.51.100.0/24").to_string())?;
    place.await_nodes("edge", "3/3")?;
    let leaks = place.leaks()?;
    let addresses = [place.add_pod(1, "first").await?, place.add_pod(2, "second").await?];
    place.await_seen(&addresses[0])?;
    place.await_seen(&addresses[1])?;
    let asking = Traffic::start(&place.cluster.lab, &place.client, WHO, None)?;
    let pods = [(1, "first"), (2, "second")];
    for crash in 0..CRASHES {
        // Both go one after the other, and come back.
        let (node, pod) = pods[usize::try_from(crash % 2)?];
        if crash % 4 < 2 {
            place.delete_pod(pod)?;
        } else {
            place.announce(node, pod, &addresses[usize::from(node) - 1])?;
        }
        // Not a wait for anything: the moment of the crash is what varies.
        std::thread::sleep(CRASH_STEP * u32::try_from(crash / 2)?);
        for victim in [node, 3] {
            place.cluster.lab.kill(Role::Agent, &Member::Node(victim))?;
        }
        place.cluster.lab.revive().await?;
    }
    place.await_seen(&addresses[0])?;
    let (answered, _) = asking.stop();
    ensure!(answered > 0);
    let leaked = leaks.read(&place.cluster, "leaked")?;
    ensure!(leaked == 0, "{leaked} packets left by the default route");
    Ok(())
}

#[tokio::test]
async fn a_refusal_says_where_and_why() -> Result<()> {
    let place = Place::up("gatewayrefused").await?;
    place.cluster.kubectl.apply(&gateway("lan", "192.0.2.128/25").to_string())?;
    let refused = place.await_nodes("lan", "0/3")?;
    eventually("the conflict to be named", || {
        let found = place.cluster.kubectl.json(&["get", "vipgateway", "lan"])?;
        let accepted = condition(&found, "Accepted");
        ensure!(accepted["status"] == "False" && accepted["reason"] == "RefusedEverywhere", "{found}");
        let message = accepted["message"].as_str().unwrap_or_default();
        ensure!(message.contains("node-1: overlaps eth0 192.0.2.1/24"), "{message}");
        let described = place.cluster.kubectl.ok(&["describe", "vipgateway", "lan"])?;
        ensure!(described.contains("GatewayRefused"), "{described}");
        Ok(())
    })
    .with_context(|| format!("{refused}\n{}", place.cluster.logs()))?;
    place.cluster.kubectl.ok(&["delete", "vipgateway", "lan"])?;

    // A network of one node refuses it there, for as long as it is there.
    let node = Member::Node(2);
    place
        .cluster
        .run(&node, &["sh", "-c", "ip link add br9 type bridge; ip addr add 172.30.0.1/24 dev br9"])?;
    place.cluster.kubectl.apply(&gateway("edge", "172.30.0.0/16").to_string())?;
    let found = place.await_nodes("edge", "2/3")?;
    let degraded = condition(&found, "Degraded");
    ensure!(degraded["reason"] == "RefusedOnNodes", "{found}");
    ensure!(degraded["message"] == "node-2: overlaps br9 172.30.0.1/24", "{found}");
    ensure!(!place.cluster.run(&node, &["ip", "rule"])?.contains("lookup 200"));
    eventually("the Event", || {
        let described = place.cluster.kubectl.ok(&["describe", "vipgateway", "edge"])?;
        ensure!(described.contains("node-2: overlaps br9 172.30.0.1/24"), "{described}");
        ensure!(described.contains("GatewayDegraded"), "{described}");
        Ok(())
    })?;
    place.cluster.run(&node, &["ip", "link", "del", "br9"])?;
    place.await_nodes("edge", "3/3")?;
    ensure!(place.cluster.run(&node, &["ip", "rule"])?.contains("to 172.30.0.0/16 fwmark 0/0x7f lookup 200"));
    Ok(())
}
