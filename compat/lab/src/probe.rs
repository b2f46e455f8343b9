//! Whether this machine can run a cluster: tried in an anonymous network namespace that ends with its thread.

use anyhow::{Context, Result, bail};
use litek8s_kernel::{Links, Netns};
use nix::sched::{CloneFlags, unshare};

/// One clear line when not root.
pub(crate) fn root() -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    bail!("a dev cluster is made of network namespaces: run this as root")
}

/// One clear line when not root, or naming the first kernel feature that is missing.
pub(crate) async fn check() -> Result<()> {
    root()?;
    let namespace = std::thread::spawn(|| -> Result<Netns> {
        unshare(CloneFlags::CLONE_NEWNET).context(missing("network namespaces", "CONFIG_NET_NS"))?;
        Ok(Netns::current()?)
    });
    // The handle keeps the namespace after its thread is gone.
    let namespace = namespace.join().unwrap_or_else(|_| bail!("the probing thread died"))?;
    let links = Links::open(&namespace).context(missing("rtnetlink", "CONFIG_NET"))?;
    links.add_bridge("probe-br").await.context(missing("bridges", "CONFIG_BRIDGE, module bridge"))?;
    links
        .add_veth("probe-a", "probe-b", &namespace)
        .await
        .context(missing("veth pairs", "CONFIG_VETH, module veth"))?;
    Ok(())
}

fn missing(feature: &str, option: &str) -> String {
    format!("this kernel has no {feature} ({option})")
}
