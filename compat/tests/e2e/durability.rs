//! The API server through kill -9: what it acknowledged is there afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use litek8s_compat::{Cluster, eventually};
use litek8s_lab::{Member, Role};

/// How often the server is killed, and how many writers it has.
const KILLS: usize = 3;
const WRITERS: usize = 3;
/// Acknowledged writes before each kill.
const WRITES: usize = 6;

#[tokio::test]
async fn every_acknowledged_write_survives_kill_nine() -> Result<()> {
    let cluster = Cluster::up("kill9", 0).await?;
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..KILLS {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, written) = std::sync::mpsc::channel();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (kubectl, stop, sender) = (cluster.kubectl.clone(), stop.clone(), sender.clone());
                std::thread::spawn(move || {
                    for number in 0.. {
                        let name = format!("r{round}-w{writer}-{number}");
                        let arguments = ["create", "configmap", &name, "--from-literal=key=value"];
                        match kubectl.run(&arguments, "") {
                            Ok(done) if done.code == 0 => drop(sender.send(name)),
                            _ => return,
                        }
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        for _ in 0..WRITES {
            acknowledged.push(written.recv().context("the writers ended early")?);
        }
        // In the middle of whatever the writers are at.
        cluster.lab.kill(Role::Apiserver, &Member::Server)?;
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.join().map_err(|_| anyhow::anyhow!("a writer died"))?;
        }
        acknowledged.extend(written.try_iter());
        let server = cluster.lab.process(Role::Apiserver, &Member::Server)?;
        eventually("the killed server to be gone", || {
            ensure!(!server.alive());
            Ok(())
        })?;
        cluster.lab.revive_server().await?;
        let listed = cluster.kubectl.ok(&["get", "configmaps", "-o", "name"])?;
        for name in &acknowledged {
            let there = listed.lines().any(|line| line == format!("configmap/{name}"));
            ensure!(there, "{name} was acknowledged and is lost after kill {round}");
        }
    }
    ensure!(acknowledged.len() >= KILLS * WRITES);
    Ok(())
}

#[tokio::test]
async fn a_deleted_object_stays_deleted_and_versions_only_grow() -> Result<()> {
    let cluster = Cluster::up("versions", 0).await?;
    let kubectl = &cluster.kubectl;
    kubectl.ok(&["create", "configmap", "gone", "--from-literal=a=b"])?;
    kubectl.ok(&["create", "configmap", "kept", "--from-literal=a=b"])?;
    kubectl.ok(&["delete", "configmap", "gone"])?;
    let version = |name: &str| {
        let text = kubectl.ok(&["get", "cm", name, "-o", "jsonpath={.metadata.resourceVersion}"])?;
        anyhow::Ok(text.parse::<u64>()?)
    };
    let before = version("kept")?;
    cluster.lab.kill(Role::Apiserver, &Member::Server)?;
    cluster.lab.revive_server().await?;
    ensure!(version("kept")? == before);
    let missing = kubectl.run(&["get", "cm", "gone"], "")?;
    ensure!(missing.stderr.contains("NotFound"), "{missing:?}");
    kubectl.ok(&["create", "configmap", "later", "--from-literal=a=b"])?;
    ensure!(version("later")? > before);
    Ok(())
}
