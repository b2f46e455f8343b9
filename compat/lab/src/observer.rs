//! Who answers for a VIP, asked every millisecond from outside: the gap and the overlap of a move.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{Lab, Member};

/// Between two questions.
const SPACING: Duration = Duration::from_millis(1);
/// How long answers are waited for after the last question.
const LATE: Duration = Duration::from_millis(300);
/// How long an answerer listens before it looks whether it is to stop.
const LISTEN: Duration = Duration::from_millis(50);
/// The port of questions and answers.
const PORT: u16 = 7009;

/// Answerers on every node, for one VIP. Each answers from the VIP, held by its node or not.
#[derive(Debug)]
pub struct Answerers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Questions under way.
#[derive(Debug)]
pub struct Observer {
    stop: Arc<AtomicBool>,
    asking: Option<JoinHandle<Seen>>,
}

/// What was seen: by question, in order, the nodes that answered it (their place in the list, from 1).
#[derive(Debug, Clone, Default)]
pub struct Seen {
    answers: Vec<Vec<u8>>,
    /// How long asking took in all.
    pub lasted: Duration,
}

impl Answerers {
    /// Starts one on every node.
    ///
    /// # Errors
    /// When a node is not there or takes no socket.
    pub fn start(lab: &Lab, vip: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (node, number) in lab.topology().nodes().zip(1u8..) {
            // The socket is there before the address is.
            let both = ["net.ipv4.ip_nonlocal_bind=1", "net.ipv6.ip_nonlocal_bind=1"];
            let set = lab.command(&node, "sysctl")?.arg("-qw").args(both).status()?;
            ensure!(set.success(), "sysctl on {node}: {set}");
            let at = SocketAddr::new(vip.parse()?, PORT);
            let socket = lab.namespace(&node)?.run(|| UdpSocket::bind(at))?;
            let socket = socket.with_context(|| format!("bind {at} on {node}"))?;
            socket.set_read_timeout(Some(LISTEN))?;
            let stop = stop.clone();
            threads.push(std::thread::spawn(move || {
                let mut question = [0; 9];
                while !stop.load(Ordering::SeqCst) {
                    if let Ok((8, from)) = socket.recv_from(&mut question) {
                        question[8] = number;
                        // Without the address its answer does not leave.
                        let _ = socket.send_to(&question, from);
                    }
                }
            }));
        }
        Ok(Self { stop, threads })
    }
}

impl Drop for Answerers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Observer {
    /// Begins to ask from the outside namespace.
    ///
    /// # Errors
    /// When the namespace takes no socket.
    pub fn start(lab: &Lab, vip: &str) -> Result<Self> {
        let to = SocketAddr::new(vip.parse()?, PORT);
        let from = if to.is_ipv4() { "198.51.100.1:0" } else { "[2001:db8:51::1]:0" };
        let bound = lab.namespace(&Member::Outside)?.run(|| UdpSocket::bind(from))?;
        let socket = bound.context("a socket outside")?;
        socket.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let asking = Some(std::thread::spawn(move || ask(&socket, to, &until)));
        Ok(Self { stop, asking })
    }

    /// Stops and gives what was seen.
    pub fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        self.asking.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn ask(socket: &UdpSocket, to: SocketAddr, until: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let begin = Instant::now();
    let mut due = begin;
    let mut last = None;
    loop {
        let now = Instant::now();
        let stopping = until.load(Ordering::SeqCst);
        if stopping && last.is_none() {
            last = Some(now);
            seen.lasted = begin.elapsed();
        }
        if last.is_some_and(|last| now > last + LATE) {
            return seen;
        }
        if !stopping && now >= due {
            // A question that cannot be sent is one without an answer.
            let _ = socket.send_to(&(seen.answers.len() as u64).to_be_bytes(), to);
            seen.answers.push(Vec::new());
            due += SPACING;
        }
        let mut answer = [0; 9];
        match socket.recv_from(&mut answer) {
            Ok((9, _)) => note(&mut seen.answers, &answer),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(SPACING / 5),
            Ok(_) | Err(_) => {}
        }
    }
}

fn note(answers: &mut [Vec<u8>], answer: &[u8; 9]) {
    let number = answer.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
    let place = usize::try_from(number).ok().and_then(|number| answers.get_mut(number));
    if let (Some(nodes), Some(node)) = (place, answer.last()) {
        nodes.push(*node);
    }
}

impl Seen {
    /// How many questions there were.
    pub fn questions(&self) -> usize {
        self.answers.len()
    }

    /// The longest time without an answer between two answers.
    pub fn gap(&self) -> Duration {
        let mut longest = 0;
        let mut last = None;
        for (number, nodes) in self.answers.iter().enumerate() {
            if !nodes.is_empty() {
                longest = longest.max(last.map_or(0, |last| number - last));
                last = Some(number);
            }
        }
        SPACING * u32::try_from(longest).unwrap_or(u32::MAX)
    }

    /// How many questions another node answered after its successor had answered one, or that two answered.
    pub fn overlap(&self) -> usize {
        let mut order: Vec<u8> = Vec::new();
        let mut overlapping = 0;
        for nodes in &self.answers {
            for node in nodes {
                if !order.contains(node) {
                    order.push(*node);
                }
            }
            let distinct = nodes.iter().any(|node| Some(node) != nodes.first());
            let returned = nodes.iter().any(|node| Some(node) != order.last());
            overlapping += usize::from(distinct || returned);
        }
        overlapping
    }

    /// The nodes that answered, in the order in which they began to.
    pub fn holders(&self) -> Vec<u8> {
        let mut holders = Vec::new();
        for node in self.answers.iter().flatten() {
            if !holders.contains(node) {
                holders.push(*node);
            }
        }
        holders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(answers: &[&[u8]]) -> Seen {
        Seen { answers: answers.iter().map(|nodes| nodes.to_vec()).collect(), lasted: Duration::ZERO }
    }

    #[test]
    fn a_move_without_overlap_has_a_gap_only() {
        let seen = seen(&[&[1], &[1], &[], &[], &[2], &[2]]);
        assert_eq!((seen.gap(), seen.overlap(), seen.holders()), (SPACING * 3, 0, vec![1, 2]));
    }

    #[test]
    fn two_that_answer_one_question_or_in_turns_overlap() {
        assert_eq!(seen(&[&[1], &[1, 2], &[2]]).overlap(), 1);
        assert_eq!(seen(&[&[1], &[2], &[1], &[2]]).overlap(), 1);
    }
}
