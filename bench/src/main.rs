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

/// Which parts to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The API server alone, on loopback.
    Api,
    /// A dev cluster: VIPs answered, programmed, announced and repaired (needs root).
    Vip,
    /// Both.
    All,
}

/// Measure litek8s and write the figures beside their targets.
#[derive(Debug, Parser)]
struct Options {
    /// Which parts to measure.
    #[arg(long, value_enum, default_value = "all")]
    part: Part,
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
    /// A kubeconfig of a kube-apiserver to measure in the same run; without it the figures of the
    /// reference machine are the divisor, and the report says so.
    #[arg(long)]
    reference_kubeconfig: Option<PathBuf>,
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
    let mut report = report::Report::new(facts::Facts::read());
    if options.part != Part::Vip {
        scenario::api(&mut report, &binary, &options).await?;
    }
    if options.part != Part::Api {
        scenario::vip(&mut report, &binary).await?;
    }
    let path = report.write(&options.results)?;
    print!("{}", report.markdown());
    eprintln!("written to {}", path.display());
    Ok(())
}
