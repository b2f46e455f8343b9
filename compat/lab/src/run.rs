//! `litek8s dev`: each subcommand is one call.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;

use crate::options::{Command, Format, Options};
use crate::progress::Progress;
use crate::state::Directory;
use crate::up::{self, Wanted};
use crate::{Request, Topology, down, inside, probe, request, respond, status};

/// Does what the command line says.
///
/// # Errors
/// With one clear line when not root, when the kernel lacks something, or when a step failed.
pub async fn run(options: Options, stop: CancellationToken) -> Result<()> {
    match options.command {
        Command::Up { nodes, cluster, kubeconfig } => {
            let wanted = Wanted {
                suite: true,
                topology: Topology::new(cluster.name.clone(), nodes),
                nodes,
                program: std::env::current_exe().context("find this program")?,
                kubeconfig_copy: kubeconfig,
                progress: Progress::new(),
            };
            let state = up::up(&wanted, &stop).await?;
            let directory = Directory::of(&cluster.name);
            let kubeconfig = state.kubeconfig_copy.unwrap_or_else(|| directory.kubeconfig());
            wanted.progress.say(format!("cluster {} is up", cluster.name));
            println!("export KUBECONFIG={}", kubeconfig.display());
            Ok(())
        }
        Command::Exec { cluster, member, command } => {
            probe::root()?;
            inside::exec(&cluster.name, &member, &command)
        }
        Command::Status { cluster, output } => {
            probe::root()?;
            let status = status::status(&cluster.name).await?;
            match output {
                Format::Table => print!("{}", status::table(&status)),
                Format::Json => println!("{}", serde_json::to_string_pretty(&status)?),
            }
            Ok(())
        }
        Command::Down { cluster } => {
            probe::root()?;
            down::down(&cluster.name, &Progress::new())
        }
        Command::Respond { name, port } => respond::respond(&name, port, stop).await,
        Command::Request { url, source, timeout } => {
            let asked = Request { url, source, timeout: Duration::from_millis(timeout) };
            print!("{}", request::request(&asked).await?);
            Ok(())
        }
    }
}
