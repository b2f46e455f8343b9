//! Where each address is and why, and how it stands on its node. Pure.

use std::fmt;

use litek8s_crds::names;
use serde::Serialize;

use super::snapshot::Snapshot;
use crate::vip::{AddressReport, Memory, decide};

/// All Services that ask for VIPs.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub(super) services: Vec<Service>,
}

/// One Service.
#[derive(Debug, Serialize)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    ready: bool,
    reason: String,
    message: String,
    addresses: Vec<Address>,
}

/// One of its addresses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    address: String,
    node: Option<String>,
    explanation: String,
    /// `namespace/name` of its VipAddress.
    vip_address: Option<String>,
    /// What its node says that is not as it should be.
    problems: Vec<String>,
}

pub(super) fn explain(snapshot: &Snapshot) -> Explanation {
    let decision = decide(&snapshot.facts, &Memory::default());
    let services = decision.services.into_iter().map(|report| Service {
        addresses: report.addresses.iter().map(|address| self::address(snapshot, address)).collect(),
        namespace: report.key.namespace,
        name: report.key.name,
        ready: report.verdict.good,
        reason: report.verdict.reason,
        message: report.verdict.message,
    });
    Explanation { services: services.collect() }
}

fn address(snapshot: &Snapshot, report: &AddressReport) -> Address {
    let ip = report.text.parse().ok();
    let fact = snapshot.facts.addresses.iter().find(|fact| fact.managed && ip.is_some() && fact.ip() == ip);
    let object = fact.and_then(|fact| {
        let mut all = snapshot.objects.addresses.iter();
        all.find(|object| object.metadata.uid.as_deref() == Some(&fact.uid))
    });
    let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
    let problems = conditions.into_iter().flatten().filter(|condition| {
        let bad = [names::CONDITION_DEGRADED, names::CONDITION_ADDRESS_CONFLICT];
        (condition.status == "True") == bad.contains(&condition.type_.as_str())
    });
    Address {
        address: report.text.clone(),
        node: report.node.clone(),
        explanation: report.explanation.clone(),
        vip_address: fact.map(|fact| format!("{}/{}", fact.namespace, fact.name)),
        problems: problems
            .map(|condition| {
                format!(
                    "{}={}, {}: {}",
                    condition.type_, condition.status, condition.reason, condition.message
                )
            })
            .collect(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.services.is_empty() {
            return writeln!(formatter, "no Service asks for VIPs");
        }
        self.services.iter().try_for_each(|service| service.fmt(formatter))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Service {}/{}: {}, {}", self.namespace, self.name, self.reason, self.message)?;
        for address in &self.addresses {
            writeln!(formatter, "  {}  {}", address.address, address.explanation)?;
            if let Some(name) = &address.vip_address {
                writeln!(formatter, "    VipAddress {name}")?;
            }
            address.problems.iter().try_for_each(|problem| writeln!(formatter, "    {problem}"))?;
        }
        Ok(())
    }
}
