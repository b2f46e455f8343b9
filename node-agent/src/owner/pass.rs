//! One pass: observe, compile, diff, apply. A VIP that the kernel refuses is left out, so that the others are served.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use litek8s_crds::names;
use litek8s_kernel::{Kernel, KernelError};
use litek8s_plan::{Facts, Observed, Op, Plan, Vip, compile, diff, free_mark, left, recheck};
use tokio::time::Instant;

use super::{Cause, Owner, Told};
use crate::fitness;
use crate::gateways;
use crate::vips::Unusable;

/// How long a VIP that the kernel refused is left out.
const EXCLUSION: Duration = Duration::from_secs(20);
/// How often other programs may get in between within one pass.
const INTERRUPTIONS: usize = 5;
/// After how many passes in a row that mended what somebody else did this is worth telling.
const UNDONE: u32 = 3;

impl Owner {
    pub(super) async fn pass(&mut self, cause: Cause) -> anyhow::Result<()> {
        let now = Instant::now();
        self.wake(now);
        let Some((mut facts, mut unusable)) = self.in_force() else { return Ok(()) };
        self.memory.excluded.retain(|_, (_, until)| *until > now);
        self.memory.closed.retain(|_, (_, until)| *until > now);
        // A first look shows what somebody else did; what is left after a refusal is our own doing.
        let mut foreign = self.memory.settled && !cause.objects;
        let mut interruptions = 0;
        let (plan, observed, announced) = loop {
            let mut observed = self.kernel.observe().await.context("read the kernel")?;
            self.ledger.sort_out(&mut observed);
            facts.see(&observed);
            facts.in_company = self.in_company();
            if self.memory.asleep || !self.index.synced() {
                let there = |vip: &Vip| observed.addresses.keys().any(|key| key.address == vip.virtual_cidr);
                let (there, ended): (Vec<Vip>, Vec<Vip>) = facts.vips.drain(..).partition(there);
                facts.vips = there;
                let why = || ("CutOff", "its address ended, and others may have it by now".to_owned());
                unusable.extend(ended.into_iter().map(|vip| (vip.name, why())));
            }
            self.judge_contests(&mut facts, &observed);
            facts.excluded = errors(&self.memory.excluded);
            facts.closed = errors(&self.memory.closed);
            foreign &= !self.find_pods(&mut facts, &observed).await?;
            let plan = compile(&facts);
            let ops = diff(&plan.desired, &observed);
            if !self.note(&observed, &ops, &facts) {
                continue;
            }
            self.log(&ops, std::mem::take(&mut foreign));
            let applied = self.kernel.apply(&ops).await;
            for (op, error) in &applied.warnings {
                tracing::warn!(%op, %error, "done without");
            }
            let Some((op, error)) = applied.failed else {
                self.note_done(&facts, &plan, &observed, &applied.warnings);
                break (plan, observed, announcements(&ops));
            };
            if matches!(error, KernelError::Changed) && interruptions < INTERRUPTIONS {
                interruptions += 1;
                continue;
            }
            let text = format!("{op}: {error}");
            let applied = |name: &str| plan.gateways.get(name).is_some_and(|found| found.refused.is_none());
            let gateway = gateways::of_op(&op, &facts.gateways).filter(|(name, _)| applied(name));
            let Some((name, pods)) = gateway.or_else(|| vip_of(&op, &facts).map(|vip| (vip, false))) else {
                anyhow::bail!(text)
            };
            let left_out = if pods { &mut self.memory.closed } else { &mut self.memory.excluded };
            let entry = (error_text(&error), Instant::now() + EXCLUSION);
            if left_out.insert(name.to_owned(), entry).is_some() {
                anyhow::bail!(text);
            }
            tracing::warn!(name, error = text, "the kernel refuses a VIP or gateway");
        };
        if !std::mem::replace(&mut self.memory.rechecked, true) {
            for (op, error) in self.kernel.apply(&recheck(&plan.desired)).await.warnings {
                tracing::warn!(%op, %error, "done without");
            }
        }
        self.memory.settled = true;
        self.announce_again(&facts, &plan, &observed, announced).await;
        self.defend(&facts, &observed).await;
        self.watch_conflicts(&observed, facts.mask);
        if self.index.synced() {
            self.report(&plan, &unusable);
            // Without its VIPs while it is cut off, so that a restart does not bring them back.
            self.state.save(&facts);
            self.say(&facts, &plan, &observed);
            self.ready.ready();
            self.synced.cancel();
        }
        self.metrics.vips.set(i64::try_from(plan.desired.addresses.len()).unwrap_or(i64::MAX));
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.metrics.last_success.set(time.as_secs_f64());
        Ok(())
    }

