//! A server that is killed in the middle of its writes has every write it acknowledged.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};

use litek8s_raft::{Config, Replica};
use litek8s_store::{Command, GroupResource, ObjectKey};

/// Names the directory in the process that is to be killed.
const VICTIM: &str = "LITEK8S_TEST_RAFT_DIRECTORY";

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "configmaps"), "default", name)
}

fn create(name: &str) -> Command {
    let object = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"x":"{}"}}}}"#, "y".repeat(500));
    Command::Create { key: key(name), object: object.into(), claims: vec![] }
}

/// Writes from eight tasks for ever, and says what was acknowledged.
async fn write_for_ever(directory: String) {
    let replica = Replica::open(Config::new(directory, "victim")).await.unwrap();
    let start = replica.view().revision();
    for writer in 0..7 {
        tokio::spawn(write(replica.clone(), start, writer));
    }
    write(replica, start, 7).await;
}

async fn write(replica: Replica, start: u64, writer: u64) {
    for number in 0.. {
        let name = format!("{start}-{writer}-{number}");
        replica.propose(create(&name), None).await.unwrap();
        println!("acknowledged {name}");
    }
}

fn kill_after(directory: &Path, writes: usize) -> Vec<String> {
    let mut victim = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "every_acknowledged_write_survives_a_kill", "--nocapture"])
        .env(VICTIM, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    for line in lines {
        if let Some((_, name)) = line.unwrap().split_once("acknowledged ") {
            acknowledged.push(name.to_owned());
        }
        if acknowledged.len() == writes {
            // SIGKILL; what it had printed by then is read to the end.
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    // The last line may be cut.
    acknowledged.truncate(writes);
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_survives_a_kill() {
    if let Ok(directory) = std::env::var(VICTIM) {
        return write_for_ever(directory).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for writes in [1, 50, 333, 1000] {
        acknowledged.extend(kill_after(directory.path(), writes));
        let replica = Replica::open(Config::new(directory.path(), "survivor")).await.unwrap();
        for name in &acknowledged {
            assert!(replica.view().get(&key(name)).is_some(), "{name} is lost after {writes} writes");
        }
        replica.stop().await;
    }
    assert_eq!(acknowledged.len(), 1384);
}
