//! What is wrong, from the objects, the controller's judgement of them and what the agents report. Pure.

use std::collections::BTreeSet;
use std::fmt;

use kube::ResourceExt;
use litek8s_crds::names;
use serde::Serialize;

use super::snapshot::Snapshot;
use crate::definitions;
use crate::vip::{Memory, decide};

/// What to do about a definition.
const APPLY: &str = "apply crds/manifests, or upgrade the chart with crds.enabled=true";

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    nodes: usize,
    services: usize,
    addresses: usize,
    pub(super) findings: Vec<Found>,
}

/// Something that is wrong, or worth a look.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    /// Whether something does not work.
    pub(super) wrong: bool,
    /// The object it is about.
    object: String,
    reason: String,
    message: String,
}

pub(super) fn doctor(snapshot: &Snapshot) -> Diagnosis {
    let mut diagnosis = Diagnosis {
        nodes: snapshot.facts.nodes.len(),
        services: snapshot.facts.services.len(),
        addresses: snapshot.facts.addresses.len(),
        findings: Vec::new(),
    };
    diagnosis.definitions(snapshot);
    diagnosis.objects(snapshot);
    diagnosis.agents(snapshot);
    diagnosis.statuses(snapshot);
    diagnosis
}

impl Diagnosis {
    fn find(&mut self, wrong: bool, object: impl Into<String>, reason: &str, message: &str) {
        self.findings.push(Found {
            wrong,
            object: object.into(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
    }

    /// Whether the kinds are those of this release.
    fn definitions(&mut self, snapshot: &Snapshot) {
        for wanted in litek8s_crds::definitions() {
            let name = wanted.name_any();
            let object = format!("CustomResourceDefinition {name}");
            match snapshot.definitions.get(&name) {
                None => {}
                Some(None) => self.find(true, object, "DefinitionMissing", APPLY),
                Some(Some(served)) => {
                    if let Some(lack) = definitions::lack(served, &wanted) {
                        let message = format!("it is of another release, it differs in {lack}: {APPLY}");
                        self.find(true, object, "DefinitionOutdated", &message);
                    }
                }
            }
        }
    }

    /// What the controller would say of the objects now.
    fn objects(&mut self, snapshot: &Snapshot) {
        let decision = decide(&snapshot.facts, &Memory::default());
        let config = "VipConfig default";
        match &decision.config {
            None => self.find(true, config, "NoConfig", "there is none, so no VIP is placed: create it"),
            Some(report) if !report.verdict.good => {
                self.find(true, config, &report.verdict.reason, &report.verdict.message);
            }
            Some(report) if report.degraded.good => {
                self.find(false, config, &report.degraded.reason, &report.degraded.message);
            }
            Some(_) => {}
        }
        for network in &decision.networks {
            let object = format!("VipNetwork {}", network.name);
            if !network.ready.good {
                self.find(true, object, &network.ready.reason, &network.ready.message);
                continue;
            }
            if network.degraded.good {
                self.find(true, object.as_str(), &network.degraded.reason, &network.degraded.message);
            }
            for warning in &network.warnings {
                self.find(false, object.as_str(), "SourceIgnored", warning);
            }
        }
        for service in decision.services.iter().filter(|service| !service.verdict.good) {
            let object = format!("Service {}/{}", service.key.namespace, service.key.name);
            self.find(true, object, &service.verdict.reason, &service.verdict.message);
        }
    }

    /// What the agents say, or that they say nothing.
    fn agents(&mut self, snapshot: &Snapshot) {
        let mut heard = BTreeSet::new();
        for agent in &snapshot.agents {
            heard.insert(agent.node.as_str());
            let object = format!("Node {}", agent.node);
            if let Some(since) = agent.silent {
                let message = format!(
                    "its agent was last heard at {since:.0}: see whether it runs and reaches the API"
                );
                self.find(true, object.as_str(), "AgentSilent", &message);
            }
            for finding in &agent.findings {
                self.find(false, object.as_str(), &finding.reason, &finding.message);
            }
        }
        for node in snapshot.facts.nodes.iter().filter(|node| !heard.contains(node.name.as_str())) {
            let holds = snapshot.facts.addresses.iter().any(|address| address.spec.node == node.name);
            let message = "no agent has run there: its VIPs are not programmed";
            self.find(holds, format!("Node {}", node.name), "NoAgent", message);
        }
    }

    /// What is written in the objects' own status, and whether anybody writes it.
    fn statuses(&mut self, snapshot: &Snapshot) {
        for config in snapshot.objects.configs.iter().filter(|config| config.name_any() == names::CONFIG_NAME)
        {
            let seen = config.status.as_ref().and_then(|status| status.observed_generation);
            if seen != config.metadata.generation {
                let message = "no controller has judged its present specification: see whether one runs";
                self.find(true, "VipConfig default", "NoController", message);
            }
        }
        for address in &snapshot.objects.addresses {
            let conditions = address.status.as_ref().map(|status| status.conditions.as_slice());
            let object = || {
                format!(
                    "VipAddress {}/{} on {}",
                    address.namespace().unwrap_or_default(),
                    address.name_any(),
                    address.spec.node
                )
            };
            for condition in conditions.unwrap_or_default() {
                let is = condition.status == "True";
                match condition.type_.as_str() {
                    names::CONDITION_READY if !is => {
                        self.find(true, object(), &condition.reason, &condition.message);
                    }
                    names::CONDITION_DEGRADED if is => {
                        self.find(false, object(), &condition.reason, &condition.message);
                    }
                    _ => {}
                }
            }
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "looked at {} Nodes, {} Services that ask for VIPs, {} VipAddresses",
            self.nodes, self.services, self.addresses
        )?;
        if self.findings.is_empty() {
            return writeln!(formatter, "everything is as it should be");
        }
        for found in &self.findings {
            let kind = if found.wrong { "WRONG" } else { "look " };
            writeln!(formatter, "{kind}  {}: {}: {}", found.object, found.reason, found.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::coordination::v1::Lease;
    use serde_json::json;

    use super::*;
    use crate::vip::Objects;

    fn found(objects: Objects, leases: &[Arc<Lease>]) -> Vec<(bool, String, String)> {
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().unwrap();
        let diagnosis = doctor(&Snapshot::new(objects, leases, now));
        diagnosis.findings.into_iter().map(|found| (found.wrong, found.object, found.reason)).collect()
    }

    fn lease(node: &str, renewed: &str, findings: &str) -> Arc<Lease> {
        let lease = json!({
            "metadata": {"name": format!("{}{node}", names::AGENT_LEASE_PREFIX),
                "annotations": {names::ANNOTATION_FINDINGS: findings}},
            "spec": {"renewTime": renewed},
        });
        Arc::new(serde_json::from_value(lease).unwrap())
    }

    #[test]
    fn what_is_missing_and_what_agents_report_is_told() {
        let node =
            |name: &str| Arc::new(serde_json::from_value(json!({"metadata": {"name": name}})).unwrap());
        let nodes = vec![node("a"), node("b"), node("c")];
        let leases = [
            lease("a", "2026-01-01T00:00:19.000000Z", r#"[{"reason":"RpFilterStrict","message":"m"}]"#),
            lease("b", "2026-01-01T00:00:01.000000Z", "[]"),
        ];
        let told = found(Objects { nodes, ..Objects::default() }, &leases);
        let expected = [
            (true, "VipConfig default", "NoConfig"),
            (false, "Node a", "RpFilterStrict"),
            (true, "Node b", "AgentSilent"),
            (false, "Node c", "NoAgent"),
        ];
        assert_eq!(
            told,
            expected.map(|(wrong, object, reason)| (wrong, object.to_owned(), reason.to_owned()))
        );
    }

    #[test]
    fn a_definition_that_is_missing_or_of_another_release_is_told() {
        let mut snapshot = Snapshot::new(Objects::default(), &[], "2026-01-01T00:00:20Z".parse().unwrap());
        let all = litek8s_crds::definitions();
        snapshot.definitions = all.iter().map(|one| (one.name_any(), Some(one.clone()))).collect();
        let told = |snapshot: &Snapshot| -> Vec<String> {
            let found = doctor(snapshot).findings.into_iter().filter(|found| found.reason != "NoConfig");
            found.map(|found| format!("{} {}", found.reason, found.object)).collect()
        };
        assert_eq!(told(&snapshot), Vec::<String>::new());
        snapshot.definitions.insert("vipguards.netwrangler.dev".into(), None);
        let outdated =
            snapshot.definitions.get_mut("vipaddresses.netwrangler.dev").unwrap().as_mut().unwrap();
        outdated.spec.versions[0].additional_printer_columns = None;
        assert_eq!(
            told(&snapshot),
            [
                "DefinitionOutdated CustomResourceDefinition vipaddresses.netwrangler.dev",
                "DefinitionMissing CustomResourceDefinition vipguards.netwrangler.dev",
            ]
        );
        snapshot.definitions.clear();
        assert_eq!(told(&snapshot), Vec::<String>::new(), "who may not look is told nothing");
    }
}
