//! Tests of tables.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::gvk::GroupVersionKind;
use crate::resource::{Resource, custom, find_kind};

fn now() -> Timestamp {
    "2024-01-02T00:00:00Z".parse().unwrap()
}

fn cells(object: &Value) -> Vec<String> {
    let resource = find_kind(&GroupVersionKind::of(object).unwrap()).unwrap();
    let table = table(resource, &[object], IncludeObject::None, now());
    table["rows"][0]["cells"].as_array().unwrap().iter().map(jsonpath::text).collect()
}

#[test]
fn durations_are_for_people() {
    let cases = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_000, "3h3m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_200_000, "2y1d"),
        (252_288_000, "8y"),
    ];
    for (seconds, text) in cases {
        assert_eq!(human_duration(seconds), text, "{seconds}");
    }
}

#[test]
fn a_running_pod_is_printed_as_kubectl_prints_it() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "creationTimestamp": "2024-01-01T23:58:00Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.42.0.5"}], "containerStatuses": [
            {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2024-01-01T23:59:00Z"}}},
            {"name": "b", "ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    assert_eq!(
        cells(&pod),
        ["web", "1/2", "CrashLoopBackOff", "3 (60s ago)", "2m", "10.42.0.5", "n1", "<none>", "<none>"]
    );
}

#[test]
fn the_status_of_a_pod_says_why() {
    let status = |status: Value, meta: Value| {
        cells(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status,
            "spec": {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]}}))[2]
            .clone()
    };
    let cases = [
        (json!({"phase": "Pending"}), json!({}), "Pending"),
        (json!({"phase": "Failed", "reason": "Evicted"}), json!({}), "Evicted"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            json!({}),
            "Init:0/2",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}},
            {"name": "j", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
            json!({}),
            "Init:ImagePullBackOff",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}),
            json!({}),
            "ExitCode:3",
        ),
        (
            json!({"phase": "Succeeded", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            json!({}),
            "Completed",
        ),
        (json!({"phase": "Running"}), json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}), "Terminating"),
    ];
    for (given, meta, wanted) in cases {
        assert_eq!(status(given.clone(), meta), wanted, "{given}");
    }
}

#[test]
fn other_kinds_have_their_columns() {
    let created = "2024-01-01T00:00:00Z";
    let meta = json!({"name": "x", "namespace": "ns", "creationTimestamp": created});
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x", "creationTimestamp": created,
                "labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/relay": ""}},
                "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.37"}, "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}),
            vec![
                "x",
                "Ready,SchedulingDisabled",
                "control-plane,relay",
                "24h",
                "v1.37",
                "192.0.2.1",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"type": "LoadBalancer", "clusterIP": "10.43.0.9",
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}], "selector": {"a": "b"}},
                "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}),
            vec!["x", "LoadBalancer", "10.43.0.9", "203.0.113.9", "80:30080/TCP", "24h", "a=b"],
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 3,
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["e", "d"]}]},
                "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
                "status": {"readyReplicas": 2, "updatedReplicas": 3}}),
            vec!["x", "2/3", "3", "0", "24h", "c", "i:1", "a=b,c in (d,e)"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "", "b": ""}, "binaryData": {"c": ""}}),
            vec!["x", "3", "24h"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Event", "metadata": meta, "type": "Normal", "reason": "R", "message": "m\n",
                "involvedObject": {"kind": "Pod", "name": "p"}, "count": 4, "lastTimestamp": "2024-01-01T23:59:30Z", "source": {"component": "c"}}),
            vec!["30s", "Normal", "R", "pod/p", "", "c", "m", "<unknown>", "4", "x"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [{"ports": [{"port": 1}],
                "addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}, {"ip": "1.1.1.3"}, {"ip": "::1"}]}]}),
            vec!["x", "1.1.1.1:1,1.1.1.2:1,1.1.1.3:1 + 1 more...", "24h"],
        ),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta}),
            vec!["x", created],
        ),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
                "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
            vec!["x", "Role/r", "24h", "", "", "n/s"],
        ),
        (
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {"holderIdentity": "h"}}),
            vec!["x", "h", "24h"],
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"completions": 2, "template": {}},
                "status": {"succeeded": 1, "startTime": "2024-01-01T23:59:00Z"}}),
            vec!["x", "Running", "1/2", "60s", "24h", "", "", "<none>"],
        ),
    ];
    for (object, wanted) in cases {
        assert_eq!(cells(&object), wanted, "{}", object["kind"]);
    }
}

fn widget() -> Arc<Resource> {
    let definition = json!({"spec": {"group": "example.org", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
                {"name": "Since", "type": "date", "jsonPath": ".status.since", "priority": 1}]}]}});
    Arc::new(custom::resources(&definition).unwrap().remove(0))
}

#[test]
fn custom_resources_have_the_columns_of_their_definition() {
    let object = json!({"metadata": {"name": "w"}, "spec": {"size": 3},
        "status": {"since": "2024-01-01T23:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]}});
    let table =
        table(&widget(), &[&object, &json!({"metadata": {"name": "v"}})], IncludeObject::Metadata, now());
    assert_eq!(table["rows"][0]["cells"], json!(["w", 3, "True", "60m"]));
    assert_eq!(table["rows"][1]["cells"], json!(["v", null, null, null]));
    assert_eq!(table["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["columnDefinitions"][3]["priority"], 1);
}
