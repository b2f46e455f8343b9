//! `dev up` killed at every stage: `down` leaves nothing, and a second `up` works without it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Result, bail, ensure};
use litek8s_compat::{HostNetwork, eventually, litek8s};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::dev_cluster::{Started, left_of};

/// A stage of `up`, and how to see that it was reached.
type Stage = (&'static str, fn() -> bool);

const NAME: &str = "halfway";

fn namespace(member: &str) -> bool {
    Path::new(&format!("/run/netns/litek8s-{NAME}-{member}")).exists()
}

fn file(path: &str) -> bool {
    Path::new(&format!("/run/litek8s/dev/{NAME}/{path}")).exists()
}

const STAGES: [Stage; 5] = [
    ("its state file", || file("state.json")),
    ("its first namespace", || namespace("lan")),
    ("its last namespace", || namespace("node-2")),
    ("its server", || file("logs/apiserver.log")),
    ("its agents", || file("logs/agent-node-2.log")),
];

/// Begins a start in the background.
fn begin(program: &Path) -> Result<Child> {
    let mut up = Command::new(program);
    up.args(["dev", "up", "--nodes", "2", "--name", NAME]).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(up.spawn()?)
}

#[test]
fn a_start_killed_anywhere_leaves_nothing_after_down() -> Result<()> {
    let host = HostNetwork::read()?;
    let program = litek8s()?;
    let started = Started { name: NAME };
    for (stage, reached) in STAGES {
        let mut up = begin(&program)?;
        let came = eventually(stage, || {
            ensure!(reached(), "not yet");
            Ok(())
        });
        up.kill()?;
        up.wait()?;
        came?;
        let down = started.dev(&["down"])?;
        ensure!(down.status.success(), "after {stage}: {down:?}");
        ensure!(left_of(NAME)?.is_empty(), "after {stage}: {:?}", left_of(NAME)?);
    }
    ensure!(HostNetwork::read()? == host);

    // A start that is asked to stop clears up after itself.
    let mut up = begin(&program)?;
    let came = eventually("its last namespace", || {
        ensure!(namespace("node-2"), "not yet");
        Ok(())
    });
    kill(Pid::from_raw(i32::try_from(up.id())?), Signal::SIGINT)?;
    ensure!(!up.wait()?.success());
    came?;
    ensure!(left_of(NAME)?.is_empty(), "after SIGINT: {:?}", left_of(NAME)?);

    // Without `down` between, the next `up` clears away what it finds.
    let mut up = begin(&program)?;
    eventually("its server", || if file("logs/apiserver.log") { Ok(()) } else { bail!("not yet") })?;
    up.kill()?;
    up.wait()?;
    let again = started.dev(&["up", "--nodes", "2"])?;
    ensure!(again.status.success(), "{again:?}");
    Ok(())
}
