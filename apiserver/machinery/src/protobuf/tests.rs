//! Tests of protobuf in both directions.

use serde_json::{Value, json};

use super::*;
use crate::resource::type_of;

/// A field of length-delimited bytes, as a client writes it.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    out.extend_from_slice(content);
    out
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    let mut out = MAGIC.to_vec();
    out.extend(bytes(1, &meta));
    out.extend(bytes(2, raw));
    out.extend(bytes(3, b""));
    out.extend(bytes(4, b""));
    out
}

#[test]
fn a_config_map_is_read_as_clients_write_it() {
    // metadata with a zero creationTimestamp and empty strings, as generated code always writes them.
    let meta = [bytes(1, b"a"), bytes(2, b""), bytes(3, b""), bytes(5, b""), vec![7 << 3, 0], bytes(8, b"")]
        .concat();
    let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
    let binary = [bytes(1, b"b"), bytes(2, b"\x00\x01")].concat();
    let raw = [bytes(1, &meta), bytes(2, &entry), bytes(3, &binary)].concat();
    let value = from_protobuf(&envelope("v1", "ConfigMap", &raw), &type_of).unwrap();
    assert_eq!(
        value,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"k": "v"}, "binaryData": {"b": "AAE="}})
    );
}

#[test]
fn options_of_every_group_are_read() {
    let value =
        from_protobuf(&envelope("apps/v1", "DeleteOptions", &bytes(4, b"Foreground")), &type_of).unwrap();
    assert_eq!(
        value,
        json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"})
    );
}

#[test]
fn what_is_written_is_read_back() {
    let objects = [
        (
            "core/v1.Pod",
            json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": "2024-01-02T03:04:05Z",
                "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {}}, "time": "2024-01-02T03:04:05Z"}]},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "100m"}}, "securityContext": {"runAsNonRoot": false},
                    "livenessProbe": {"httpGet": {"port": "web", "path": "/"}, "initialDelaySeconds": 3}}],
                "ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "c"}],
                "volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}],
                "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]},
            "status": {"podIPs": [{"ip": "10.0.0.1"}]}}),
        ),
        (
            "coordination/v1.Lease",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"renewTime": "2024-01-02T03:04:05.123456Z", "leaseDurationSeconds": 15}}),
        ),
        (
            "core/v1.Service",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "x"}]}}),
        ),
        (
            "authorization/v1.SubjectAccessReview",
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": "u", "groups": ["g"], "extra": {"k": ["a", "b"]}}}),
        ),
        (
            "apiextensions/v1.CustomResourceDefinition",
            json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "w"}, "spec": {"group": "g", "scope": "Namespaced",
                "names": {"kind": "W", "plural": "ws"}, "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "array",
                        "items": {"type": "string", "enum": ["x"]}, "default": ["x"]},
                        "n": {"type": "number", "minimum": -1.5},
                        "m": {"type": "object", "additionalProperties": true}}}}}]}}),
        ),
        (
            "apps/v1.ControllerRevision",
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 3,
            "data": {"spec": {"a": [1, 2]}}}),
        ),
    ];
    for (ty, object) in objects {
        let schema = TypeName::find(ty).unwrap().schema();
        let mut back = from_protobuf(&to_protobuf(schema, &object), &type_of).unwrap();
        // Structs by value that a client leaves out are not written by us.
        drop_empty(&mut back);
        let mut wanted = object.clone();
        drop_empty(&mut wanted);
        assert_eq!(back, wanted, "{ty}");
    }
}

fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, value| value.as_object().is_none_or(|inner| !inner.is_empty()));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn broken_bodies_are_refused() {
    for body in [&b"{}"[..], b"k8s\0", b"k8s\0\xff\xff", b""] {
        assert!(from_protobuf(body, &type_of).is_err());
    }
    let unknown = envelope("v1", "Unheard", b"");
    assert!(from_protobuf(&unknown, &type_of).unwrap_err().to_string().starts_with("no kind \"Unheard\""));
}

#[test]
fn bodies_of_kubectl_are_read() {
    let bodies: [(&[u8], Value); 4] = [
        (
            include_bytes!("bodies/deployment.bin"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {},
                "metadata": {"labels": {"app": "d"}, "name": "d", "namespace": "default"},
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}, "strategy": {},
                    "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
                        {"image": "nginx:1", "name": "nginx", "ports": [{"containerPort": 80}], "resources": {}}]}}}}),
        ),
        (
            include_bytes!("bodies/service.bin"),
            json!({"apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}},
                "metadata": {"labels": {"app": "sv"}, "name": "sv", "namespace": "default"},
                "spec": {"type": "LoadBalancer", "selector": {"app": "sv"},
                    "ports": [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]}}),
        ),
        (
            include_bytes!("bodies/ingress.bin"),
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "status": {"loadBalancer": {}},
                "metadata": {"name": "ing", "namespace": "default"},
                "spec": {"tls": [{"hosts": ["h"], "secretName": "t"}], "rules": [{"host": "h", "http": {"paths": [
                    {"path": "/p", "pathType": "Prefix", "backend": {"service": {"name": "svc", "port": {"number": 80}}}}]}}]}}),
        ),
        (
            include_bytes!("bodies/review.bin"),
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
                "spec": {"resourceAttributes": {"namespace": "default", "resource": "pods", "verb": "get"}},
                "status": {"allowed": false}}),
        ),
    ];
    for (body, wanted) in bodies {
        assert_eq!(from_protobuf(body, &type_of).unwrap(), wanted);
    }
}
