//! The one task that owns this node's state: it hears what changed, compares, and puts the difference into the kernel.
//!
//! Nothing is removed before every kind was listed once; while the API is away nothing changes.

mod contested;
mod pass;
mod report;

pub(crate) use pass::find_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use litek8s_crds::{VipAddress, VipConfig, VipGateway, VipGuard, VipNetwork, VipRoute};
use litek8s_daemon::backoff::Backoff;
use litek8s_daemon::serve::Readiness;
use litek8s_kernel::{Kernel, Monitor, Notice};
use litek8s_plan::{Facts, Mac, NextHop, Tunnel, parting};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::contest::{Contests, Place};
use crate::detect::{Ours, Questions};
use crate::fitness::Says;
use crate::index::{Change, Index};
use crate::ledger::Ledger;
use crate::metrics::AgentMetrics;
use crate::session::Outgoing;
use crate::state::State;
use crate::vips;

/// How often everything is compared although nothing seemed to change; addresses live three times as long.
const FULL_PASS: Duration = Duration::from_secs(20);
/// A longer time without a look is one in which this process did not run: by now addresses may have ended, and others may
/// have them, while what is known of the objects is as old.
const ASLEEP: Duration = Duration::from_secs(40);
/// How often the WireGuard interfaces that lead to gateway pods are looked at: the kernel does not report what their owner
/// changes.
const LOOK_AT_TUNNELS: Duration = Duration::from_secs(1);
/// How long more changes of objects are waited for.
const SETTLE_OBJECTS: Duration = Duration::from_millis(60);
/// The same for a VipAddress that comes, or that another node waits for: then nobody answers for the VIP meanwhile.
const SETTLE_MOVES: Duration = Duration::from_millis(5);
/// How long a VipAddress may take until it is there again when it is made anew.
const ANEW: Duration = Duration::from_millis(500);
/// How long more changes of the kernel are waited for; doubled while somebody keeps undoing ours.
const SETTLE_KERNEL: Duration = Duration::from_millis(20);
const SETTLE_KERNEL_MOST: Duration = Duration::from_secs(5);
/// How long a VIP outlives its VipAddress when nobody waits for its end: one that is made anew is deleted first, and its
/// connections go on.
const LINGER: Duration = Duration::from_secs(1);
/// How long after a failed pass the next one comes; doubled up to the full pass.
const RETRY: Duration = Duration::from_millis(250);

/// What the owner hears.
#[derive(Debug)]
pub(crate) enum Event {
    Address(Box<Change<VipAddress>>),
    Network(Change<VipNetwork>),
    Config(Change<VipConfig>),
    Node(Box<Change<Node>>),
    Gateway(Change<VipGateway>),
    Route(Change<VipRoute>),
    Guard(Change<VipGuard>),
    /// Where the API server is.
    ApiServers(BTreeSet<IpAddr>),
    /// The API answers again after it did not: others may have held our addresses meanwhile.
    Reconnected,
    /// Neither the API nor anybody on the VIP networks answers: others have our addresses by now.
    CutOff,
    /// Another node is asked to let go of an address that it has with this hardware address.
    Leaves(IpAddr, Option<Mac>),
    /// Somebody says that he has an address of ours.
    Claimed(Place, Mac),
    /// Whether anybody answers this node, which does not know yet what the API says.
    Company(bool),
    /// A status patch did not get through.
    Unpatched(String),
}

/// Why a pass is made.
#[derive(Debug, Clone, Copy, Default)]
struct Cause {
    /// Objects changed: differences are expected.
    objects: bool,
}

