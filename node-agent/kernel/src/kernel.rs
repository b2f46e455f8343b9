//! One namespace's kernel: what is there, and the plan's ops done in order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use litek8s_plan::nft::{Change, Table};
use litek8s_plan::{AddressKey, Flow, NextHop, Observed, Op, Route, Tunnel};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::RouteNetlinkMessage;

use crate::announce::Announcer;
use crate::links::{list_links, promote_secondaries};
use crate::monitor::Monitor;
use crate::routing::{address_message, route_message, rule_message};
use crate::rtnl::Rtnl;
use crate::wire::NetfilterSocket;
use crate::wireguard::Wireguard;
use crate::{KernelError, Netns, Prober, conntrack, nft, observe, resolve};

/// How often a transaction is tried when others keep changing their own tables.
const COMMIT_ATTEMPTS: usize = 20;

/// The kernel as seen from one network namespace.
pub struct Kernel {
    netns: Arc<Netns>,
    rtnl: Arc<Rtnl>,
    wireguard: Wireguard,
    netfilter: Arc<Mutex<Netfilter>>,
    announcer: Announcer,
}

/// The netfilter socket, and our table as it was read or written last.
struct Netfilter {
    socket: NetfilterSocket,
    generation: u32,
    table: Option<Table>,
}

/// What became of a list of ops.
#[derive(Debug, Default)]
pub struct Applied {
    /// How many were done.
    pub done: usize,
    /// The op the kernel refused. Nothing after it was tried, so the state is as safe as after any prefix.
    pub failed: Option<(Op, KernelError)>,
    /// Ops that failed and that nothing depends on: the rest was done.
    pub warnings: Vec<(Op, KernelError)>,
}

impl Kernel {
    /// Opens the sockets inside `netns`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When netlink or raw sockets are not allowed.
    pub fn open(netns: Netns) -> Result<Self, KernelError> {
        let rtnl = Arc::new(Rtnl::open(&netns)?);
        let wireguard = Wireguard::open(&netns)?;
        let socket = NetfilterSocket::open(&netns)?;
        let announcer = Announcer::open(&netns, rtnl.clone())?;
        let netfilter = Netfilter { socket, generation: 0, table: None };
        let (netns, netfilter) = (Arc::new(netns), Arc::new(Mutex::new(netfilter)));
        Ok(Self { netns, rtnl, wireguard, netfilter, announcer })
    }

    /// Everything a plan compares with.
    ///
    /// # Errors
    /// When any part of it cannot be read whole: an unread part must not look like an empty one.
    pub async fn observe(&self) -> Result<Observed, KernelError> {
        let mut observed = observe::observe(&self.netns, &self.rtnl, &self.wireguard).await?;
        observed.nft = self
            .netfilter(|netfilter| {
                let (generation, table) = nft::read_table(&mut netfilter.socket)?;
                netfilter.generation = generation;
                netfilter.table.clone_from(&table);
                Ok(table)
            })
            .await?;
        Ok(observed)
    }

    /// The WireGuard interfaces with their peers: the part of what is observed that the kernel does not report when it
    /// changes.
    ///
    /// # Errors
    /// When any part of it cannot be read whole.
    pub async fn tunnels(&self) -> Result<BTreeMap<String, Tunnel>, KernelError> {
        observe::tunnels(&self.wireguard, &list_links(&self.rtnl).await?).await
    }

    /// The way to each of these addresses for a packet with `mark`, or why there is none: what `tables` say does not
    /// count, nor does a default route.
    ///
    /// # Errors
    /// When the kernel cannot be asked at all.
    pub async fn resolve(
        &self,
        addresses: &BTreeSet<IpAddr>,
        mark: u32,
        tables: &BTreeSet<u32>,
    ) -> Result<BTreeMap<IpAddr, Result<NextHop, String>>, KernelError> {
        resolve::resolve(&self.rtnl, addresses, mark, tables).await
    }

    /// Watches for changes.
    ///
    /// # Errors
    /// When the sockets cannot be had.
    pub fn monitor(&self) -> Result<Monitor, KernelError> {
        Monitor::open(&self.netns)
    }

