//! The command line: one subcommand for each library.

use clap::{Parser, Subcommand};
use litek8s_daemon::logging::LogFormat;

use crate::apiserver;

/// A small Kubernetes API server, and the controllers and agents that work on it.
#[derive(Debug, Parser)]
#[command(name = "litek8s", version, propagate_version = false)]
pub(crate) struct Cli {
    /// What is logged, for example `info` or `info,litek8s_raft=debug`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "LITEK8S_LOG",
        default_value = "info,openraft=warn"
    )]
    pub(crate) log: String,
    /// How a log line looks: text or json
    #[arg(long, global = true, value_name = "FORMAT", env = "LITEK8S_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Kubernetes API, with the controllers on the leader
    Apiserver(Box<apiserver::Arguments>),
    /// Carry out on this node what the cluster's objects say
    Agent(litek8s_node_agent::Options),
    /// Run the controllers alone, one of several by a Lease
    Controllers(litek8s_controllers::Options),
    /// A throw-away cluster of several nodes on this machine
    Dev(litek8s_lab::Options),
    /// Questions about virtual IPs: why, what if, what is wrong
    #[command(subcommand)]
    Vip(Vip),
    /// Print the version
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Vip {
    /// Say where each address of a Service is and why
    Explain(litek8s_controllers::inspect::Explain),
    /// Say what a drain of a node would move
    Drain(litek8s_controllers::inspect::Drain),
    /// Say what is wrong or worth a look, on all nodes
    Doctor(litek8s_controllers::inspect::Doctor),
    /// Compare what this machine should hold as a node with what its kernel holds
    Diff(litek8s_node_agent::DiffOptions),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_controllers_can_be_left_out() {
        let parse = |line: &str| {
            let Command::Apiserver(arguments) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
                panic!("{line}")
            };
            arguments.controllers
        };
        assert!(parse("litek8s apiserver"));
        assert!(!parse("litek8s apiserver --controllers false"));
    }
}
