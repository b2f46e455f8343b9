//! An agent that dies between two steps: whatever step was the last, no packet with a VIP's mark leaves by another
//! interface or with another source than the VIP, and the next agent finishes the work.
//!
//! Two witnesses count: a table of somebody else at the very end of the node's postrouting, and one where the packets
//! arrive. `packets` has the picture of the network.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use litek8s_plan::{Desired, Op, diff, recheck};

use crate::node::golden;
use crate::packets::Network;
use crate::scratch::Scratch;

/// Where both ends of the world answer, and on which port the node does.
const FAR: &str = "10.9.0.1:7000";
const VIP: &str = "203.0.113.10:7001";
/// How long an answer is waited for that need not come.
const PATIENCE: Duration = Duration::from_millis(100);

const NODE_WITNESS: &str = "
table ip witness {
  counter kept { }
  counter leaked { }
  chain last {
    type filter hook postrouting priority 1000; policy accept;
    meta mark & 0x7f == 0 return
    oifname eth1 meta mark & 0x7f == 1 ip saddr 203.0.113.10 counter name kept return
    oifname eth1 meta mark & 0x7f == 2 ip saddr 203.0.113.11 counter name kept return
    counter name leaked
  }
}";

/// Everything the node sends into the VIP network is a VIP's.
const OUTSIDE_WITNESS: &str = "
table ip witness {
  counter kept { }
  counter leaked { }
  chain first {
    type filter hook prerouting priority -400; policy accept;
    iifname far ip saddr { 203.0.113.10, 203.0.113.11 } counter name kept return
    iifname far counter name leaked
  }
}";

/// The network with its witnesses, and connections that were there before the steps.
struct Scene {
    network: Network,
    established: Vec<TcpStream>,
    datagrams: UdpSocket,
}

impl Scene {
    /// A node that is empty, or settled on the golden state.
    async fn new(golden_before: bool) -> Self {
        let network = Network::new().await;
        for (place, witness) in
            [(&network.node.scratch, NODE_WITNESS), (&network.node.outside, OUTSIDE_WITNESS)]
        {
            std::fs::write(place.file("witness.nft"), witness).unwrap();
            place.sh(&format!("nft -f {}", place.file("witness.nft").display()));
        }
        // A source NAT that the kernel does not undo by itself when a connection's way changes, as masquerading is.
        network
            .node
            .scratch
            .sh("nft 'flush chain ip lan post; add rule ip lan post oifname eth0 snat to 192.0.2.1'");
        // The client in the VIP's far source network.
        network.node.outside.sh("ip route add 203.0.113.10 dev far src 10.9.0.1");
        answer(&network.node.outside, FAR);
        answer(&network.lan, FAR);
        answer(&network.node.scratch, "0.0.0.0:7001");
        if golden_before {
            network.node.settle(&golden()).await;
        }
        let mut established = vec![connect(&network.pod, FAR).expect("the pod reaches the far address")];
        if golden_before {
            established.push(connect(&network.node.outside, VIP).expect("the VIP answers"));
        }
        let datagrams = datagrams(&network.pod);
        assert!(echoed(&datagrams), "the pod reaches the far address");
        Self { network, established, datagrams }
    }

