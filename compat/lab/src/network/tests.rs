//! The network with real packets, and `down` after every way a start can end. Needs root.

use super::*;
use crate::progress::Progress;
use crate::state::{Directory, Phase, State};
use crate::{ClusterName, Segment, down};

/// A network that is gone when dropped.
struct Built {
    topology: Topology,
}

impl Built {
    async fn new(name: &str) -> Self {
        let built = Self { topology: Topology::new(name.parse().unwrap(), 2) };
        build(&built.topology).await.unwrap();
        built
    }

    /// Whether one of the questions of ten seconds is answered: a port that comes up forwards as late as the kernel looks
    /// at its carrier, which it does once a second (`linkwatch`).
    fn pings(&self, from: &Member, to: &str) -> bool {
        self.ping(from, &["-w10", to])
    }

    /// Whether a question gets no answer.
    fn is_silent(&self, from: &Member, to: &str) -> bool {
        !self.ping(from, &["-W1", to])
    }

    fn ping(&self, from: &Member, arguments: &[&str]) -> bool {
        let mut command = open(&self.topology, from).unwrap().command("ping").unwrap();
        command.args(["-n", "-c1"]).args(arguments).output().unwrap().status.success()
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        down::down(self.topology.name(), &Progress::quiet()).unwrap();
        assert_eq!(namespaces(self.topology.name()), Vec::<String>::new());
    }
}

fn namespaces(name: &ClusterName) -> Vec<String> {
    let prefix = crate::topology::namespace_prefix(name);
    Netns::list().unwrap().into_iter().filter(|found| found.starts_with(&prefix)).collect()
}

#[tokio::test]
async fn members_reach_each_other_and_pods_reach_outside_through_their_node() {
    let built = Built::new("labping").await;
    let node = Member::Node(1);
    let pod = Member::Pod("web".to_owned());
    let address = add_pod(&built.topology, 1, "web", 0).await.unwrap();
    for (from, to) in [
        (&node, "192.0.2.2"),
        (&node, "192.0.2.250"),
        (&node, "192.0.2.254"),
        (&node, "198.51.100.1"),
        (&Member::Server, "192.0.2.1"),
        (&Member::Outside, "192.0.2.2"),
        (&node, &address.addr().to_string()),
        (&pod, "192.0.2.1"),
        (&node, "fd00:192::2"),
        (&node, "2001:db8:51::1"),
        (&Member::Outside, "fd00:192::2"),
        (&pod, "fd00:192::1"),
    ] {
        assert!(built.pings(from, to), "{from} does not reach {to}");
    }
}

#[tokio::test]
async fn a_cut_cable_passes_nothing_and_keeps_its_carrier() {
    let built = Built::new("labcut").await;
    let node = Member::Node(1);
    let cable = Cable { member: node.clone(), segment: Segment::Lan };
    let carrier = async || {
        Links::open(&open(&built.topology, &node).unwrap()).unwrap().get("eth0").await.unwrap().carrier
    };
    assert!(built.pings(&node, "192.0.2.2"));
    cut(&built.topology, &cable).await.unwrap();
    assert!(built.is_silent(&node, "192.0.2.2"));
    assert!(carrier().await);
    heal(&built.topology, &cable).await.unwrap();
    assert!(built.pings(&node, "192.0.2.2"));
    set_carrier(&built.topology, &cable, false).await.unwrap();
    assert!(!carrier().await);
    set_carrier(&built.topology, &cable, true).await.unwrap();
    assert!(built.pings(&node, "192.0.2.2"));
}

#[tokio::test]
async fn down_ends_processes_nobody_wrote_down() {
    let built = Built::new("labstray").await;
    let mut child = open(&built.topology, &Member::Node(2))
        .unwrap()
        .command("sleep")
        .unwrap()
        .arg("600")
        .spawn()
        .unwrap();
    down::down(built.topology.name(), &Progress::quiet()).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn down_cleans_a_cluster_whose_state_does_not_read() {
    let name: ClusterName = "labbroken".parse().unwrap();
    let directory = Directory::of(&name);
    directory.create().unwrap();
    std::fs::write(directory.path().join("state.json"), "{").unwrap();
    Netns::create("litek8s-labbroken-lan").unwrap();
    let error = down::down(&name, &Progress::quiet()).unwrap_err();
    assert!(format!("{error:#}").contains("does not read"), "{error:#}");
    assert!(!directory.path().exists());
    assert_eq!(namespaces(&name), Vec::<String>::new());
}

#[test]
fn down_removes_the_copied_kubeconfig_only_while_it_is_ours() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, content, stays) in [("labcopyone", "ours", false), ("labcopytwo", "another", true)] {
        let name: ClusterName = name.parse().unwrap();
        let copy = temporary.path().join(name.as_str());
        let directory = Directory::of(&name);
        directory.create().unwrap();
        std::fs::write(directory.kubeconfig(), "ours").unwrap();
        std::fs::write(&copy, content).unwrap();
        let state = State {
            name: name.clone(),
            nodes: 1,
            phase: Phase::Up,
            port: 0,
            kubeconfig_copy: Some(copy.clone()),
            processes: Vec::new(),
            build: String::new(),
        };
        directory.save(&state).unwrap();
        down::down(&name, &Progress::quiet()).unwrap();
        assert_eq!(copy.exists(), stays, "{name}");
        assert!(!Path::new("/run/litek8s/dev").join(name.as_str()).exists());
    }
}
