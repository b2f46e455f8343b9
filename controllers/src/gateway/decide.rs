//! The decision: one VipRoute for every pod that leads to a gateway's destination, and how each gateway stands.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use litek8s_crds::{VipRoute, VipRoutePod, VipRouteSpec, names};

use super::facts::{AgentFact, Facts, GatewayFact, PodFact};
use super::names as route_names;
use super::verdict::{Action, Decision, GatewayReport};
use crate::vip::{Note, NoteKind, Subject, Verdict, cidr, label};

/// The rule of the main table has this priority: a gateway's rule has to come before.
const MAIN_RULE: u32 = 32_766;
/// The tables of the kernel: unspecified, default, main, local.
const KERNEL_TABLES: [u32; 4] = [0, 253, 254, 255];

/// How many complaints of nodes a condition names.
const MOST_LISTED: usize = 8;

/// What of a gateway's specification is used, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    destination: IpNet,
    table: u32,
    priority: u32,
}

/// Decides. `said` is what the decision before told.
pub fn decide(facts: &Facts, said: &BTreeMap<String, String>) -> Decision {
    let mut decision = Decision::default();
    let mut wanted: BTreeMap<String, VipRoute> = BTreeMap::new();
    let terms: BTreeMap<&str, Terms> =
        facts.gateways.iter().filter_map(|gateway| Some((&*gateway.name, terms(gateway).ok()?))).collect();
    let mut gateways: Vec<&GatewayFact> = facts.gateways.iter().collect();
    gateways.sort_by_key(|gateway| &gateway.name);
    for gateway in gateways {
        let judged = judge(gateway, &terms);
        let mut pods = Pods::default();
        if let Ok(terms) = &judged {
            pods = leading(gateway, terms, facts);
            for pod in &pods.leading {
                let route = route(facts, gateway, terms, pod);
                wanted.insert(route.metadata.name.clone().unwrap_or_default(), route);
            }
        }
        let report = report(facts, gateway, &judged, &terms, &pods);
        let before = said.get(&gateway.uid).or(gateway.said.as_ref());
        // What works from the start is no news.
        let news = before.is_some() || pods.leading.is_empty();
        if news && before != Some(&report.ready.reason) {
            decision.notes.push(note(gateway, &report));
        }
        decision.said.insert(gateway.uid.clone(), report.ready.reason.clone());
        let key = format!("{}/{}", gateway.uid, names::CONDITION_DEGRADED);
        if report.degraded.good {
            let before = said.get(&key).or(gateway.said_degraded.as_ref());
            if before != Some(&report.degraded.message) {
                decision.notes.push(degraded_note(gateway, &report));
            }
            decision.said.insert(key, report.degraded.message.clone());
        } else {
            decision.said.insert(key, String::new());
        }
        decision.reports.push(report);
    }
    let there: BTreeSet<&str> = facts.routes.iter().map(|route| route.name.as_str()).collect();
    let new = wanted.iter().filter(|(name, _)| !there.contains(name.as_str()));
    decision.actions.extend(new.map(|(_, route)| Action::Create(Box::new(route.clone()))));
    for route in facts.routes.iter().filter(|route| route.managed) {
        if wanted.get(&route.name).is_some_and(|wanted| wanted.spec == route.spec) {
            continue;
        }
        let gateway = facts.gateways.iter().any(|gateway| gateway.name == route.spec.gateway);
        let why = if gateway { "its pod does not lead there" } else { "its gateway is gone" };
        decision.actions.push(Action::Delete {
            name: route.name.clone(),
            uid: route.uid.clone(),
            why: why.to_owned(),
        });
    }
    decision
}

fn terms(gateway: &GatewayFact) -> Result<Terms, Verdict> {
    let spec = &gateway.spec;
    let refuse = |reason: &str, message: String| Verdict::new(false, reason, message);
    let destination = cidr::network(&spec.destination_cidr)
        .map(|network| network.trunc())
        .filter(|network| network.prefix_len() > 0)
        .ok_or_else(|| {
            refuse(
                "InvalidDestination",
                format!("{} is no network a gateway can lead to", spec.destination_cidr),
            )
        })?;
    let table = u32::try_from(spec.route_table).ok().filter(|table| !KERNEL_TABLES.contains(table));
    let table =
        table.ok_or_else(|| refuse("ReservedTable", format!("route table {} is not ours", spec.route_table)));
    let priority = u32::try_from(spec.routing_priority).ok().filter(|number| (1..MAIN_RULE).contains(number));
    let priority = priority.ok_or_else(|| {
        refuse(
            "PriorityOutOfRange",
            format!("rule priority {} is not between 1 and {}", spec.routing_priority, MAIN_RULE - 1),
        )
    });
    Ok(Terms { destination, table: table?, priority: priority? })
}

