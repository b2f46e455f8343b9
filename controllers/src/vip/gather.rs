//! From the objects of the API to facts. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use litek8s_crds::{VipAddress, VipConfig, VipGateway, VipGuard, VipNetwork, VipService, names};

use super::cidr;
use super::facts::{
    AddressFact, ConfigFact, EndpointFact, Facts, GuardFact, NetworkFact, NodeFact, ServiceFact, Terminating,
};

use super::liveness::{self, LeaseFact, Life};

/// The label that ties an EndpointSlice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The taint of a node whose workloads may be taken for dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// All objects as they are cached.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) slices: Vec<Arc<EndpointSlice>>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) configs: Vec<Arc<VipConfig>>,
    pub(crate) networks: Vec<Arc<VipNetwork>>,
    pub(crate) gateways: Vec<Arc<VipGateway>>,
    pub(crate) guards: Vec<Arc<VipGuard>>,
    pub(crate) addresses: Vec<Arc<VipAddress>>,
    pub(crate) leases: Vec<LeaseFact>,
}

/// Whether a Service asks for VIPs.
pub(crate) fn asks(service: &Service) -> bool {
    listed(service) || load_balancer(service)
}

/// Whether a Service asks by its label; its addresses are in `externalIPs`.
fn listed(service: &Service) -> bool {
    enabled(service.labels(), names::LABEL_INGRESS)
}

/// Whether a Service asks by its class; its addresses are in an annotation and appear in its status.
pub(crate) fn load_balancer(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && spec.load_balancer_class.as_deref() == Some(names::LOAD_BALANCER_CLASS)
    })
}

/// The facts.
pub(crate) fn facts(objects: &Objects, manager: &str, now: Timestamp) -> Facts {
    let mut endpoints: BTreeMap<(String, String), Vec<EndpointFact>> = BTreeMap::new();
    for slice in &objects.slices {
        let Some(service) = slice.labels().get(SERVICE_NAME) else { continue };
        let key = (slice.namespace().unwrap_or_default(), service.clone());
        endpoints.entry(key).or_default().extend(slice.endpoints.iter().flatten().filter_map(endpoint));
    }
    let (lives, silence) = liveness::judge(&objects.leases, now);
    let services = objects.services.iter().filter(|service| asks(service) && !deleting(&***service));
    let config = objects.configs.iter().find(|config| config.name_any() == names::CONFIG_NAME);
    Facts {
        now,
        manager: manager.to_owned(),
        config: config.map(|config| ConfigFact {
            generation: config.metadata.generation.unwrap_or_default(),
            spec: config.spec.clone(),
            status: config.status.clone().unwrap_or_default(),
        }),
        networks: objects
            .networks
            .iter()
            .filter(|network| !deleting(&***network))
            .map(|n| network(n))
            .collect(),
        gateway_tables: objects
            .gateways
            .iter()
            .filter_map(|gateway| u32::try_from(gateway.spec.route_table).ok())
            .collect(),
        nodes: objects.nodes.iter().map(|fact| node(fact, &lives, &objects.leases)).collect(),
        silence,
        services: services
            .map(|found| {
                let key = (found.namespace().unwrap_or_default(), found.name_any());
                service(found, endpoints.remove(&key).unwrap_or_default())
            })
            .collect(),
        guards: objects
            .guards
            .iter()
            .filter(|guard| manages(&***guard, manager))
            .map(|guard| GuardFact { node: guard.name_any(), pods: guard.spec.pods.clone() })
            .collect(),
        addresses: objects.addresses.iter().map(|found| address(found, manager)).collect(),
    }
}

fn deleting<K: kube::Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn created<K: kube::Resource>(object: &K) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0)
}

fn enabled(labels: &BTreeMap<String, String>, label: &str) -> bool {
    labels.get(label).is_some_and(|value| value == names::ENABLED)
}

/// Whether the endpoints of a Service have no way out but a VIP.
fn required(service: &Service) -> bool {
    service.labels().get(names::LABEL_EGRESS).is_some_and(|value| value == names::REQUIRED)
}

fn manages<K: kube::Resource>(object: &K, manager: &str) -> bool {
    object.labels().get(names::LABEL_MANAGED_BY).is_some_and(|value| value == manager)
}