/// The state.
pub(crate) struct Owner {
    pub(crate) kernel: Kernel,
    pub(crate) index: Index,
    pub(crate) state: State,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: AgentMetrics,
    pub(crate) ready: Readiness,
    /// Cancelled once the API has said everything.
    pub(crate) synced: CancellationToken,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    /// What the agent's Lease says.
    pub(crate) says: watch::Sender<Says>,
    /// Has the network asked for addresses.
    pub(crate) questions: mpsc::Sender<Questions>,
    /// The addresses whose claims are listened to.
    pub(crate) ours: watch::Sender<Ours>,
    /// Has the API list everything anew.
    pub(crate) anew: Arc<Notify>,
    /// What is in force until the objects are known: the last known state.
    pub(crate) last: Option<Facts>,
    pub(crate) memory: Memory,
}

/// Where the neighbours of a VIP were told that it is: anew when this is not so any more.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// Of the VipAddress.
    uid: String,
    /// How often its interface had got a carrier: it may be in another port of the switch after the next time.
    carrier_ups: u32,
}

/// What is remembered between passes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// VIPs the kernel refused: what it said, and until when they are left out.
    excluded: BTreeMap<String, (String, Instant)>,
    /// Gateways whose route over their pods the kernel refused, likewise.
    closed: BTreeMap<String, (String, Instant)>,
    /// The ways to the pods of gateways, as found last.
    hops: BTreeMap<IpAddr, Result<NextHop, String>>,
    /// The WireGuard interfaces that gateways depend on, as found last with all they have.
    tunnels: BTreeMap<String, Tunnel>,
    /// What each VIP was announced as.
    announced: BTreeMap<String, Told>,
    /// Addresses that others may have.
    contests: Contests,
    /// The hardware address of each interface.
    macs: BTreeMap<String, Mac>,
    /// Problems that an Event was sent for: VIP and reason.
    told: BTreeSet<(String, String)>,
    /// Status patches under way.
    sent: BTreeMap<String, (Value, Instant)>,
    /// VIPs whose status the API refused or did not take.
    unpatched: Backoff,
    /// Rules of others with our bits, as last logged.
    conflicts: Vec<litek8s_plan::ForeignRule>,
    /// Whether nobody could be reached, and the VipAddresses were not listed since.
    cut_off: bool,
    /// When the node was looked at last.
    looked: Option<Instant>,
    /// Whether this process did not run for a while, and the VipAddresses were not listed since.
    asleep: bool,
    /// Whether the API was away, and the VipAddresses were not listed since: others may have held them meanwhile.
    outage: bool,
    /// VipAddresses that were deleted without anybody waiting for it, and until when they count all the same.
    lingering: BTreeMap<String, (VipAddress, Instant)>,
    /// Whether anybody answered while the API had not said anything yet.
    company: bool,
    /// Whether connections were looked through that an agent before this one may have failed to forget.
    rechecked: bool,
    /// VipAddresses that went though nobody waits for this node to let go, and until when each is expected anew.
    anew: BTreeMap<String, Instant>,
    /// Whether the last pass left the node as it should be.
    settled: bool,
    /// Passes in a row that undid what somebody else did.
    undone: u32,
    /// Passes in a row that failed.
    failed: u32,
}

impl Owner {
    /// Runs until `shutdown`; leaves everything in the kernel as it is, for long enough to start another agent.
    pub(crate) async fn run(
        mut self,
        mut monitor: Monitor,
        mut events: mpsc::Receiver<Event>,
        shutdown: CancellationToken,
    ) {
        let mut full = tokio::time::interval(FULL_PASS);
        full.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut tunnels = tokio::time::interval(LOOK_AT_TUNNELS);
        tunnels.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut cause = Cause::default();
        let mut due: Option<Instant> = None;
        loop {
            let now = Instant::now;
            let sooner = |due: Option<Instant>, delay| {
                let at = now() + delay;
                Some(due.map_or(at, |due| due.min(at)))
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return self.part().await,
                () = tokio::time::sleep_until(self.not_before(due.unwrap_or_else(now))), if due.is_some() => {
                    due = self.pass_and_retry(std::mem::take(&mut cause)).await.map(|delay| now() + delay);
                }
                Some(event) = events.recv() => {
                    cause.objects = true;
                    due = sooner(due, self.hear(event));
                }
                notice = monitor.next() => match notice {
                    // Only the ways to gateway pods depend on the routes of others.
                    Some(Notice::ForeignRoute) if self.memory.hops.is_empty() => {}
                    Some(notice) => due = sooner(due, self.settle_kernel(notice)),
                    None => match self.kernel.monitor() {
                        Ok(opened) => monitor = opened,
                        Err(error) => {
                            tracing::error!(%error, "cannot watch the kernel");
                            tokio::time::sleep(RETRY).await;
                        }
                    },
                },
                _ = tunnels.tick(), if !self.memory.tunnels.is_empty() => {
                    if self.tunnels_changed().await {
                        due = sooner(due, Duration::ZERO);
                    }
                }
                _ = full.tick() => due = sooner(due, Duration::ZERO),
            }
        }
    }