    /// Asks who has an address, and hears who says so.
    ///
    /// # Errors
    /// When the sockets cannot be had.
    pub fn prober(&self) -> Result<Prober, KernelError> {
        Prober::open(&self.netns)
    }

    /// Announces addresses now, and again after 1, 2 and 5 seconds while they are there.
    ///
    /// # Errors
    /// When the interface is not there or down.
    pub async fn announce(&self, interface: &str, addresses: &[IpAddr]) -> Result<(), KernelError> {
        self.announcer.announce(interface, addresses).await
    }

    /// Does the ops in their order, up to the first that fails and that others may depend on.
    pub async fn apply(&self, ops: &[Op]) -> Applied {
        let mut applied = Applied::default();
        let mut indexes = None;
        let mut unprotected: Vec<&String> = Vec::new();
        let mut rest = ops;
        while let Some(op) = rest.first() {
            let flows: Vec<Flow> = rest.iter().map_while(flow_of).cloned().collect();
            rest = &rest[flows.len().max(1)..];
            let result = if let Op::AddAddress(key, _) | Op::RenewAddress(key, _) | Op::DeleteAddress(key) =
                op
                && unprotected.contains(&&key.interface)
            {
                // The end of the first address of a subnet would take the others along.
                let source = std::io::Error::other("promote_secondaries could not be set");
                Err(KernelError::Refused { what: op.to_string(), source })
            } else if flows.is_empty() {
                self.apply_one(op, &mut indexes).await
            } else {
                // One reading of the kernel's list serves all that are forgotten in a row.
                self.forget(flows.clone()).await
            };
            match (op, result) {
                (_, Ok(())) => applied.done += flows.len().max(1),
                (Op::PromoteSecondaries(interface), Err(error)) => {
                    unprotected.push(interface);
                    applied.warnings.push((op.clone(), error));
                }
                (
                    Op::Forget(_) | Op::Announce { .. } | Op::RenewAddress(..) | Op::RemoveAllowedIp(..),
                    Err(error),
                ) => applied.warnings.push((op.clone(), error)),
                (_, Err(error)) => {
                    applied.failed = Some((op.clone(), error));
                    return applied;
                }
            }
        }
        applied
    }

    async fn apply_one(
        &self,
        op: &Op,
        indexes: &mut Option<BTreeMap<String, u32>>,
    ) -> Result<(), KernelError> {
        match op {
            Op::PromoteSecondaries(interface) => promote_secondaries(&self.rtnl, interface).await,
            Op::Nft(changes) => self.commit(changes.clone()).await,
            Op::Forget(flow) => self.forget(vec![flow.clone()]).await,
            Op::Announce { interface, addresses } => self.announce(interface, addresses).await,
            Op::AddAllowedIp(key, peer) => self.wireguard.add(key, *peer, || op.to_string()).await,
            Op::RemoveAllowedIp(key, peer) => {
                let removed = self.wireguard.remove(key, *peer, || op.to_string()).await;
                // An interface that went took its peers along.
                tolerate(removed, libc::ENODEV)
            }
            Op::AddRule(rule) => {
                let message = RouteNetlinkMessage::NewRule(rule_message(rule));
                let added = self.rtnl.change(message, NLM_F_CREATE | NLM_F_EXCL, || op.to_string()).await;
                tolerate(added, libc::EEXIST)
            }
            Op::DeleteRule(rule) => {
                let message = RouteNetlinkMessage::DelRule(rule_message(rule));
                tolerate(self.rtnl.change(message, 0, || op.to_string()).await, libc::ENOENT)
            }
            Op::AddAddress(..)
            | Op::RenewAddress(..)
            | Op::DeleteAddress(_)
            | Op::AddRoute(..)
            | Op::ReplaceRoute(..)
            | Op::DeleteRoute(..) => {
                let indexes = match indexes {
                    Some(indexes) => indexes,
                    None => indexes.insert(self.indexes().await?),
                };
                self.apply_on_link(op, indexes).await
            }
        }
    }

