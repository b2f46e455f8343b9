//! Runs a command in a member's namespace, in place of this process: its exit code is the command's.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::state::Directory;
use crate::{ClusterName, Member, Topology, network};

/// Becomes the command; comes back only with an error.
pub(crate) fn exec(name: &ClusterName, member: &Member, command: &[OsString]) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else { bail!("no command given") };
    if Directory::of(name).load()?.is_none() {
        bail!("there is no dev cluster {name}: litek8s dev up --name {name}");
    }
    let topology = Topology::new(name.clone(), 0);
    network::open(&topology, member)?.enter()?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("run {} in {member}", program.display()))
}
