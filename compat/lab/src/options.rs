//! The command line of `litek8s dev`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::{ClusterName, Member};

/// The name a cluster has when none is given.
const DEFAULT_NAME: &str = "default";

/// A throw-away cluster of several nodes on this machine.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster, or bring a running one back to what was asked
    Up {
        /// How many nodes
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(crate::topology::MOST_NODES)))]
        nodes: u8,
        #[command(flatten)]
        cluster: Cluster,
        /// Also write the kubeconfig to this file; `down` removes it
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Run a command on a node
    Exec {
        #[command(flatten)]
        cluster: Cluster,
        /// node-1, node-2, …, outside, server, lan
        #[arg(value_name = "NODE")]
        member: Member,
        /// The command and its arguments
        #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Show members, addresses, processes and whether the API is ready
    Status {
        #[command(flatten)]
        cluster: Cluster,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Remove a cluster and everything of it
    Down {
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Answer HTTP requests with a name, and /client with the client's address
    #[command(hide = true)]
    Respond {
        /// What to answer
        #[arg(long)]
        name: String,
        /// The TCP port
        #[arg(long)]
        port: u16,
    },
    /// Ask once and print the answer
    #[command(hide = true)]
    Request {
        /// http://ADDRESS[:PORT][/PATH]
        url: http::Uri,
        /// The address to ask from
        #[arg(long)]
        source: Option<IpAddr>,
        /// The end in time, in milliseconds
        #[arg(long, default_value_t = 2000)]
        timeout: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// The cluster's name
    #[arg(long, default_value = DEFAULT_NAME)]
    pub(crate) name: ClusterName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Line::try_parse_from(std::iter::once("dev").chain(line.split(' '))).map(|line| line.options.command)
    }

    #[test]
    fn everything_after_the_node_is_the_command() {
        for line in ["exec node-1 -- ip -br addr", "exec node-1 ip -br addr"] {
            let Command::Exec { member, command, .. } = parse(line).unwrap() else { panic!("{line}") };
            assert_eq!(member, Member::Node(1));
            assert_eq!(command, ["ip", "-br", "addr"]);
        }
    }

    #[test]
    fn a_bad_line_is_refused() {
        for line in ["up --nodes 0", "up --nodes 65", "up --name a-b", "exec router -- ls", "exec node-1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