    async fn apply_on_link(&self, op: &Op, indexes: &BTreeMap<String, u32>) -> Result<(), KernelError> {
        let index = |key: &AddressKey| indexes.get(&key.interface).copied();
        let missing = |name: Option<&str>| KernelError::NoLink(name.unwrap_or_default().to_owned());
        let gone = |route: &Route| missing(route.interfaces().find(|name| !indexes.contains_key(*name)));
        let what = || op.to_string();
        match op {
            Op::AddAddress(key, address) => {
                let index = index(key).ok_or_else(|| missing(Some(&key.interface)))?;
                let message = RouteNetlinkMessage::NewAddress(address_message(index, key, Some(address)));
                self.rtnl.change(message, NLM_F_CREATE | NLM_F_EXCL, what).await
            }
            Op::RenewAddress(key, address) => {
                let index = index(key).ok_or_else(|| missing(Some(&key.interface)))?;
                let message = RouteNetlinkMessage::NewAddress(address_message(index, key, Some(address)));
                self.rtnl.change(message, NLM_F_REPLACE, what).await
            }
            Op::DeleteAddress(key) => {
                self.announcer.release(&key.interface, key.address.addr());
                // An interface that went took its addresses along.
                let Some(index) = index(key) else { return Ok(()) };
                let message = RouteNetlinkMessage::DelAddress(address_message(index, key, None));
                tolerate(self.rtnl.change(message, 0, what).await, libc::EADDRNOTAVAIL)
            }
            Op::AddRoute(key, route) | Op::ReplaceRoute(key, route) => {
                let message = route_message(key, route, indexes).ok_or_else(|| gone(route))?;
                let exclusive = matches!(op, Op::AddRoute(..));
                let flags = NLM_F_CREATE | if exclusive { NLM_F_EXCL } else { NLM_F_REPLACE };
                self.rtnl.change(RouteNetlinkMessage::NewRoute(message), flags, what).await
            }
            Op::DeleteRoute(key, route) => {
                let Some(message) = route_message(key, route, indexes) else { return Ok(()) };
                let deleted = self.rtnl.change(RouteNetlinkMessage::DelRoute(message), 0, what).await;
                tolerate(deleted, libc::ESRCH)
            }
            Op::PromoteSecondaries(_)
            | Op::Nft(_)
            | Op::Forget(_)
            | Op::AddRule(_)
            | Op::DeleteRule(_)
            | Op::AddAllowedIp(..)
            | Op::RemoveAllowedIp(..)
            | Op::Announce { .. } => Ok(()),
        }
    }

    async fn indexes(&self) -> Result<BTreeMap<String, u32>, KernelError> {
        let links = list_links(&self.rtnl).await?;
        Ok(links.into_iter().map(|link| (link.name, link.index)).collect())
    }

    async fn forget(&self, flows: Vec<Flow>) -> Result<(), KernelError> {
        let count = self.netfilter(move |netfilter| conntrack::forget(&mut netfilter.socket, &flows)).await?;
        tracing::debug!(count, "connections forgotten");
        Ok(())
    }

    /// Commits if our table is still as it was read; changes of others to their own tables do not matter.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), KernelError> {
        self.netfilter(move |netfilter| {
            for _ in 0..COMMIT_ATTEMPTS {
                match nft::commit(&mut netfilter.socket, &changes, netfilter.generation) {
                    Err(KernelError::Changed) => {}
                    Err(error) => return Err(error),
                    Ok(()) => {
                        let (generation, table) = nft::read_table(&mut netfilter.socket)?;
                        netfilter.generation = generation;
                        netfilter.table = table;
                        return Ok(());
                    }
                }
                let (generation, table) = nft::read_table(&mut netfilter.socket)?;
                if table != netfilter.table {
                    return Err(KernelError::Changed);
                }
                netfilter.generation = generation;
            }
            Err(KernelError::Changed)
        })
        .await
    }

    /// Runs blocking netlink work off the runtime's threads.
    async fn netfilter<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Netfilter) -> Result<T, KernelError> + Send + 'static,
    ) -> Result<T, KernelError> {
        let netfilter = self.netfilter.clone();
        let run = move || work(&mut netfilter.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(run).await.map_err(|_| KernelError::Closed)?
    }
}

fn flow_of(op: &Op) -> Option<&Flow> {
    if let Op::Forget(flow) = op { Some(flow) } else { None }
}

/// What is already as wanted is no error.
fn tolerate(result: Result<(), KernelError>, errno: i32) -> Result<(), KernelError> {
    match result {
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        other => other,
    }
}
