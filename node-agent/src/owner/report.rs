//! Telling the API how the VIPs stand: a status patch when it differs, an Event when a problem begins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use litek8s_crds::{VipAddress, names};
use litek8s_plan::{Mac, Plan, mac_text};
use serde_json::json;
use tokio::time::Instant;

use super::{Memory, Owner};
use crate::session::{Note, Outgoing, StatusPatch};
use crate::standing::Standing;
use crate::vips::Unusable;

/// How long the watch may take to show a patch that was sent.
const PATCH_SHOWS: Duration = Duration::from_secs(5);

impl Owner {
    pub(super) fn report(&mut self, plan: &Plan, unusable: &BTreeMap<String, Unusable>) {
        let now = Instant::now();
        self.memory.sent.retain(|_, (_, at)| *at + PATCH_SHOWS > now);
        let mut told = BTreeSet::new();
        let mut problems: BTreeMap<String, i64> = BTreeMap::new();
        let mut outgoing = Vec::new();
        for (vip, address) in self.index.addresses() {
            let announced = self.memory.announced.contains_key(vip);
            let standing = Standing::of(vip, plan, unusable.get(vip), announced);
            // It is known in an instant, and nothing to be told before.
            if standing.unprogrammed.as_ref().is_some_and(|(reason, _)| reason == "Probing") {
                continue;
            }
            if let Some((reason, message)) = standing.unprogrammed.as_ref().or(standing.conflict())
                && !matches!(reason.as_str(), "Pending" | "Releasing")
            {
                let key = (vip.clone(), reason.clone());
                if !self.memory.told.contains(&key) {
                    outgoing.push(Outgoing::Note(note(address, reason, message)));
                }
                told.insert(key);
            }
            if let Some((reason, _)) = &standing.unprogrammed {
                *problems.entry(reason.clone()).or_default() += 1;
            }
            if let Some((reason, _)) = &standing.degraded {
                *problems.entry(reason.clone()).or_default() += 1;
            }
            let mac =
                self.memory.macs.get(&address.spec.interface).filter(|_| standing.unprogrammed.is_none());
            let patch = patch(vip, address, &standing, mac.copied());
            outgoing.extend(self.memory.due(vip, patch, now).map(Outgoing::Status));
        }
        // The pass succeeded without them, so everything of theirs is off the node.
        let leaving = self.index.leaving();
        for (vip, address) in leaving {
            let standing = Standing {
                unprogrammed: Some((
                    names::REASON_RELEASED.to_owned(),
                    "everything of it is gone".to_owned(),
                )),
                ..Standing::default()
            };
            let patch = patch(vip, address, &standing, None);
            outgoing.extend(self.memory.due(vip, patch, now).map(Outgoing::Status));
        }
        let known: BTreeSet<&String> =
            self.index.addresses().chain(self.index.leaving()).map(|(vip, _)| vip).collect();
        self.memory.unpatched.keep(|vip| known.contains(&vip.to_owned()));
        self.memory.told = told;
        self.metrics.troubled(problems);
        for message in outgoing {
            if let Err(refused) = self.outgoing.try_send(message) {
                // The next pass finds the difference again.
                self.metrics.dropped_patches.inc();
                if let Outgoing::Status(patch) = refused.into_inner() {
                    self.memory.sent.remove(&patch.vip);
                }
            }
        }
    }
}

impl Memory {
    /// The patch that is to be sent now: not one that is under way, and one that failed only after a pause.
    fn due(&mut self, vip: &str, patch: Option<StatusPatch>, now: Instant) -> Option<StatusPatch> {
        let Some(patch) = patch else {
            self.unpatched.note(vip, true, now.into_std());
            return None;
        };
        let under_way = self.sent.get(vip).is_some_and(|(body, _)| *body == patch.body);
        if under_way || self.unpatched.holds(vip, now.into_std()) {
            return None;
        }
        self.sent.insert(vip.to_owned(), (patch.body.clone(), now));
        Some(patch)
    }
}

/// What the status should say, if it says something else.
fn patch(vip: &str, address: &VipAddress, standing: &Standing, mac: Option<Mac>) -> Option<StatusPatch> {
    let status = address.status.clone().unwrap_or_default();
    let generation = address.metadata.generation;
    let now = Time(Timestamp::now());
    let conditions = standing.conditions(generation, &status.conditions, &now);
    let mac = mac.map(mac_text);
    let same = status.observed_generation == generation && status.hardware_address == mac;
    if conditions == status.conditions && same {
        return None;
    }
    Some(StatusPatch {
        vip: vip.to_owned(),
        namespace: address.metadata.namespace.clone().unwrap_or_default(),
        name: address.metadata.name.clone().unwrap_or_default(),
        // Of this very object, not of one that has its name by now.
        body: json!({
            "metadata": {"uid": address.metadata.uid},
            "status": {"observedGeneration": generation, "conditions": conditions, "hardwareAddress": mac},
        }),
    })
}

/// An Event on the Service, where people look.
fn note(address: &VipAddress, reason: &str, message: &str) -> Note {
    let spec = &address.spec;
    Note {
        namespace: spec.service.namespace.clone(),
        service: spec.service.name.clone(),
        reason: format!("Vip{reason}"),
        message: format!("{} on {}: {message}", spec.virtual_cidr, spec.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_is_refused_is_tried_again_after_a_pause() {
        let patch = |body: i64| StatusPatch {
            vip: "default/web-1".into(),
            namespace: "default".into(),
            name: "web-1".into(),
            body: json!(body),
        };
        let (mut memory, now) = (Memory::default(), Instant::now());
        let vip = "default/web-1";
        assert!(memory.due(vip, Some(patch(1)), now).is_some());
        assert!(memory.due(vip, Some(patch(1)), now).is_none(), "it is under way");
        // As the owner hears that it did not get through.
        memory.sent.remove(vip);
        memory.unpatched.note(vip, false, now.into_std());
        assert!(memory.due(vip, Some(patch(2)), now).is_none());
        assert!(memory.due("default/web-2", Some(patch(2)), now).is_some(), "others go on");
        assert!(memory.due(vip, Some(patch(2)), now + Duration::from_millis(500)).is_some());
    }
}