/// The terms of a gateway that can be applied somewhere, or why it cannot.
fn judge(gateway: &GatewayFact, all: &BTreeMap<&str, Terms>) -> Result<Terms, Verdict> {
    let own = terms(gateway)?;
    let same = |other: &Terms| (other.destination, other.table) == (own.destination, own.table);
    let twin = all.iter().find(|(name, other)| **name != gateway.name && same(other));
    match twin {
        Some((name, _)) => Err(Verdict::new(
            false,
            "Duplicate",
            format!("VipGateway {name} has the same destination and route table; both are refused"),
        )),
        None => Ok(own),
    }
}

/// The pods of a gateway.
#[derive(Default)]
struct Pods<'a> {
    /// Those that lead to its destination.
    leading: Vec<Leading<'a>>,
    /// Those whose node does not apply the gateway: what others send there would go on by the node's default route.
    waiting: Vec<Leading<'a>>,
}

/// The pods that lead to a gateway's destination. One that is being deleted or not ready leads there only while no better
/// one does.
fn leading<'a>(gateway: &GatewayFact, terms: &Terms, facts: &'a Facts) -> Pods<'a> {
    let destination = terms.destination.to_string();
    let applied = |agent: &&AgentFact| {
        agent.says.get(&gateway.name).is_some_and(|says| says.applied.as_ref() == Some(&destination))
    };
    let applying: BTreeSet<&str> =
        facts.agents.iter().filter(applied).map(|agent| agent.node.as_str()).collect();
    let wanted = &gateway.spec.pod_selector.match_labels;
    let selected = |pod: &&PodFact| {
        pod.running
            && !wanted.is_empty()
            && wanted.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    };
    let family = |address: &&IpAddr| address.is_ipv4() == terms.destination.addr().is_ipv4();
    let found: Vec<Leading<'_>> = facts
        .pods
        .iter()
        .filter(selected)
        .filter_map(|pod| {
            let address = *pod.addresses.iter().find(family)?;
            Some(Leading { pod, node: pod.node.as_deref()?, address })
        })
        .collect();
    let (found, waiting): (Vec<_>, Vec<_>) = found.into_iter().partition(|pod| applying.contains(pod.node));
    let rank = |found: &Leading<'_>| (!found.pod.ready, found.pod.terminating);
    let best = found.iter().map(rank).min();
    Pods { leading: found.into_iter().filter(|found| Some(rank(found)) == best).collect(), waiting }
}

struct Leading<'a> {
    pod: &'a PodFact,
    node: &'a str,
    address: IpAddr,
}