    /// Notices when this process did not run for a while.
    fn wake(&mut self, now: Instant) {
        let before = self.memory.looked.replace(now);
        if before.is_some_and(|before| now - before > ASLEEP) {
            tracing::warn!(
                "this process did not run: addresses that ended stay away until the API lists them anew"
            );
            self.memory.asleep = true;
            self.memory.announced.clear();
            self.anew.notify_one();
        }
    }

    /// Whether this node is not alone, as far as is known: only then may its addresses be renewed.
    fn in_company(&self) -> bool {
        if self.index.synced() { !self.memory.cut_off } else { self.memory.company }
    }

    /// The last thing: addresses outlive this agent for a while.
    async fn part(&self) {
        if !self.in_company() {
            return;
        }
        match self.kernel.observe().await {
            Ok(observed) => {
                for (op, error) in self.kernel.apply(&parting(&observed)).await.warnings {
                    tracing::warn!(%op, %error, "done without");
                }
            }
            Err(error) => tracing::warn!(%error, "the addresses may end before another agent renews them"),
        }
    }

    /// A VipAddress that is made anew is deleted first: no pass comes between, whatever else it is due for.
    fn not_before(&self, due: Instant) -> Instant {
        self.memory.anew.values().copied().fold(due, Instant::max)
    }

    /// Notes a VipAddress that may be made anew, and one that was.
    fn expect(&mut self, change: &Change<VipAddress>) {
        match change {
            Change::Reset(_) => self.memory.anew.clear(),
            Change::Apply(address) => {
                self.memory.anew.remove(&vips::key_of(address));
            }
            // One that waits for this node was known as leaving before.
            Change::Delete(address) if self.index.knows(&vips::key_of(address)) => {
                self.memory.anew.retain(|_, until| *until > Instant::now());
                self.memory.anew.insert(vips::key_of(address), Instant::now() + ANEW);
            }
            Change::Delete(_) => {}
        }
    }

    /// Takes an event in and says how long others are waited for.
    fn hear(&mut self, event: Event) -> Duration {
        match event {
            Event::Address(change) => {
                let moves = match &*change {
                    Change::Apply(address) => {
                        vips::waits(address) || !self.index.knows(&vips::key_of(address))
                    }
                    Change::Reset(_) | Change::Delete(_) => false,
                };
                if matches!(&*change, Change::Reset(_)) {
                    (self.memory.cut_off, self.memory.asleep) = (false, false);
                    if std::mem::take(&mut self.memory.outage) {
                        self.memory.announced.clear();
                    }
                }
                if self.lingers(&change) {
                    return LINGER;
                }
                self.expect(&change);
                self.index.address(*change);
                if moves {
                    return SETTLE_MOVES;
                }
            }
            Event::Network(change) => self.index.network(change),
            Event::Config(change) => self.index.config(change),
            Event::Node(change) => self.index.node(*change),
            Event::Gateway(change) => self.index.gateway(change),
            Event::Route(change) => self.index.route(change),
            Event::Guard(change) => {
                self.index.guard(change);
                // A pod may be sending already.
                return SETTLE_MOVES;
            }
            Event::ApiServers(found) => self.index.api_servers(found),
            Event::CutOff => {
                tracing::warn!("this node is cut off: its VIPs are taken down until the API lists them anew");
                self.memory.cut_off = true;
            }
            Event::Leaves(address, mac) => self.memory.contests.leaves(address, mac, Instant::now()),
            Event::Claimed(place, mac) => {
                self.memory.contests.claimed(place, mac, Instant::now());
                return SETTLE_MOVES;
            }
            Event::Company(there) => self.memory.company = there,
            Event::Reconnected => self.memory.outage = true,
            Event::Unpatched(vip) => {
                self.memory.sent.remove(&vip);
                let now = Instant::now();
                self.memory.unpatched.note(&vip, false, now.into_std());
                return self.memory.unpatched.wait(now.into_std()).unwrap_or(RETRY);
            }
        }
        SETTLE_OBJECTS
    }

