//! Takes a cluster away, whole or half-made: processes, namespaces, files. Goes on after a failure and reports all.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use litek8s_kernel::Netns;
use nix::sys::signal::Signal;

use crate::progress::Progress;
use crate::state::{Directory, State};
use crate::topology::namespace_prefix;
use crate::{ClusterName, Running, process};

/// How long processes may take to end by themselves, and then to be gone after SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How often the processes of a namespace are looked for: one may start another before it ends.
const ROUNDS: usize = 5;
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Removes everything of the cluster. Nothing there is no error.
pub(crate) fn down(name: &ClusterName, progress: &Progress) -> Result<()> {
    let directory = Directory::of(name);
    let lock = directory.path().exists().then(|| directory.lock()).transpose()?;
    let found = lock.is_some();
    let swept = sweep(name, &directory);
    // Also when something could not be removed: the next `down` finds namespaces and processes by name.
    let removed = directory.remove();
    drop(lock);
    let removed_things = swept?;
    removed?;
    if found || removed_things > 0 {
        progress.say(format!("cluster {name} is gone"));
    } else {
        progress.say(format!("there is no cluster {name}"));
    }
    Ok(())
}

/// Ends the processes and removes namespaces and copied files; the directory stays. Gives how many things there were.
pub(crate) fn sweep(name: &ClusterName, directory: &Directory) -> Result<usize> {
    let mut failures = Vec::new();
    let mut count = 0;
    // A state that does not read must not keep anything alive: namespaces are found by their name.
    let state = directory.load().unwrap_or_else(|error| {
        failures.push(format!("{error:#}"));
        None
    });
    if let Some(state) = &state {
        count += state.processes.iter().filter(|process| process.alive()).count();
        note(&mut failures, end_processes(&state.running()));
        note(&mut failures, remove_copy(state, directory));
    }
    let prefix = namespace_prefix(name);
    let names = Netns::list().unwrap_or_else(|error| {
        failures.push(error.to_string());
        Vec::new()
    });
    let ours: Vec<&String> = names.iter().filter(|found| found.starts_with(&prefix)).collect();
    for namespace in &ours {
        note(&mut failures, end_inside(namespace));
    }
    for namespace in &ours {
        count += 1;
        note(&mut failures, Netns::delete(namespace).map_err(Into::into));
    }
    if failures.is_empty() { Ok(count) } else { bail!("{}", failures.join("\n")) }
}

/// Asks processes to end, waits, and kills those that do not.
pub(crate) fn end_processes(processes: &[Running]) -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        if ended_by(signal, processes)? {
            return Ok(());
        }
    }
    let left: Vec<String> = processes.iter().filter(|p| p.alive()).map(|p| p.pid.to_string()).collect();
    if left.is_empty() { Ok(()) } else { bail!("processes {} do not end", left.join(", ")) }
}

/// Kills a process and waits until it is gone: a signal is only sent when `kill` returns, and who looks too soon
/// takes a dying process for a running one.
pub(crate) fn kill(process: Running) -> Result<()> {
    if ended_by(Signal::SIGKILL, &[process])? {
        Ok(())
    } else {
        bail!("process {} does not end", process.pid)
    }
}

/// Sends a signal and says whether all are gone in time.
fn ended_by(signal: Signal, processes: &[Running]) -> Result<bool> {
    for process in processes {
        process.signal(signal)?;
    }
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        if !processes.iter().any(Running::alive) {
            return Ok(true);
        }
        std::thread::sleep(LOOK);
    }
    Ok(false)
}

/// Ends what runs in a namespace and removes it.
pub(crate) fn remove_namespace(namespace: &str) -> Result<()> {
    end_inside(namespace)?;
    Ok(Netns::delete(namespace)?)
}

/// Ends whatever else runs in a namespace: responders, shells, children of ours.
fn end_inside(namespace: &str) -> Result<()> {
    let path = Path::new("/run/netns").join(namespace);
    for _ in 0..ROUNDS {
        let found = process::in_namespace(&path)?;
        if found.is_empty() {
            return Ok(());
        }
        end_processes(&found)?;
    }
    bail!("processes keep appearing in {namespace}")
}

/// Removes the copy `--kubeconfig` asked for, unless somebody put something else there.
fn remove_copy(state: &State, directory: &Directory) -> Result<()> {
    let Some(copy) = &state.kubeconfig_copy else { return Ok(()) };
    let ours = fs::read(directory.kubeconfig()).ok();
    if ours.is_some() && fs::read(copy).ok() == ours {
        fs::remove_file(copy)?;
    }
    Ok(())
}

fn note(failures: &mut Vec<String>, done: Result<()>) {
    if let Err(error) = done {
        failures.push(format!("{error:#}"));
    }
}