    /// Notes what is about to be added to WireGuard interfaces of others. Gateways for which that fails are closed, so that
    /// nothing stays behind that nobody knows of; false when the plan is another one for that.
    fn note(&mut self, observed: &Observed, ops: &[Op], facts: &Facts) -> bool {
        let Err(error) = self.ledger.before(observed, ops) else { return true };
        tracing::warn!(%error, "cannot note what is added to WireGuard interfaces");
        let added =
            |network| ops.iter().any(|op| matches!(op, Op::AddAllowedIp(key, _) if key.network == network));
        let waiting: Vec<_> =
            facts.gateways.iter().filter(|gateway| added(gateway.destination.trunc())).collect();
        let why = format!("cannot note what is added to a WireGuard interface: {error}");
        let until = Instant::now() + EXCLUSION;
        self.memory.closed.extend(waiting.iter().map(|gateway| (gateway.name.clone(), (why.clone(), until))));
        waiting.is_empty()
    }

    /// Notes what was added and removed, and what the WireGuard interfaces hold by now.
    fn note_done(&mut self, facts: &Facts, plan: &Plan, observed: &Observed, warnings: &[(Op, KernelError)]) {
        let refused = || warnings.iter().map(|(op, _)| op);
        if let Err(error) = self.ledger.after(&plan.desired, observed, refused()) {
            tracing::warn!(%error, "cannot note what was removed from WireGuard interfaces");
        }
        self.memory.tunnels = match facts.gateways.is_empty() {
            true => BTreeMap::new(),
            false => observed.tunnels_with(left(&plan.desired, refused())),
        };
    }

    /// What should be: by the objects, or until they are known by the last known state. `None`: nobody knows.
    fn in_force(&self) -> Option<(Facts, BTreeMap<String, Unusable>)> {
        if self.index.synced() {
            let (mut facts, mut unusable) = self.index.facts();
            if self.memory.cut_off {
                let why = || ("CutOff", "its node reaches nobody".to_owned());
                unusable.extend(facts.vips.drain(..).map(|vip| (vip.name, why())));
            }
            return Some((facts, unusable));
        }
        self.last.clone().map(|facts| (facts, BTreeMap::new()))
    }

    /// Asks for the ways to the pods of gateways; whether one is another than before.
    async fn find_pods(&mut self, facts: &mut Facts, observed: &Observed) -> anyhow::Result<bool> {
        find_pods(&self.kernel, facts, observed).await?;
        let moved = facts.hops != self.memory.hops;
        if moved {
            tracing::info!(ways = ?facts.hops, "the ways to gateway pods");
        }
        self.memory.hops.clone_from(&facts.hops);
        Ok(moved)
    }

    /// Has the Lease say what the node can serve and how the gateways stand, and logs of each what changed.
    fn say(&self, facts: &Facts, plan: &Plan, observed: &Observed) {
        let node = fitness::Node {
            networks: &self.index.interfaces(),
            interfaces: &observed.interfaces,
            rules: &self.memory.conflicts,
            undone: self.memory.undone >= UNDONE,
        };
        let mut says = fitness::says(&node);
        let said = gateways::said(&facts.gateways, plan, &self.index.gateways().1);
        says.insert(names::ANNOTATION_GATEWAYS, said);
        let applied = plan.gateways.values().filter(|standing| standing.refused.is_none()).count();
        self.metrics.gateways.set(i64::try_from(applied).unwrap_or(i64::MAX));
        self.says.send_if_modified(|before| {
            let key = names::ANNOTATION_GATEWAYS;
            if before.get(key) != says.get(key) {
                for (gateway, standing) in &plan.gateways {
                    if let Some(why) = &standing.refused {
                        tracing::error!(gateway, %why, "a gateway is refused on this node");
                    } else if !standing.unusable.is_empty() {
                        tracing::warn!(gateway, pods = ?standing.unusable, "pods of a gateway cannot be reached");
                    }
                }
            }
            let differs = *before != says;
            *before = says;
            differs
        });
    }

    fn log(&mut self, ops: &[Op], foreign: bool) {
        let quiet = |op: &&Op| matches!(op, Op::Announce { .. } | Op::RenewAddress(..));
        let changes = ops.iter().filter(|op| !quiet(op)).count();
        for op in ops {
            match op {
                Op::Nft(changes) => {
                    tracing::info!("nft, {} changes in one transaction", changes.len());
                    tracing::debug!("{op}");
                }
                Op::RenewAddress(..) => tracing::debug!("{op}"),
                Op::PromoteSecondaries(_)
                | Op::Forget(_)
                | Op::AddAddress(..)
                | Op::DeleteAddress(_)
                | Op::AddRoute(..)
                | Op::ReplaceRoute(..)
                | Op::DeleteRoute(..)
                | Op::AddRule(_)
                | Op::DeleteRule(_)
                | Op::AddAllowedIp(..)
                | Op::RemoveAllowedIp(..)
                | Op::Announce { .. } => tracing::info!("{op}"),
            }
        }
        if foreign && changes > 0 {
            tracing::warn!(changes, "repaired what somebody else changed");
            self.metrics.drift.inc_by(u64::try_from(changes).unwrap_or(u64::MAX));
            self.memory.undone += 1;
        } else if changes == 0 {
            self.memory.undone = 0;
        }
    }

