//! Tests of defaults.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::decode::normalize;
use crate::schema::TypeName;

fn defaulted(ty: &str, mut object: Value) -> Value {
    let schema = TypeName::find(ty).unwrap().schema();
    normalize(schema, &mut object);
    apply(schema, &mut object);
    object
}

#[test]
fn a_pod_gets_what_kube_apiserver_gives_it() {
    let pod = defaulted(
        "core/v1.Pod",
        json!({"metadata": {"name": "a"}, "spec": {"volumes": [{"name": "v"}, {"name": "c", "configMap": {"name": "x"}}],
            "containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": 80}}},
                {"name": "d", "image": "nginx:1", "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}}),
    );
    assert_eq!(
        pod,
        json!({"metadata": {"name": "a"}, "status": {"phase": "Pending"}, "spec": {
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x", "defaultMode": 420}}],
            "containers": [
                {"name": "c", "image": "nginx", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                    "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "failureThreshold": 3,
                        "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}},
                {"name": "d", "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}]}]}})
    );
}

#[test]
fn a_deployment_gets_its_strategy_and_template() {
    let deployment = defaulted(
        "apps/v1.Deployment",
        json!({"spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": "a:1"}]}}}}),
    );
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    assert_eq!(spec["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert!(spec["template"]["spec"].get("enableServiceLinks").is_none());
    let recreate = defaulted("apps/v1.Deployment", json!({"spec": {"strategy": {"type": "Recreate"}}}));
    assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn a_service_depends_on_its_type() {
    let service = defaulted(
        "core/v1.Service",
        json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "x"}]}}),
    );
    assert_eq!(
        service["spec"],
        json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 81, "protocol": "TCP", "targetPort": "x"}]})
    );
    let balanced = defaulted(
        "core/v1.Service",
        json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}),
    );
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["spec"]["externalTrafficPolicy"], "Cluster");
    assert_eq!(balanced["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn other_kinds_get_theirs() {
    let cases = [
        (
            "core/v1.Namespace",
            json!({"metadata": {"name": "n"}}),
            "/metadata/labels/kubernetes.io~1metadata.name",
            json!("n"),
        ),
        ("core/v1.Namespace", json!({"metadata": {"name": "n"}}), "/status/phase", json!("Active")),
        ("core/v1.Secret", json!({}), "/type", json!("Opaque")),
        ("networking/v1.NetworkPolicy", json!({"spec": {}}), "/spec/policyTypes", json!(["Ingress"])),
        (
            "networking/v1.NetworkPolicy",
            json!({"spec": {"egress": [{}]}}),
            "/spec/policyTypes",
            json!(["Ingress", "Egress"]),
        ),
        (
            "rbac/v1.RoleBinding",
            json!({"roleRef": {}}),
            "/roleRef/apiGroup",
            json!("rbac.authorization.k8s.io"),
        ),
        (
            "rbac/v1.RoleBinding",
            json!({"subjects": [{"kind": "User"}]}),
            "/subjects/0/apiGroup",
            json!("rbac.authorization.k8s.io"),
        ),
        ("discovery/v1.EndpointSlice", json!({"ports": [{"port": 1}]}), "/ports/0/protocol", json!("TCP")),
        (
            "apps/v1.DaemonSet",
            json!({"spec": {}}),
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            json!(1),
        ),
    ];
    for (ty, object, pointer, expected) in cases {
        assert_eq!(defaulted(ty, object).pointer(pointer), Some(&expected), "{ty} {pointer}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn applying_twice_is_applying_once(object in crate::decode::tests::any_json()) {
        for ty in ["core/v1.Pod", "apps/v1.Deployment", "core/v1.Service", "core/v1.Namespace"] {
            let schema = TypeName::find(ty).unwrap().schema();
            let mut once = object.clone();
            apply(schema, &mut once);
            let mut twice = once.clone();
            apply(schema, &mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}

#[test]
fn what_go_always_writes_is_there() {
    let pod = defaulted("core/v1.Pod", json!({"spec": {}}));
    assert_eq!(pod["spec"].get("containers"), Some(&Value::Null));
    let replicas = defaulted("apps/v1.ReplicaSet", json!({"spec": {"selector": {}}}));
    assert_eq!(replicas["status"], json!({"replicas": 0}));
    let node = defaulted("core/v1.Node", json!({}));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "");
    assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    let cron = defaulted("batch/v1.CronJob", json!({"spec": {"schedule": "@daily"}}));
    assert_eq!(cron["spec"]["jobTemplate"]["spec"]["template"]["metadata"], json!({}));
}

#[test]
fn an_empty_object_is_as_go_writes_it() {
    let zero = zero(TypeName::find("apps/v1.ReplicaSet").unwrap().schema());
    assert_eq!(zero["status"], json!({"replicas": 0}));
    assert_eq!(zero["spec"]["template"]["spec"]["containers"], Value::Null);
    assert_eq!(zero["spec"].get("replicas"), None, "a pointer");
    assert_eq!(super::zero(&crate::schema::Schema::of(crate::schema::Type::Object)), json!({}));
}

#[test]
fn an_autoscaler_gets_a_metric_and_whole_rules() {
    let spec = |behavior: Value| {
        let object = json!({"spec": {"maxReplicas": 3, "behavior": behavior}});
        defaulted("autoscaling/v2.HorizontalPodAutoscaler", object)["spec"].clone()
    };
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    assert_eq!(
        spec(Value::Null)["metrics"],
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
    );
    assert_eq!(spec(Value::Null).get("behavior"), None);
    let behavior = spec(json!({"scaleUp": {"stabilizationWindowSeconds": 1}}))["behavior"].clone();
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    assert_eq!(behavior["scaleDown"], json!({"selectPolicy": "Max", "policies": [percent]}));
    let up = json!({"selectPolicy": "Max", "policies": [pods, percent], "stabilizationWindowSeconds": 1});
    assert_eq!(behavior["scaleUp"], up);
}

#[test]
fn limits_of_containers_are_their_defaults() {
    let limits = |item: Value| {
        let mut object = json!({"spec": {"limits": [item]}});
        object = defaulted("core/v1.LimitRange", object);
        object["spec"]["limits"][0].clone()
    };
    let container = limits(json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}));
    assert_eq!(container["default"], json!({"cpu": "2"}));
    assert_eq!(container["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
    assert_eq!(limits(json!({"type": "Pod", "max": {"cpu": "2"}})).get("default"), None);
}

#[test]
fn claims_of_a_stateful_set_say_what_they_are() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let set = defaulted("apps/v1.StatefulSet", json!({"spec": {"volumeClaimTemplates": claims}}));
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!((&claim["apiVersion"], &claim["kind"]), (&json!("v1"), &json!("PersistentVolumeClaim")));
    assert_eq!(claim["status"]["phase"], "Pending");
}

#[test]
fn plain_text_of_a_secret_becomes_data() {
    let secret = defaulted("core/v1.Secret", json!({"data": {"a": "Yg=="}, "stringData": {"k": "v"}}));
    assert_eq!(secret["data"], json!({"a": "Yg==", "k": "dg=="}));
    assert_eq!(secret.get("stringData"), None);
}

#[test]
fn one_range_of_a_node_is_all_of_them() {
    let spec = |spec: Value| defaulted("core/v1.Node", json!({"spec": spec}))["spec"].clone();
    assert_eq!(spec(json!({"podCIDR": "10.1.0.0/24"}))["podCIDRs"], json!(["10.1.0.0/24"]));
    assert_eq!(spec(json!({"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}))["podCIDR"], "10.1.0.0/24");
}
