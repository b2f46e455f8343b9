//! A cluster in the hands of a test: started, looked into, broken, mended, and gone when dropped.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use litek8s_kernel::Netns;
use nix::sys::signal::Signal;
use tokio_util::sync::CancellationToken;

use crate::progress::Progress;
use crate::state::{Directory, State};
use crate::up::{self, Wanted};
use crate::{Cable, Member, Process, Role, Topology, down, network, start};

/// What a test wants.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// The cluster's name, unlike every other test's.
    pub name: String,
    /// How many nodes.
    pub nodes: u8,
    /// The `litek8s` binary its processes run.
    pub program: PathBuf,
    /// Whether the suite runs: the controllers beside the API server, an agent on every node. Without it the nodes are
    /// machines that nobody registers.
    pub suite: bool,
}

/// A running cluster. Dropping it removes everything of it.
#[derive(Debug)]
pub struct Lab {
    wanted: Wanted,
    directory: Directory,
    /// How many pods each node was given: the next one's place in the pod network.
    pods: BTreeMap<u8, u8>,
}

impl Lab {
    /// Starts a cluster, as `dev up` does.
    ///
    /// # Errors
    /// As `dev up`.
    pub async fn up(options: LabOptions) -> Result<Self> {
        let name: crate::ClusterName = options.name.parse().map_err(anyhow::Error::msg)?;
        let wanted = Wanted {
            topology: Topology::new(name.clone(), options.nodes),
            nodes: options.nodes,
            program: options.program,
            kubeconfig_copy: None,
            suite: options.suite,
            progress: Progress::quiet(),
        };
        // Made first, so that a failed start is cleaned up too.
        let lab = Self { directory: Directory::of(&name), wanted, pods: BTreeMap::new() };
        up::up(&lab.wanted, &CancellationToken::new()).await?;
        Ok(lab)
    }

    /// What its network looks like.
    pub fn topology(&self) -> &Topology {
        &self.wanted.topology
    }

    /// The administrator's kubeconfig, for use on the host.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.kubeconfig()
    }

    /// The log of a process.
    pub fn log(&self, role: Role, member: &Member) -> PathBuf {
        self.directory.log(role, &member.to_string())
    }

    /// Where a node's agent keeps what it must remember.
    pub fn state_dir(&self, node: &Member) -> PathBuf {
        self.directory.node_data(&node.to_string())
    }

    /// The namespace of a member.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn namespace(&self, member: &Member) -> Result<Netns> {
        network::open(self.topology(), member)
    }

    /// A command that will run in a member's namespace.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn command(&self, member: &Member, program: &str) -> Result<Command> {
        Ok(self.namespace(member)?.command(program)?)
    }

    /// Adds a pod's namespace behind a node's bridge; gives the pod's address.
    ///
    /// # Errors
    /// When the name is taken or the node is none.
    pub async fn add_pod(&mut self, node: &Member, name: &str) -> Result<Ipv4Addr> {
        let Member::Node(number) = *node else { bail!("{node} is no node") };
        let index = self.pods.entry(number).or_default();
        let address = network::add_pod(&self.wanted.topology, number, name, *index).await?;
        *index += 1;
        Ok(address.addr())
    }

    /// Removes a pod's namespace and with it its cable.
    ///
    /// # Errors
    /// When something runs in it that does not end.
    pub fn remove_pod(&self, name: &str) -> Result<()> {
        down::remove_namespace(&self.topology().namespace(&Member::Pod(name.to_owned())))
    }

    /// Takes a cable's packets away but leaves the carrier: a broken switch.
    ///
    /// # Errors
    /// When there is no such cable.
    pub async fn cut(&self, cable: &Cable) -> Result<()> {
        network::cut(self.topology(), cable).await
    }

    /// Undoes [`Lab::cut`].
    ///
    /// # Errors
    /// When there is no such cable.
    pub async fn heal(&self, cable: &Cable) -> Result<()> {
        network::heal(self.topology(), cable).await
    }

    /// Pulls a cable's plug or puts it back: the member's device sees its carrier go or come.
    ///
    /// # Errors
    /// When there is no such cable.
    pub async fn set_carrier(&self, cable: &Cable, carrier: bool) -> Result<()> {
        network::set_carrier(self.topology(), cable, carrier).await
    }

    /// The process of a role in a member, dead or alive.
    ///
    /// # Errors
    /// When none was started.
    pub fn process(&self, role: Role, member: &Member) -> Result<Process> {
        let state = self.state()?;
        state.process(role, &member.to_string()).cloned().with_context(|| format!("no {role:?} in {member}"))
    }

    /// Kills a process without a warning, and waits until it is gone.
    ///
    /// # Errors
    /// When none was started, or it does not end.
    pub fn kill(&self, role: Role, member: &Member) -> Result<()> {
        down::kill(self.process(role, member)?.running)
    }

    /// Sends a process a signal; to end it for sure see [`Lab::kill`].
    ///
    /// # Errors
    /// When none was started.
    pub fn signal(&self, role: Role, member: &Member, signal: Signal) -> Result<()> {
        Ok(self.process(role, member)?.running.signal(signal)?)
    }

    /// Starts again what has died, and waits until all is ready.
    ///
    /// # Errors
    /// As `dev up`.
    pub async fn revive(&self) -> Result<()> {
        up::up(&self.wanted, &CancellationToken::new()).await.map(drop)
    }

    /// Starts the API server again, leaving dead agents dead, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn revive_server(&self) -> Result<()> {
        let _lock = self.directory.lock()?;
        let mut state = self.state()?;
        start::start_server(&self.wanted, &self.directory, &mut state).await
    }

    /// Removes everything now, and says what could not be.
    ///
    /// # Errors
    /// With every failure.
    pub fn down(self) -> Result<()> {
        down::down(self.topology().name(), &Progress::quiet())
    }

    fn state(&self) -> Result<State> {
        self.directory.load()?.context("the cluster is gone")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = down::down(self.topology().name(), &Progress::quiet()) {
            eprintln!("cluster {} was not removed whole: {error:#}", self.topology().name());
        }
    }
}
