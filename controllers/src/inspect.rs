//! Questions a person asks about VIPs: why an address is where it is, what a drain would move, what is wrong.
//!
//! Each reads every object once and asks the controller's own `decide`; nothing is written.

mod doctor;
mod drain;
mod explain;
mod snapshot;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use litek8s_crds::names;
use serde::Serialize;

use crate::connect;
use crate::requests::Requests;
use snapshot::Snapshot;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Flags of every question.
#[derive(Debug, Clone, Args)]
pub struct Asking {
    /// The kubeconfig to use; KUBECONFIG, ~/.kube/config or the pod's ServiceAccount by default
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the agents' Leases
    #[arg(long, value_name = "NAME", default_value = names::AGENT_LEASE_NAMESPACE)]
    pub agent_namespace: String,
    /// How the answer is printed: text or json
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    pub output: Format,
}

/// Flags of `litek8s vip explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    /// The Service, NAME or NAMESPACE/NAME, or all that ask for VIPs
    pub service: Option<String>,
    /// Its namespace
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// How to ask
    #[command(flatten)]
    pub asking: Asking,
}

/// Flags of `litek8s vip drain`.
#[derive(Debug, Clone, Args)]
pub struct Drain {
    /// The node
    pub node: String,
    /// Only say what would move; the drain itself is the annotation `netwrangler.dev/drain=true` of the Node
    #[arg(long, required = true)]
    pub dry_run: bool,
    /// How to ask
    #[command(flatten)]
    pub asking: Asking,
}

/// Flags of `litek8s vip doctor`.
#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// How to ask
    #[command(flatten)]
    pub asking: Asking,
}

/// `litek8s vip explain`: where each address of a Service is and why.
///
/// # Errors
/// When the API does not answer or the Service asks for no VIP.
pub async fn explain(options: Explain) -> anyhow::Result<()> {
    let snapshot = read(&options.asking).await?;
    let answer = explain::explain(&snapshot);
    let Some(asked) = &options.service else { return print(&options.asking, &answer) };
    let (namespace, name) = asked.split_once('/').unwrap_or((&options.namespace, asked));
    let wanted = |service: &&explain::Service| service.namespace == namespace && service.name == name;
    let Some(service) = answer.services.iter().find(wanted) else {
        bail!(
            "Service {namespace}/{name} asks for no VIP: it needs the label netwrangler.dev/ingress=enabled and \
             externalIPs, or the loadBalancerClass netwrangler.dev/vip"
        )
    };
    print(&options.asking, service)
}

/// `litek8s vip drain --dry-run`: what would move.
///
/// # Errors
/// When the API does not answer or there is no such node.
pub async fn drain(options: Drain) -> anyhow::Result<()> {
    let snapshot = read(&options.asking).await?;
    let answer = drain::drain(&snapshot.facts, &options.node)
        .with_context(|| format!("there is no Node {}", options.node))?;
    print(&options.asking, &answer)
}

/// `litek8s vip doctor`: what is wrong or worth a look.
///
/// # Errors
/// When the API does not answer, or something is wrong.
pub async fn doctor(options: Doctor) -> anyhow::Result<()> {
    let snapshot = read(&options.asking).await?;
    let answer = doctor::doctor(&snapshot);
    print(&options.asking, &answer)?;
    match answer.findings.iter().filter(|finding| finding.wrong).count() {
        0 => Ok(()),
        1 => bail!("one thing is wrong"),
        count => bail!("{count} things are wrong"),
    }
}

async fn read(asking: &Asking) -> anyhow::Result<Snapshot> {
    let client = connect::from_kubeconfig(asking.kubeconfig.as_deref(), &Requests::default()).await?;
    Snapshot::read(&client, &asking.agent_namespace).await
}

fn print<T: Serialize + std::fmt::Display>(asking: &Asking, answer: &T) -> anyhow::Result<()> {
    let text = match asking.output {
        Format::Text => answer.to_string(),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    std::io::stdout().write_all(text.as_bytes()).context("print the answer")
}