    /// Whether a change is an end that may be followed by a new beginning. A beginning ends what lingers in its place.
    fn lingers(&mut self, change: &Change<VipAddress>) -> bool {
        match change {
            Change::Reset(_) => self.memory.lingering.clear(),
            Change::Apply(new) => {
                let cidr = &new.spec.virtual_cidr;
                let replaced =
                    |_: &String, (old, _): &mut (VipAddress, Instant)| old.spec.virtual_cidr == *cidr;
                let over: Vec<_> = self.memory.lingering.extract_if(.., replaced).collect();
                over.into_iter().for_each(|(_, (old, _))| self.index.address(Change::Delete(old)));
            }
            Change::Delete(address) => {
                let key = vips::key_of(address);
                if self.index.knows(&key) {
                    self.memory.lingering.insert(key, (address.clone(), Instant::now() + LINGER));
                    return true;
                }
            }
        }
        false
    }

    /// Lets go what lingered for long enough, and says how long it is until more is to go.
    fn let_go(&mut self, now: Instant) -> Option<Duration> {
        let due = |_: &String, (_, until): &mut (VipAddress, Instant)| *until <= now;
        let over: Vec<_> = self.memory.lingering.extract_if(.., due).collect();
        over.into_iter().for_each(|(_, (address, _))| self.index.address(Change::Delete(address)));
        self.memory.lingering.values().map(|(_, until)| *until - now).min()
    }

    fn settle_kernel(&self, notice: Notice) -> Duration {
        tracing::trace!(?notice, "the kernel changed");
        let doubled = SETTLE_KERNEL.saturating_mul(1 << self.memory.undone.min(10));
        doubled.min(SETTLE_KERNEL_MOST)
    }

    /// Whether a WireGuard interface that gateways depend on is not as the last pass found or left it.
    async fn tunnels_changed(&self) -> bool {
        match self.kernel.tunnels().await {
            Ok(tunnels) => tunnels != self.memory.tunnels,
            Err(error) => {
                tracing::debug!(%error, "cannot look at the WireGuard interfaces");
                true
            }
        }
    }

    /// One pass; when to make another, after a failure or because of who has an address.
    async fn pass_and_retry(&mut self, cause: Cause) -> Option<Duration> {
        let started = std::time::Instant::now();
        let more = self.let_go(Instant::now());
        let result = self.pass(cause).await;
        self.metrics.passes.inc();
        self.metrics.seconds.observe(started.elapsed().as_secs_f64());
        match result {
            Ok(()) => {
                self.memory.failed = 0;
                let now = Instant::now();
                let contest = self.memory.contests.next(now).map(|at| at - now);
                more.into_iter().chain(contest).min()
            }
            Err(error) => {
                self.metrics.failures.inc();
                self.memory.tunnels.clear();
                self.memory.settled = false;
                let delay = RETRY.saturating_mul(1 << self.memory.failed.min(7)).min(FULL_PASS);
                self.memory.failed += 1;
                tracing::warn!(error = format!("{error:#}"), ?delay, "the node is not as it should be");
                Some(delay)
            }
        }
    }
}
