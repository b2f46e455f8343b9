//! A namespace with an interface on the VIP network, and an agent in it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser;
use litek8s_kernel::{Links, Netns};
use litek8s_node_agent::Options;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::Api;

static NEXT: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

/// Namespaces and files that go with the test.
pub(crate) struct Place {
    netns: Arc<Netns>,
    outside: Netns,
    directory: tempfile::TempDir,
}

impl Drop for Place {
    fn drop(&mut self) {
        for netns in [self.netns.as_ref(), &self.outside] {
            let _ = Netns::delete(netns.name());
        }
    }
}

impl Place {
    /// Runs a test inside a fresh place, on a runtime whose threads are all in its namespace.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Arc<Self>) -> F + Send) {
        // Whoever installs it first, it is the same one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let name =
            |side| format!("lk-agent-{}-{}-{side}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let create =
            |side| Netns::create(&name(side)).expect("agent tests make network namespaces: run them as root");
        let place = Arc::new(Self {
            netns: Arc::new(create("node")),
            outside: create("out"),
            directory: tempfile::tempdir().unwrap(),
        });
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let netns = place.netns.clone();
        let inside = move || {
            assert_ne!(
                own,
                std::fs::read_link("/proc/thread-self/ns/net").unwrap(),
                "not in a private namespace"
            );
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                place.wire().await;
                test(place).await;
            });
        };
        netns.run(inside).unwrap();
    }

    async fn wire(&self) {
        let links = Links::open(&self.netns).unwrap();
        links.add_veth("eth1", "far", &self.outside).await.unwrap();
        links.set_up("lo").await.unwrap();
        links.set_up("eth1").await.unwrap();
        Links::open(&self.outside).unwrap().set_up("far").await.unwrap();
    }

    /// Runs a line of shell inside.
    pub(crate) fn sh(&self, line: &str) -> String {
        let Output { stdout, stderr, status } =
            self.netns.command("sh").unwrap().args(["-c", line]).output().unwrap();
        assert!(status.success(), "{line}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Runs a line of shell at the other end of the VIP network.
    pub(crate) fn outside(&self, line: &str) -> String {
        let output = self.outside.command("sh").unwrap().args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The hardware address there.
    pub(crate) fn stranger(&self) -> String {
        let link = self.outside("ip -o link show far");
        link.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }

    /// Everything an agent may have put there.
    pub(crate) fn state(&self) -> String {
        self.sh("ip rule show; ip route show table 20001; ip -4 addr show dev eth1 | grep -v valid_lft; nft list ruleset")
    }

    pub(crate) fn has_vip(&self) -> bool {
        let state = self.state();
        ["203.0.113.10/24", "lookup 20001 proto 110", "default via 203.0.113.254", "goto mark-00000001"]
            .iter()
            .all(|part| state.contains(part))
    }

    fn options(&self, arguments: &[&str]) -> Options {
        let state = self.directory.path().join("state");
        let common = ["agent", "--node-name", "n1", "--node-ip", "192.0.2.1", "--state-dir", path(&state)];
        CommandLine::parse_from(common.iter().chain(arguments)).options
    }

    /// Starts an agent that knows the API at `server`.
    pub(crate) fn agent(&self, server: SocketAddr) -> Agent {
        let kubeconfig = self.directory.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{server}")}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        self.start(&["--kubeconfig", path(&kubeconfig), "--listen", "127.0.0.1:9099"])
    }

    /// Starts an agent that joins with the token in this file.
    pub(crate) fn joining_agent(&self, server: SocketAddr, token: &str) -> Agent {
        std::fs::write(self.file("token"), token).unwrap();
        self.start(&["--join", &format!("https://{server}"), "--token-file", path(&self.file("token"))])
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, arguments: &[&str]) -> Agent {
        let options = self.options(arguments);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(litek8s_node_agent::run(options, shutdown.clone()));
        Agent { shutdown, task }
    }

    pub(crate) async fn cleanup(&self) {
        litek8s_node_agent::run(self.options(&["--cleanup"]), CancellationToken::new()).await.unwrap();
    }

    /// A counter of the agent.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = self.sh("curl -s http://127.0.0.1:9099/metrics");
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}\n{text}"));
        line.trim().parse().unwrap()
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A running agent.
pub(crate) struct Agent {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Agent {
    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// An API with a network, a configuration and one VIP of this node, and one of another.
pub(crate) fn api() -> Api {
    let api = Api::new();
    api.put(
        "vipnetworks",
        json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": {"name": "public"},
            "spec": {"interface": "eth1", "gatewayIP": "203.0.113.254", "networkCIDR": "203.0.113.0/24", "sourceCIDRs": ["0.0.0.0/0"]}}),
    );
    api.put(
        "vipconfigs",
        json!({"apiVersion": "netwrangler.dev/v1", "kind": "VipConfig", "metadata": {"name": "default"},
            "spec": {"firewallMark": 1, "firewallMarkMask": 127, "routeTable": 20001, "routingPriority": 20001,
                "maxAddressCount": 127, "clusterCIDRs": ["10.42.0.0/16"]}}),
    );
    api.put("vipaddresses", vip("web-1", "n1", "203.0.113.10", 1));
    api.put("vipaddresses", vip("web-2", "n2", "203.0.113.11", 1));
    api
}

pub(crate) fn vip(name: &str, node: &str, address: &str, mark: u32) -> serde_json::Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipAddress",
        "metadata": {"name": name, "namespace": "default", "generation": 1, "labels": {"netwrangler.dev/node-name": node}},
        "spec": {"service": {"namespace": "default", "name": "web"}, "index": mark, "network": "public", "node": node,
            "interface": "eth1", "virtualCIDR": format!("{address}/24"), "gatewayIP": "203.0.113.254",
            "sourceCIDRs": ["0.0.0.0/0"], "firewallMark": mark, "routeTable": 20000 + mark,
            "routingPriority": 20000 + mark, "egressEnabled": true},
    })
}

/// The status and reason of a condition of a VIP.
pub(crate) fn condition(api: &Api, vip: &str, kind: &str) -> Option<(String, String)> {
    let object = api.get("vipaddresses", &format!("default/{vip}"))?;
    let list = object["status"]["conditions"].as_array()?.clone();
    let found = list.into_iter().find(|condition| condition["type"] == kind)?;
    Some((found["status"].as_str()?.to_owned(), found["reason"].as_str()?.to_owned()))
}

pub(crate) fn is_ready(api: &Api, vip: &str) -> bool {
    condition(api, vip, "Ready").is_some_and(|(status, _)| status == "True")
}
