//! Whether this machine can run a cluster, before anything of it is made.

use anyhow::{Result, bail};

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
    Ok(litek8s_kernel::probe().await?)
}