    /// Announces VIPs that were in place already but whose neighbours may believe something else: after a restart, a
    /// link or a cable that was away, an object made anew, an outage of the API.
    async fn announce_again(&mut self, facts: &Facts, plan: &Plan, observed: &Observed, done: Announced) {
        let uids: BTreeMap<&String, String> = self
            .index
            .addresses()
            .map(|(vip, address)| (vip, address.metadata.uid.clone().unwrap_or_default()))
            .collect();
        let mut again: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
        let mut announced = BTreeMap::new();
        // Until the API has said everything others may have them, and what is not there is not brought back.
        let vips = if self.index.synced() { facts.vips.as_slice() } else { &[] };
        for vip in vips {
            let Some(interface) = observed.interfaces.get(&vip.interface).filter(|interface| interface.up)
            else {
                continue;
            };
            if !plan.accepts(&vip.name) {
                continue;
            }
            let uid = uids.get(&vip.name).cloned().unwrap_or_default();
            let now = Told { uid, carrier_ups: interface.carrier_ups };
            let known = self.memory.announced.get(&vip.name) == Some(&now);
            let new = done.addresses.contains(&vip.address());
            // Its routes were gone: the link was down.
            if !new && (!known || done.tables.contains(&vip.table)) {
                again.entry(&vip.interface).or_default().push(vip.address());
            }
            self.metrics.announcements.inc_by(u64::from(new));
            announced.insert(vip.name.clone(), now);
        }
        for (interface, addresses) in again {
            tracing::info!(interface, ?addresses, "announced again");
            if let Err(error) = self.kernel.announce(interface, &addresses).await {
                tracing::warn!(interface, %error, "cannot announce");
                announced.retain(|name, _| {
                    !facts.vips.iter().any(|vip| vip.name == *name && addresses.contains(&vip.address()))
                });
                continue;
            }
            self.metrics.announcements.inc_by(u64::try_from(addresses.len()).unwrap_or_default());
        }
        self.memory.announced = announced;
    }

    fn watch_conflicts(&mut self, observed: &Observed, mask: u32) {
        let conflicts = observed.mark_conflicts(mask);
        self.metrics.mark_conflicts.set(i64::try_from(conflicts.len()).unwrap_or(i64::MAX));
        if conflicts != self.memory.conflicts {
            for rule in &conflicts {
                tracing::warn!(
                    priority = rule.priority,
                    fwmark = format!("{:#x}/{:#x}", rule.mark, rule.mask),
                    table = rule.table,
                    "a rule of another program looks at our mark bits"
                );
            }
            self.memory.conflicts = conflicts;
        }
    }
}

/// Asks for the ways to the pods of gateways.
pub(crate) async fn find_pods(kernel: &Kernel, facts: &mut Facts, observed: &Observed) -> anyhow::Result<()> {
    let pods: BTreeSet<IpAddr> =
        facts.gateways.iter().flat_map(|gateway| &gateway.pods).map(|pod| pod.address).collect();
    let ours = || observed.rules.iter().filter(|rule| rule.from.is_none());
    let marks = ours().map(|rule| rule.mark).chain(facts.vips.iter().map(|vip| vip.mark)).collect();
    let tables = ours().map(|rule| rule.table).collect();
    let found = kernel.resolve(&pods, free_mark(facts.mask, &marks), &tables).await;
    facts.hops = found.context("find the gateways' pods")?;
    Ok(())
}

/// What a pass announced, and the tables whose routes it had to put back.
struct Announced {
    addresses: Vec<IpAddr>,
    tables: Vec<u32>,
}

fn announcements(ops: &[Op]) -> Announced {
    let mut announced = Announced { addresses: Vec::new(), tables: Vec::new() };
    for op in ops {
        if let Op::Announce { addresses, .. } = op {
            announced.addresses.extend(addresses);
        } else if let Op::AddRoute(key, route) = op
            && route.interface().is_some()
        {
            announced.tables.push(key.table);
        }
    }
    announced
}

/// The VIP an op is for.
fn vip_of<'a>(op: &Op, facts: &'a Facts) -> Option<&'a str> {
    let by_table = |table: u32| facts.vips.iter().find(move |vip| vip.table == table);
    let vip = match op {
        Op::AddAddress(key, _) | Op::DeleteAddress(key) => {
            facts.vips.iter().find(|vip| vip.virtual_cidr == key.address && vip.interface == key.interface)
        }
        Op::AddRoute(key, _) | Op::ReplaceRoute(key, _) | Op::DeleteRoute(key, _) => by_table(key.table),
        Op::AddRule(rule) | Op::DeleteRule(rule) => by_table(rule.table),
        Op::PromoteSecondaries(_)
        | Op::RenewAddress(..)
        | Op::Nft(_)
        | Op::Forget(_)
        | Op::AddAllowedIp(..)
        | Op::RemoveAllowedIp(..)
        | Op::Announce { .. } => None,
    };
    vip.map(|vip| vip.name.as_str())
}

fn errors(left_out: &BTreeMap<String, (String, Instant)>) -> BTreeMap<String, String> {
    left_out.iter().map(|(name, (error, _))| (name.clone(), error.clone())).collect()
}

fn error_text(error: &KernelError) -> String {
    match std::error::Error::source(error) {
        Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}