    /// Traffic of every kind, as far as it goes.
    fn talk(&mut self) {
        for stream in &mut self.established {
            let _ = stream.write_all(b"x");
        }
        let _ = self.datagrams.send(b"x");
        let _ = echoed(&datagrams(&self.network.pod));
        let _ = connect(&self.network.pod, FAR);
        if let Some(mut stream) = connect(&self.network.node.outside, VIP) {
            let _ = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 1]));
        }
    }

    fn count(&self, place: &Scratch, counter: &str) -> u64 {
        let text = place.sh(&format!("nft list counter ip witness {counter}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "packets").unwrap();
        words[at + 1].parse().unwrap()
    }

    fn leaked(&self) -> u64 {
        let node = &self.network.node;
        self.count(&node.scratch, "leaked") + self.count(&node.outside, "leaked")
    }

    fn kept(&self) -> u64 {
        self.count(&self.network.node.scratch, "kept")
    }

    async fn ops(&self, golden_after: bool) -> (Desired, Vec<Op>) {
        let (golden, observed) = self.network.node.plan(&golden()).await;
        let desired = if golden_after { golden } else { Desired::default() };
        let ops = diff(&desired, &observed);
        (desired, ops)
    }

    /// Takes out what drops strays, so that only the order is left to hold.
    fn open_the_end(&self) {
        self.network.node.scratch.sh("nft flush chain inet netwrangler filter-postrouting");
    }

    async fn apply(&self, ops: &[Op]) {
        let applied = self.network.node.kernel.apply(ops).await;
        assert!(applied.failed.is_none() && applied.warnings.is_empty(), "{applied:?}");
    }
}

/// Echoes, over TCP and UDP.
fn answer(place: &Scratch, at: &str) {
    let at: SocketAddr = at.parse().unwrap();
    let bind = || (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap());
    let (listener, datagrams) = place.netns.run(bind).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    std::thread::spawn(move || {
        let mut byte = [0; 1];
        while let Ok((_, from)) = datagrams.recv_from(&mut byte) {
            let _ = datagrams.send_to(&byte, from);
        }
    });
}

fn connect(place: &Scratch, to: &str) -> Option<TcpStream> {
    let to: SocketAddr = to.parse().unwrap();
    let stream = place.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

fn datagrams(place: &Scratch) -> UdpSocket {
    let socket = place.netns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    socket.connect(FAR).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn echoed(socket: &UdpSocket) -> bool {
    socket.send(b"x").is_ok() && socket.recv(&mut [0; 1]).is_ok()
}

/// Every step of the way from one state to the other is once the last before a crash.
async fn crash_after_each_step(from_golden: bool) {
    let mut steps = usize::MAX;
    let mut crash = 0;
    while crash <= steps {
        let mut scene = Scene::new(from_golden).await;
        let (_, ops) = scene.ops(!from_golden).await;
        steps = ops.len();
        scene.apply(&ops[..crash]).await;
        let last = crash.checked_sub(1).map_or("nothing".to_owned(), |last| ops[last].to_string());
        scene.talk();
        assert_eq!(scene.leaked(), 0, "after {last}");

        // The next agent knows only what it sees.
        let (desired, ops) = scene.ops(!from_golden).await;
        scene.apply(&ops).await;
        scene.apply(&recheck(&desired)).await;
        let before = scene.kept();
        scene.talk();
        assert_eq!(scene.leaked(), 0, "finished after {last}");
        if from_golden {
            assert!(scene.network.node.kernel.observe().await.unwrap().is_empty(), "finished after {last}");
            assert_eq!(scene.kept(), before, "no mark is left after {last}");
        } else {
            scene.network.node.assert_settled(&golden()).await;
            assert!(echoed(&scene.datagrams), "a connection from before goes on as a new one, after {last}");
            assert!(connect(&scene.network.node.outside, VIP).is_some(), "the VIP answers, after {last}");
            assert!(scene.kept() > before + 4, "the VIP is used, after {last}");
        }
        crash += 1;
    }
    assert!(steps > 5, "{steps} steps");
}

#[tokio::test]
async fn a_crash_after_any_step_of_adding_leaks_nothing_and_is_finished() {
    crash_after_each_step(false).await;
}

#[tokio::test]
async fn a_crash_after_any_step_of_removing_leaks_nothing_and_is_finished() {
    crash_after_each_step(true).await;
}

/// The twin: with marks before the ways they need, or ways gone before the marks, the witnesses see it.
#[tokio::test]
async fn the_wrong_order_is_caught() {
    for from_golden in [false, true] {
        let mut scene = Scene::new(from_golden).await;
        let (_, ops) = scene.ops(!from_golden).await;
        let wrong = |op: &Op| match from_golden {
            false => matches!(op, Op::Nft(_)),
            true => matches!(op, Op::DeleteRule(_)),
        };
        scene.apply(&ops.into_iter().filter(wrong).collect::<Vec<_>>()).await;
        scene.open_the_end();
        scene.talk();
        assert!(scene.leaked() > 0, "marked packets leave by the default route");
    }
}

/// Why strays are dropped at the end of the node: no order helps a connection that had its source before its mark.
#[tokio::test]
async fn without_the_end_chain_a_crash_between_marking_and_forgetting_leaks() {
    let mut scene = Scene::new(false).await;
    let (_, ops) = scene.ops(true).await;
    let marked = ops.iter().position(|op| matches!(op, Op::Nft(_))).unwrap();
    scene.apply(&ops[..=marked]).await;
    scene.talk();
    assert_eq!(scene.leaked(), 0);
    scene.open_the_end();
    scene.talk();
    assert!(scene.leaked() > 0, "packets of the earlier connection leave with the node's address");
}
