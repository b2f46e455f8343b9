//! Facts from objects as people write them.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::fixture::at;
use super::*;

fn read<K: DeserializeOwned>(value: Value) -> Vec<Arc<K>> {
    vec![Arc::new(serde_json::from_value(value).unwrap())]
}

fn service_with(labels: Value, annotations: Value, spec: Value) -> Objects {
    Objects {
        services: read(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "labels": labels, "annotations": annotations,
                "creationTimestamp": "2024-01-01T00:00:00Z",
            },
            "spec": spec,
        })),
        ..Objects::default()
    }
}

fn gathered(objects: &Objects) -> Facts {
    facts(objects, "netwrangler", at(0))
}

#[test]
fn a_service_asks_by_its_label_or_by_its_class() {
    let external = json!({ "externalIPs": ["203.0.113.10", "203.0.113.11"] });
    let enabled = json!({ "netwrangler.dev/ingress": "enabled", "netwrangler.dev/egress": "enabled" });
    let facts = gathered(&service_with(enabled.clone(), json!({}), external.clone()));
    assert_eq!(facts.services[0].requested, ["203.0.113.10", "203.0.113.11"]);
    assert!(facts.services[0].egress);
    let others = [json!({}), json!({ "netwrangler.dev/ingress": "disabled" })];
    for labels in others {
        assert!(gathered(&service_with(labels, json!({}), external.clone())).services.is_empty());
    }
    let balanced = json!({ "type": "LoadBalancer", "loadBalancerClass": "netwrangler.dev/vip" });
    let annotations = json!({ "netwrangler.dev/addresses": "203.0.113.20, 203.0.113.21,", "netwrangler.dev/terminating": "release" });
    let facts = gathered(&service_with(json!({}), annotations.clone(), balanced));
    assert_eq!(facts.services[0].requested, ["203.0.113.20", "203.0.113.21"]);
    assert_eq!((facts.services[0].egress, facts.services[0].terminating), (false, Terminating::Release));
    let other = json!({ "type": "LoadBalancer", "loadBalancerClass": "other/class" });
    assert!(gathered(&service_with(json!({}), annotations, other)).services.is_empty());
}

#[test]
fn what_an_endpoint_does_not_say_means_ready() {
    let mut objects = service_with(
        json!({ "netwrangler.dev/ingress": "enabled" }),
        json!({}),
        json!({ "externalIPs": [] }),
    );
    objects.slices = read(json!({
        "metadata": {
            "name": "web-x", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.42.1.5"], "nodeName": "a" },
            { "addresses": ["10.42.1.6"], "nodeName": "b", "conditions": { "ready": false, "serving": true,
              "terminating": true }, "targetRef": { "kind": "Pod", "name": "p", "uid": "pod-uid" } },
            { "addresses": ["not-an-address"] },
        ],
    }));
    let endpoints = &gathered(&objects).services[0].endpoints;
    assert_eq!(endpoints.len(), 2);
    assert!(endpoints[0].ready && endpoints[0].serving && !endpoints[0].terminating);
    assert!(!endpoints[1].ready && endpoints[1].serving && endpoints[1].terminating);
    assert_eq!((endpoints[1].uid.as_deref(), endpoints[1].pod.as_deref()), (Some("pod-uid"), Some("p")));
}

#[test]
fn a_node_that_may_hold_no_vip_says_why() {
    let unfit = |extra: Value| -> Option<String> {
        let mut node = json!({ "metadata": { "name": "a" } });
        node.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        gathered(&Objects { nodes: read(node), ..Objects::default() }).nodes[0].unfit.clone()
    };
    assert_eq!(unfit(json!({})), None);
    assert_eq!(unfit(json!({ "spec": { "unschedulable": true } })), None, "a cordon is not a drain");
    let ready = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    assert_eq!(unfit(ready("True")), None);
    assert_eq!(unfit(ready("Unknown")).as_deref(), Some("is not ready"));
    let taint = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }] } });
    assert_eq!(unfit(taint).as_deref(), Some("is out of service"));
    let label = json!({ "metadata": { "name": "a", "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": "" } } });
    assert_eq!(unfit(label).as_deref(), Some("is excluded from external load balancers"));
    let drain = json!({ "metadata": { "name": "a", "annotations": { "netwrangler.dev/drain": "true" } } });
    assert_eq!(unfit(drain).as_deref(), Some("is drained"));
}

#[test]
fn a_node_with_an_agent_is_not_dead_because_its_kubelet_is_silent_or_says_that_it_is_not_ready() {
    let judged = |ready: &str, leases: Vec<LeaseFact>| {
        let condition = json!([{ "type": "Ready", "status": ready }]);
        let node = json!({ "metadata": { "name": "a" }, "status": { "conditions": condition } });
        let objects = Objects { nodes: read(node), leases, ..Objects::default() };
        let node = facts(&objects, "netwrangler", at(60)).nodes.remove(0);
        (node.dead, node.unfit)
    };
    let lease = |node: &str, heard: i64, unreachable: &[&str]| LeaseFact {
        node: node.into(),
        heard: at(heard),
        unreachable: unreachable.iter().map(|&node| node.to_owned()).collect(),
        unserved: BTreeMap::new(),
    };
    let says = |why: &str| Some(why.to_owned());
    let not_ready = (says("is not ready"), says("is not ready"));
    assert_eq!(judged("Unknown", vec![lease("b", 60, &[])]), not_ready, "it never had an agent");
    let silent = || lease("a", 0, &[]);
    assert_eq!(judged("Unknown", vec![silent()]), (None, None), "there is nobody else");
    assert_eq!(judged("Unknown", vec![silent(), lease("b", 0, &[])]), (None, None), "nobody is heard");
    assert_eq!(judged("Unknown", vec![silent(), lease("b", 60, &[])]), (None, None), "b reaches it");
    let unanswered = (says("does not answer"), says("does not answer"));
    assert_eq!(judged("Unknown", vec![silent(), lease("b", 60, &["a"])]), unanswered);
    let lives = || vec![lease("a", 60, &[])];
    assert_eq!(judged("Unknown", lives()), (None, None));
    assert_eq!(judged("False", lives()), (None, says("is not ready")), "its agent is asked to let go");
}

#[test]
fn only_ip_addresses_of_a_node_are_its_addresses() {
    let node = json!({
        "metadata": { "name": "a" },
        "status": { "addresses": [
            { "type": "InternalIP", "address": "192.0.2.1" },
            { "type": "ExternalIP", "address": "203.0.113.77" },
            { "type": "Hostname", "address": "10.0.0.1" },
        ] },
    });
    let facts = gathered(&Objects { nodes: read(node), ..Objects::default() });
    let addresses: Vec<String> = facts.nodes[0].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "203.0.113.77"]);
}

#[test]
fn where_agents_run_a_node_without_one_takes_nothing_new() {
    let nodes = ["a", "b"].map(|name| read::<Node>(json!({ "metadata": { "name": name } })).remove(0));
    let mut objects = Objects { nodes: nodes.to_vec(), ..Objects::default() };
    let mute = |objects: &Objects| -> Vec<Option<String>> {
        gathered(objects).nodes.into_iter().map(|node| node.mute).collect()
    };
    assert_eq!(mute(&objects), [None, None], "no agent has a Lease");
    objects.leases.push(LeaseFact {
        node: "a".into(),
        heard: at(0),
        unreachable: BTreeSet::new(),
        unserved: BTreeMap::new(),
    });
    assert_eq!(mute(&objects), [None, Some("no agent runs there".into())]);
}
