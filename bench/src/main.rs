//! Measures litek8s against its published targets and writes `bench/results/`; never asserts a speed.

mod client;
mod facts;
mod latency;
mod processor;
mod report;
mod scenario;
mod server;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

/// A part to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The API server alone, on loopback.
    Api,
    /// The controllers beside it, with a thousand VIPs on a hundred nodes that are only in the API.
    Scale,
    /// Dev clusters: VIPs answered, programmed, announced, moved and repaired (needs root).
    Vip,
}

impl Part {
    /// What its results are called: the file and the heading.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Api => ("api", "the API server"),
            Self::Scale => ("scale", "the controllers in a large cluster"),
            Self::Vip => ("vip", "virtual IPs"),
        }
    }
}

/// Measure litek8s and write the figures beside their targets.
#[derive(Debug, Parser)]
struct Options {
    /// A part to measure; may be repeated. All of them unless given.
    #[arg(long = "part", value_enum, default_values_t = [Part::Api, Part::Scale, Part::Vip])]
    parts: Vec<Part>,
    /// The litek8s binary to measure.
    #[arg(long, default_value = "target/release/litek8s")]
    binary: PathBuf,
    /// Where the results are written.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// Seconds each throughput figure is measured for.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Objects in the list scenario.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    #[command(flatten)]
    reference: Reference,
}

/// A kube-apiserver to measure in the same run; without one, figures recorded once are the divisor, and the report
/// says so.
#[derive(Debug, clap::Args)]
struct Reference {
    /// Its kubeconfig, with embedded certificates.
    #[arg(long = "reference-kubeconfig", conflicts_with = "url")]
    kubeconfig: Option<PathBuf>,
    /// Its URL, instead of a kubeconfig.
    #[arg(long = "reference-url", requires_all = ["ca", "token"])]
    url: Option<String>,
    /// The file of the certificates of its CA.
    #[arg(long = "reference-ca", requires = "url")]
    ca: Option<PathBuf>,
    /// The file of a bearer token that may do everything there.
    #[arg(long = "reference-token-file", requires = "url")]
    token: Option<PathBuf>,
    /// The ids of its processes on this machine, those of its etcd too: their memory is measured.
    #[arg(long = "reference-process")]
    processes: Vec<u32>,
}

impl Reference {
    /// Whom to measure; none without a reference.
    fn target(&self) -> anyhow::Result<Option<client::Target>> {
        if let Some(path) = &self.kubeconfig {
            return client::Target::from_kubeconfig(path).map(Some);
        }
        match (&self.url, &self.ca, &self.token) {
            (Some(url), Some(ca), Some(token)) => client::Target::from_url(url, ca, token).map(Some),
            _ => Ok(None),
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is already installed"))?;
    let options = Options::parse();
    let binary = options
        .binary
        .canonicalize()
        .with_context(|| format!("{}: build it with `cargo build --release`", options.binary.display()))?;
    for part in &options.parts {
        let (file, heading) = part.names();
        let mut report = report::Report::new(heading, facts::Facts::read());
        match part {
            Part::Api => scenario::api(&mut report, &binary, &options).await?,
            Part::Scale => scenario::scale(&mut report, &binary).await?,
            Part::Vip => {
                scenario::vip(&mut report, &binary).await?;
                scenario::moves(&mut report, &binary).await?;
            }
        }
        let path = report.write(&options.results, file)?;
        print!("{}", report.markdown());
        eprintln!("written to {}", path.display());
    }
    Ok(())
}
