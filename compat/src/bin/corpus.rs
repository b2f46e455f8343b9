//! Runs the corpus against the cluster of a kubeconfig: this project's by default, or a reference whose word is final.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use litek8s_compat::corpus::{self, Verdict};

/// Runs the corpus against a cluster.
#[derive(Parser)]
struct Flags {
    /// The kubeconfig of a cluster of this project.
    #[arg(long, value_name = "FILE", required_unless_present = "reference_kubeconfig")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig of a cluster of upstream: differences of this project do not count there.
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    reference_kubeconfig: Option<PathBuf>,
    /// Only cases whose name holds this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let known = if flags.reference_kubeconfig.is_some() { Vec::new() } else { corpus::differences()? };
    let kubeconfig = flags.kubeconfig.or(flags.reference_kubeconfig).unwrap_or_default();
    let mut failed = 0;
    for case in corpus::cases()?.iter().filter(|case| case.name.contains(&flags.case)) {
        let difference = known.iter().find(|difference| difference.case == case.name);
        match corpus::run(case, &kubeconfig, difference).await? {
            Verdict::AsUpstream => println!("ok      {}", case.name),
            Verdict::DiffersAsKnown => println!("differs {}", case.name),
            Verdict::Failed(why) => {
                failed += 1;
                println!("FAILED  {}: {why}", case.name);
            }
        }
    }
    ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}
