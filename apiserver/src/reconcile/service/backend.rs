//! A pod behind a Service: its addresses, its ports, and whether it answers.

use std::net::IpAddr;
use std::sync::Arc;

use litek8s_store::Object;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Family;

/// What endpoints need of a pod.
#[derive(Debug)]
pub(in crate::reconcile) struct Backend<'a> {
    /// The object.
    pub(in crate::reconcile) object: &'a Arc<Object>,
    addresses: Vec<IpAddr>,
    wire: Wire,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Wire {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Deserialize, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    hostname: Option<String>,
    subdomain: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Deserialize, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    ports: Option<Vec<Port>>,
    restart_policy: Option<String>,
}

#[derive(Debug, Deserialize, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    name: Option<String>,
    container_port: i64,
    protocol: Option<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct PodIp {
    ip: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    ty: String,
    status: String,
    last_transition_time: Option<String>,
}

impl<'a> Backend<'a> {
    /// Reads a pod; `None` when it has ended or has no address.
    pub(in crate::reconcile) fn read(object: &'a Arc<Object>) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(&object.json).ok()?;
        if matches!(wire.status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let all = wire.status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
        let mut addresses: Vec<IpAddr> = all.filter_map(|ip| ip.parse().ok()).collect();
        if addresses.is_empty() {
            addresses.extend(wire.status.pod_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok()));
        }
        (!addresses.is_empty()).then_some(Self { object, addresses, wire })
    }

    /// Its addresses of a family.
    pub(in crate::reconcile) fn addresses(&self, family: Family) -> Vec<String> {
        let wanted = self.addresses.iter().filter(|address| Family::of(**address) == family);
        wanted.map(IpAddr::to_string).collect()
    }

    /// The node it is on, empty before it is on one.
    pub(in crate::reconcile) fn node(&self) -> &str {
        self.wire.spec.node_name.as_deref().unwrap_or_default()
    }

    /// Its name below the Service's, if it asks for one there.
    pub(in crate::reconcile) fn hostname(&self, service: &str) -> Option<&str> {
        let spec = &self.wire.spec;
        let here = spec.subdomain.as_deref() == Some(service);
        spec.hostname.as_deref().filter(|name| here && !name.is_empty())
    }

    fn ready(&self) -> Option<&Condition> {
        self.wire.status.conditions.iter().flatten().find(|condition| condition.ty == "Ready")
    }

    /// Whether it answers.
    pub(in crate::reconcile) fn is_ready(&self) -> bool {
        self.ready().is_some_and(|condition| condition.status == "True")
    }

    /// Since when it is as ready, or not, as it is.
    pub(in crate::reconcile) fn since(&self) -> Option<String> {
        self.ready()?.last_transition_time.clone()
    }

    /// The number of the port of this name.
    pub(in crate::reconcile) fn port(&self, name: &str, protocol: &str) -> Option<i64> {
        let spec = &self.wire.spec;
        let sidecars = spec.init_containers.iter().flatten();
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let containers = spec.containers.iter().flatten().chain(sidecars);
        let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
        let is = |port: &&Port| {
            port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        ports.find(is).map(|port| port.container_port)
    }

    /// A reference to the pod, as endpoints carry it.
    pub(in crate::reconcile) fn reference(&self) -> Value {
        let key = &self.object.key;
        json!({"kind": "Pod", "namespace": &*key.namespace, "name": &*key.name, "uid": self.object.meta.uid})
    }

    /// Whether endpoints would show another state of the pod alike.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        self.addresses == other.addresses
            && self.is_ready() == other.is_ready()
            && self.node() == other.node()
    }
}
