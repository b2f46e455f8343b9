//! VIPs that others on the network have or say they have: asked for before they are added, defended once they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use litek8s_plan::{AddressKey, Contest, Facts, Mac, Observed};
use tokio::time::Instant;

use super::Owner;
use crate::contest::Place;
use crate::detect::{Ours, Questions};

impl Owner {
    /// Finds out what stands against each VIP, and has the network asked for those that nobody knows of.
    pub(super) fn judge_contests(&mut self, facts: &mut Facts, observed: &Observed) {
        let now = Instant::now();
        self.memory.macs =
            observed.interfaces.iter().filter_map(|(name, found)| Some((name.clone(), found.mac?))).collect();
        let own: BTreeSet<Mac> = self.memory.macs.values().copied().collect();
        let uids: BTreeMap<&String, Option<&String>> =
            self.index.addresses().map(|(vip, address)| (vip, address.metadata.uid.as_ref())).collect();
        let (mut questions, mut ours) = (Questions::new(), Ours::new());
        facts.contested.clear();
        for vip in &facts.vips {
            let Some(interface) = observed.interfaces.get(&vip.interface) else { continue };
            let place = (interface.index, vip.address());
            let leaver = self.memory.contests.leaver(vip.address());
            ours.insert(place, own.iter().copied().chain(leaver).collect());
            let key = AddressKey { interface: vip.interface.clone(), address: vip.virtual_cidr };
            // What was taken off only now is still ours: it comes back at once.
            let announced = self.memory.announced.get(&vip.name).map(|told| &told.uid);
            let uid = uids.get(&vip.name).copied().flatten();
            let lost = announced.is_some() && announced == uid;
            // A network that is down, or has no hardware addresses, has nobody to ask.
            let mute = !interface.up || interface.mac.is_none();
            let in_place = observed.addresses.contains_key(&key) || lost || mute;
            let (contest, ask) = self.memory.contests.judge(place, in_place, now);
            if ask {
                questions.entry(vip.interface.clone()).or_default().push(vip.address());
            }
            if let Some(contest) = contest {
                facts.contested.insert(vip.name.clone(), contest);
            }
        }
        self.memory.contests.keep(&ours.keys().copied().collect(), now);
        self.ours.send_if_modified(|before| {
            let differs = *before != ours;
            *before = ours;
            differs
        });
        if !questions.is_empty()
            && let Err(error) = self.questions.try_send(questions)
        {
            tracing::warn!(%error, "cannot ask whether somebody has an address");
        }
    }

    /// Announces addresses that others claimed a moment ago, if they are still ours (RFC 5227, section 2.4 (c)).
    pub(super) async fn defend(&mut self, facts: &Facts, observed: &Observed) {
        let due = self.memory.contests.defences(Instant::now());
        let place = |interface: &str, address| -> Option<Place> {
            Some((observed.interfaces.get(interface)?.index, address))
        };
        let mut defended: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
        for vip in &facts.vips {
            let claimed = matches!(facts.contested.get(&vip.name), Some(Contest::Claimed(_)));
            if claimed && place(&vip.interface, vip.address()).is_some_and(|place| due.contains(&place)) {
                defended.entry(&vip.interface).or_default().push(vip.address());
            }
        }
        for (interface, addresses) in defended {
            tracing::warn!(interface, ?addresses, "somebody else claims addresses that are in place here");
            match self.kernel.announce(interface, &addresses).await {
                Ok(()) => drop(
                    self.metrics.announcements.inc_by(u64::try_from(addresses.len()).unwrap_or_default()),
                ),
                Err(error) => tracing::warn!(interface, %error, "cannot announce"),
            }
        }
    }
}