/// Whether a condition is there and true.
pub(crate) fn holds(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn network(network: &VipNetwork) -> NetworkFact {
    NetworkFact {
        name: network.name_any(),
        uid: network.uid().unwrap_or_default(),
        created: created(network),
        generation: network.metadata.generation.unwrap_or_default(),
        spec: network.spec.clone(),
    }
}

/// A node. That its Ready is `Unknown` says that a kubelet is silent; where an agent has a Lease, that and its neighbours
/// know better whether the node is dead.
fn node(node: &Node, lives: &BTreeMap<String, Life>, leases: &[LeaseFact]) -> NodeFact {
    let lease = leases.iter().find(|lease| lease.node == node.name_any());
    let life = lives.get(&node.name_any());
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let drained = node.annotations().get(names::ANNOTATION_DRAIN).is_some_and(|value| value == "true");
    let not_ready = ready.filter(|ready| ready.status != "True").map(|ready| ready.status.as_str());
    let dead = if deleting(node) {
        Some("is being deleted")
    } else if life == Some(&Life::Dead) {
        Some("does not answer")
    } else if not_ready.is_some() && lease.is_none() {
        Some("is not ready")
    } else if taints.into_iter().flatten().any(|taint| taint.key == OUT_OF_SERVICE) {
        Some("is out of service")
    } else {
        None
    };
    let unfit = if dead.is_some() {
        dead
    } else if not_ready == Some("False") {
        Some("is not ready")
    } else if node.labels().contains_key(names::LABEL_NODE_EXCLUDED) {
        Some("is excluded from external load balancers")
    } else if drained {
        Some("is drained")
    } else {
        None
    };
    let mute = match lease {
        None if !leases.is_empty() => Some("no agent runs there"),
        Some(_) if life == Some(&Life::Mute) => Some("its agent is silent"),
        Some(_) | None => None,
    };
    let addresses = status.and_then(|status| status.addresses.as_ref());
    NodeFact {
        name: node.name_any(),
        labels: node.labels().clone(),
        unfit: unfit.map(str::to_owned),
        dead: dead.map(str::to_owned),
        silent: life == Some(&Life::Dead),
        mute: mute.map(str::to_owned),
        unserved: lease.map(|lease| lease.unserved.clone()).unwrap_or_default(),
        addresses: addresses
            .into_iter()
            .flatten()
            .filter(|address| address.type_.ends_with("IP"))
            .filter_map(|address| cidr::address(&address.address))
            .collect(),
    }
}

fn service(service: &Service, endpoints: Vec<EndpointFact>) -> ServiceFact {
    let mut requested = Vec::new();
    if listed(service) {
        requested.extend(service.spec.iter().filter_map(|spec| spec.external_ips.clone()).flatten());
    }
    if load_balancer(service)
        && let Some(text) = service.annotations().get(names::ANNOTATION_ADDRESSES)
    {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        requested.extend(parts.map(str::to_owned));
    }
    let release =
        service.annotations().get(names::ANNOTATION_TERMINATING).is_some_and(|value| value == "release");
    ServiceFact {
        key: VipService { namespace: service.namespace().unwrap_or_default(), name: service.name_any() },
        uid: service.uid().unwrap_or_default(),
        created: created(service),
        requested,
        families: service.spec.iter().filter_map(|spec| spec.ip_families.clone()).flatten().collect(),
        egress: enabled(service.labels(), names::LABEL_EGRESS) || required(service),
        guarded: required(service),
        terminating: if release { Terminating::Release } else { Terminating::Keep },
        endpoints,
    }
}

/// An endpoint; what is not said about `ready` and `serving` means yes, as in `discovery.k8s.io/v1`.
fn endpoint(endpoint: &Endpoint) -> Option<EndpointFact> {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"));
    Some(EndpointFact {
        address: cidr::address(endpoint.addresses.first()?)?,
        uid: pod.and_then(|pod| pod.uid.clone()),
        pod: pod.and_then(|pod| pod.name.clone()),
        node: endpoint.node_name.clone().filter(|node| !node.is_empty()),
        ready,
        serving: conditions.and_then(|conditions| conditions.serving).unwrap_or(ready),
        terminating: conditions.and_then(|conditions| conditions.terminating).unwrap_or(false),
    })
}

pub(crate) fn address(address: &VipAddress, manager: &str) -> AddressFact {
    let status = address.status.as_ref();
    let owners: BTreeSet<String> = address.owner_references().iter().map(|owner| owner.uid.clone()).collect();
    AddressFact {
        namespace: address.namespace().unwrap_or_default(),
        name: address.name_any(),
        uid: address.uid().unwrap_or_default(),
        deleting: deleting(address),
        finalizers: address.finalizers().to_vec(),
        released: status.is_some_and(|status| {
            status.conditions.iter().any(|condition| {
                condition.type_ == names::CONDITION_PROGRAMMED
                    && condition.status == "False"
                    && condition.reason == names::REASON_RELEASED
            })
        }),
        managed: manages(address, manager),
        spec: address.spec.clone(),
        endpoints: status.map(|status| status.endpoints.clone()).unwrap_or_default(),
        ready: status.is_some_and(|status| holds(&status.conditions, names::CONDITION_READY)),
        owners,
    }
}

/// Whether a VipAddress that is being deleted was let go by its node: another node waits to have it.
pub(crate) fn let_go(address: &VipAddress) -> bool {
    let fact = self::address(address, "");
    fact.deleting && fact.released && fact.held()
}

#[cfg(test)]
mod tests;
