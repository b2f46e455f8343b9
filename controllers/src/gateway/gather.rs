//! From the objects of the API to facts. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use litek8s_crds::{VipGateway, VipRoute, names};

use super::facts::{AgentFact, Facts, GatewayFact, PodFact, RouteFact};
use crate::vip::cidr;

/// All objects as they are cached, and what each agent says.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) gateways: Vec<Arc<VipGateway>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) routes: Vec<Arc<VipRoute>>,
    pub(crate) says: BTreeMap<String, String>,
}

/// The facts.
pub(crate) fn facts(objects: &Objects, manager: &str) -> Facts {
    let standing = objects.gateways.iter().filter(|gateway| gateway.metadata.deletion_timestamp.is_none());
    Facts {
        manager: manager.to_owned(),
        gateways: standing.map(|found| gateway(found)).collect(),
        pods: objects.pods.iter().map(|found| pod(found)).collect(),
        routes: objects
            .routes
            .iter()
            .filter(|route| route.metadata.deletion_timestamp.is_none())
            .map(|found| RouteFact {
                name: found.name_any(),
                uid: found.uid().unwrap_or_default(),
                managed: found.labels().get(names::LABEL_MANAGED_BY).is_some_and(|value| value == manager),
                spec: found.spec.clone(),
            })
            .collect(),
        agents: objects.says.iter().map(|(node, text)| agent(node, text)).collect(),
    }
}

fn gateway(gateway: &VipGateway) -> GatewayFact {
    let conditions = gateway.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let found = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let degraded = found(names::CONDITION_DEGRADED).filter(|condition| condition.status == "True");
    GatewayFact {
        name: gateway.name_any(),
        uid: gateway.uid().unwrap_or_default(),
        generation: gateway.metadata.generation.unwrap_or_default(),
        spec: gateway.spec.clone(),
        said: found(names::CONDITION_READY).map(|condition| condition.reason.clone()),
        said_degraded: degraded.map(|condition| condition.message.clone()),
    }
}

fn pod(pod: &Pod) -> PodFact {
    let status = pod.status.as_ref();
    let listed = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
    let mut addresses: Vec<_> = listed.filter_map(|ip| cidr::address(&ip.ip)).collect();
    let first = status.and_then(|status| status.pod_ip.as_deref()).and_then(cidr::address);
    addresses.extend(first.filter(|first| !addresses.contains(first)));
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    PodFact {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        labels: pod.labels().clone(),
        node: node.filter(|node| !node.is_empty()),
        addresses,
        running: status.and_then(|status| status.phase.as_deref()) == Some("Running"),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
    }
}

/// What an agent says in the annotation of its Lease; what cannot be read says nothing.
fn agent(node: &str, text: &str) -> AgentFact {
    AgentFact { node: node.to_owned(), says: serde_json::from_str(text).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read_with_all_its_addresses_and_only_what_runs_runs() {
        let read = |value: serde_json::Value| pod(&serde_json::from_value(value).unwrap());
        let found = read(json!({
            "metadata": {"name": "g", "namespace": "edge", "labels": {"app": "g"}},
            "spec": {"nodeName": "node-1", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.42.1.5", "podIPs": [{"ip": "10.42.1.5"}, {"ip": "fd00::5"}]},
        }));
        assert!(found.running && found.ready && !found.terminating);
        assert_eq!(found.node.as_deref(), Some("node-1"));
        assert_eq!(found.addresses.len(), 2);
        let bare = read(json!({"metadata": {"name": "g"}, "status": {"phase": "Pending"}}));
        assert!(!bare.running && !bare.ready && bare.addresses.is_empty() && bare.node.is_none());
    }

    #[test]
    fn what_an_agent_says_is_read_and_nonsense_says_nothing() {
        let text = r#"{"a": {"applied": "172.30.0.0/16"}, "b": {"refused": "overlaps eth0 192.0.2.2/24"}}"#;
        let read = agent("node-1", text);
        assert_eq!(read.says["a"].applied.as_deref(), Some("172.30.0.0/16"));
        assert_eq!(read.says["b"].refused.as_deref(), Some("overlaps eth0 192.0.2.2/24"));
        assert!(agent("node-1", "nonsense").says.is_empty());
    }
}