/// The whole VipRoute, with labels and its owner.
fn route(facts: &Facts, gateway: &GatewayFact, terms: &Terms, leading: &Leading<'_>) -> VipRoute {
    let spec = VipRouteSpec {
        gateway: gateway.name.clone(),
        pod: VipRoutePod { namespace: leading.pod.namespace.clone(), name: leading.pod.name.clone() },
        pod_ip: leading.address.to_string(),
        node: leading.node.to_owned(),
        destination_cidr: terms.destination.to_string(),
        route_table: terms.table,
        routing_priority: terms.priority,
    };
    let mut labels = BTreeMap::from([(names::LABEL_MANAGED_BY.to_owned(), facts.manager.clone())]);
    let mut full = BTreeMap::new();
    for (key, value) in [
        (names::LABEL_GATEWAY, &spec.gateway),
        (names::LABEL_NAMESPACE, &spec.pod.namespace),
        (names::LABEL_NODE_NAME, &spec.node),
    ] {
        let short = label(value);
        if short != *value
            && let Some((_, name)) = key.split_once('/')
        {
            full.insert(format!("{}{name}", names::ANNOTATION_FULL_PREFIX), value.clone());
        }
        labels.insert(key.to_owned(), short);
    }
    let owner = OwnerReference {
        api_version: format!("{}/v1", names::GROUP),
        kind: "VipGateway".to_owned(),
        name: gateway.name.clone(),
        uid: gateway.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        name: Some(route_names::route(&spec)),
        labels: Some(labels),
        annotations: (!full.is_empty()).then_some(full),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    VipRoute { metadata, spec }
}

fn report(
    facts: &Facts,
    gateway: &GatewayFact,
    judged: &Result<Terms, Verdict>,
    all: &BTreeMap<&str, Terms>,
    pods: &Pods<'_>,
) -> GatewayReport {
    let says = || facts.agents.iter().filter_map(|agent| Some((agent, agent.says.get(&gateway.name)?)));
    let applied = says().filter(|(_, says)| says.applied.is_some()).count();
    let refused: Vec<String> = says()
        .filter_map(|(agent, says)| Some(format!("{}: {}", agent.node, says.refused.as_ref()?)))
        .collect();
    let unusable: Vec<String> = says()
        .flat_map(|(agent, says)| says.unusable.iter().map(move |why| format!("{}: {why}", agent.node)))
        .collect();
    let accepted = match judged {
        Err(verdict) => verdict.clone(),
        Ok(_) if applied == 0 && !refused.is_empty() => {
            Verdict::new(false, "RefusedEverywhere", listed("", &refused).message)
        }
        Ok(_) => Verdict::new(true, "Accepted", ""),
    };
    let ready = match (accepted.good, pods.leading.len()) {
        (false, _) => accepted.clone(),
        (true, 0) => Verdict::new(false, "NoPod", no_pod(&pods.waiting)),
        (true, 1) => Verdict::new(true, "PodsReady", "1 pod leads there"),
        (true, pods) => Verdict::new(true, "PodsReady", format!("{pods} pods lead there")),
    };
    let shadow = judged.as_ref().ok().and_then(|own| shadow(gateway, own, all));
    let degraded = match shadow {
        _ if accepted.good && !refused.is_empty() => listed("RefusedOnNodes", &refused),
        _ if accepted.good && !unusable.is_empty() => listed("PodsUnusable", &unusable),
        Some(message) => Verdict::new(true, "Shadowed", message),
        None => Verdict::new(false, "AsExpected", ""),
    };
    GatewayReport {
        name: gateway.name.clone(),
        generation: gateway.generation,
        accepted,
        ready,
        degraded,
        pods: i64::try_from(pods.leading.len()).unwrap_or(i64::MAX),
        nodes: (applied, facts.agents.len()),
    }
}

/// Why no pod leads there.
fn no_pod(waiting: &[Leading<'_>]) -> String {
    let closed = "its destination is unreachable on every node";
    match waiting {
        [] => format!("no running pod leads there: {closed}"),
        [first, ..] => format!(
            "no pod leads there: {closed}; {} of them waits, the first is {}/{}: node {} does not apply the gateway",
            waiting.len(),
            first.pod.namespace,
            first.pod.name,
            first.node
        ),
    }
}

/// What nodes complain of; the first few stand for all.
fn listed(reason: &str, complaints: &[String]) -> Verdict {
    let mut message = complaints.iter().take(MOST_LISTED).cloned().collect::<Vec<_>>().join("; ");
    if let Some(more @ 1..) = complaints.len().checked_sub(MOST_LISTED) {
        message.push_str(&format!("; and {more} more"));
    }
    Verdict::new(true, reason, message)
}

/// The gateway whose rule takes all of this one's packets, if there is one: rules are tried by priority, however long
/// their prefixes are.
fn shadow(gateway: &GatewayFact, own: &Terms, all: &BTreeMap<&str, Terms>) -> Option<String> {
    let before = |other: &Terms| {
        other.destination.contains(&own.destination)
            && other.table != own.table
            && (other.priority, other.destination != own.destination) <= (own.priority, true)
    };
    let (name, other) = all.iter().find(|(name, other)| **name != gateway.name && before(other))?;
    Some(match other.priority == own.priority {
        true => format!(
            "VipGateway {name} has the same rule priority: which of the two comes first is left to chance"
        ),
        false => format!(
            "VipGateway {name} leads to {} with a lower rule priority: this one is never used",
            other.destination
        ),
    })
}

fn note(gateway: &GatewayFact, report: &GatewayReport) -> Note {
    let kind = match (report.ready.good, report.accepted.good) {
        (true, _) => NoteKind::GatewayReady,
        (false, true) => NoteKind::GatewayClosed,
        (false, false) => NoteKind::GatewayRefused,
    };
    Note {
        subject: Subject::Gateway(gateway.name.clone(), gateway.uid.clone()),
        kind,
        message: format!("{}: {}", gateway.spec.destination_cidr, report.ready.message),
    }
}

fn degraded_note(gateway: &GatewayFact, report: &GatewayReport) -> Note {
    Note {
        subject: Subject::Gateway(gateway.name.clone(), gateway.uid.clone()),
        kind: NoteKind::GatewayDegraded,
        message: format!(
            "{}: {}: {}",
            gateway.spec.destination_cidr, report.degraded.reason, report.degraded.message
        ),
    }
}

#[cfg(test)]
mod tests;
