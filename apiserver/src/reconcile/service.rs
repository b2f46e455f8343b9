//! Services that select pods, and the pods behind them, as the controllers of their endpoints read them.

mod backend;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, Object};
use serde_json::{Value, json};

pub(super) use backend::Backend;

use super::facts::Facts;
use super::index::selector;
use super::kind::Kind;
use super::read;
use super::related::Relation;

/// The label by which an EndpointSlice names its Service.
pub(super) const NAME_LABEL: &str = "kubernetes.io/service-name";
/// The label that says which controller looks after an EndpointSlice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of endpoints whose Service has no address.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation that says when what led to a change happened.
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of nodes that says in which zone they are.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// One family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// As `ipFamilies` and `addressType` say it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The family of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    fn named(name: &Value) -> Option<Self> {
        [Self::V4, Self::V6].into_iter().find(|family| name == family.name())
    }
}

/// A Service that selects pods.
pub(super) struct Service<'a> {
    /// The object.
    pub(super) object: &'a Arc<Object>,
    value: Value,
}

impl<'a> Service<'a> {
    /// Reads a Service; `None` for one whose endpoints are not looked for: without a selector, or only a name elsewhere.
    pub(super) fn read(object: &'a Arc<Object>) -> Option<Self> {
        let value = read::value(object)?;
        (value["spec"]["type"] != "ExternalName" && has_selector(&value)).then_some(Self { object, value })
    }

    fn spec(&self) -> &Value {
        &self.value["spec"]
    }

    /// Whether it has no address of its own.
    pub(super) fn is_headless(&self) -> bool {
        matches!(read::text(&self.spec()["clusterIP"]), "" | "None")
    }

    /// Whether pods that are not ready are published as if they were.
    pub(super) fn publishes_unready(&self) -> bool {
        self.spec()["publishNotReadyAddresses"] == true
    }

    /// Which endpoints are to be preferred by those near to them, if any.
    pub(super) fn distribution(&self) -> &str {
        read::text(&self.spec()["trafficDistribution"])
    }

    /// Its families, the first one preferred.
    pub(super) fn families(&self) -> Vec<Family> {
        let given: Vec<Family> =
            read::list(&self.spec()["ipFamilies"]).iter().filter_map(Family::named).collect();
        if !given.is_empty() {
            return given;
        }
        match read::text(&self.spec()["clusterIP"]).parse() {
            Ok(address) => vec![Family::of(address)],
            Err(_) => vec![Family::V4, Family::V6],
        }
    }

    /// Whether it has no ports on purpose.
    pub(super) fn has_no_ports(&self) -> bool {
        self.is_headless() && read::list(&self.spec()["ports"]).is_empty()
    }

    /// Its ports as this pod has them; those that the pod does not have are left out.
    pub(super) fn ports(&self, pod: &Backend<'_>) -> Vec<Value> {
        let ports = read::list(&self.spec()["ports"]).iter();
        let resolved = ports.filter_map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let target = &port["targetPort"];
            let number = match target.as_str().filter(|name| !name.is_empty()) {
                Some(name) => pod.port(name, protocol)?,
                None => target.as_i64().filter(|number| *number != 0).or_else(|| port["port"].as_i64())?,
            };
            let name = port["name"].as_str().unwrap_or_default();
            let mut made = json!({"name": name, "port": number, "protocol": protocol});
            if port["appProtocol"].is_string() {
                made["appProtocol"] = port["appProtocol"].clone();
            }
            Some(made)
        });
        resolved.collect()
    }

    /// Its pods that have an address and have not ended.
    pub(super) fn pods(&self, facts: &Facts<'a>) -> Vec<Backend<'a>> {
        let selector = selector(Kind::Service, &self.spec()["selector"]);
        let pods = facts.view.list(Kind::Pod.resource(), Some(&self.object.key.namespace));
        let selected = pods.filter(|pod| selector.matches(&pod.meta.labels));
        selected.filter_map(Backend::read).collect()
    }

    /// The labels that its endpoints take from it, and the one that says that it has no address.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.object.meta.labels.clone();
        labels.remove(HEADLESS);
        if self.is_headless() {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        labels
    }

    /// When it was created, as it says it.
    pub(super) fn created(&self) -> String {
        self.object.meta.creation_timestamp.clone().unwrap_or_default()
    }
}

/// Whether a Service selects its endpoints by labels.
pub(super) fn has_selector(service: &Value) -> bool {
    service["spec"]["selector"].as_object().is_some_and(|labels| !labels.is_empty())
}

/// The EndpointSlices of a Service that a controller looks after.
pub(super) fn slices_of<'a>(
    facts: &Facts<'a>,
    (namespace, name): (&str, &str),
    controller: &str,
) -> Vec<&'a Arc<Object>> {
    let keys = facts.index.related(Relation::SliceOfService, namespace, name);
    let slices = keys.filter_map(|key| facts.view.get(key));
    let managed = |slice: &&Arc<Object>| slice.meta.labels.get(MANAGED_BY).is_some_and(|by| by == controller);
    slices.filter(managed).filter(|slice| !slice.meta.is_terminating()).collect()
}

/// Whether a change of a pod can be one of the endpoints that lead to it.
pub(super) fn is_moved(change: &Event) -> bool {
    let (EventKind::Modified, Some(before)) = (change.kind, &change.previous) else { return true };
    let pod = &change.object;
    let shown_alike = match (Backend::read(before), Backend::read(pod)) {
        (Some(before), Some(now)) => before.shows_as(&now),
        (before, now) => before.is_none() && now.is_none(),
    };
    before.meta.labels != pod.meta.labels
        || before.meta.is_terminating() != pod.meta.is_terminating()
        || !shown_alike
}
