//! The litek8s binary: parses flags and calls one library's `run`; never has behaviour of its own.

mod apiserver;
mod cli;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, Vip};

/// A write's objects are made on one thread and freed on another, which this allocator is good at: it takes a fifth of
/// the processor time of a write away.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The fewest threads that answer requests: one may be busy with a long list.
const LEAST_THREADS: usize = 2;

fn main() -> ExitCode {
    // Before anything of TLS: every library finds the one provider.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return fail(&anyhow::anyhow!("a TLS provider was installed before"));
    }
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// One clear line.
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("litek8s: {error:#}");
    ExitCode::FAILURE
}

fn start(cli: Cli) -> anyhow::Result<()> {
    litek8s_daemon::logging::init(cli.log_format, &cli.log)?;
    let cores = std::thread::available_parallelism().map_or(LEAST_THREADS, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(LEAST_THREADS))
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let shutdown = litek8s_daemon::shutdown::on_signals()?;
        match cli.command {
            Command::Apiserver(arguments) => apiserver::run(*arguments, shutdown).await,
            Command::Agent(options) => litek8s_node_agent::run(options, shutdown).await,
            Command::Controllers(options) => litek8s_controllers::run(options, shutdown).await,
            Command::Dev(options) => litek8s_lab::run(options, shutdown).await,
            Command::Vip(Vip::Explain(options)) => litek8s_controllers::inspect::explain(options).await,
            Command::Vip(Vip::Drain(options)) => litek8s_controllers::inspect::drain(options).await,
            Command::Vip(Vip::Doctor(options)) => litek8s_controllers::inspect::doctor(options).await,
            Command::Vip(Vip::Diff(options)) => litek8s_node_agent::diff(options).await,
            Command::Version => {
                println!("litek8s {} (Kubernetes {})", env!("CARGO_PKG_VERSION"), kubernetes());
                Ok(())
            }
        }
    })
}

fn kubernetes() -> String {
    litek8s_apiserver::version::git_version()
}
