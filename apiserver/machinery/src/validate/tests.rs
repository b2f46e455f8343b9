//! Tests of validation.

use serde_json::{Value, json};

use super::*;
use crate::gvk::GroupVersionKind;
use crate::resource::find_kind;
use crate::schema::from_crd;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn builtin(new: &Value, old: Option<&Value>) -> Vec<String> {
    let resource = find_kind(&GroupVersionKind::of(new).unwrap()).unwrap();
    texts(&object(resource, new, old))
}

#[test]
fn schemas_are_checked_in_the_words_of_kube_openapi() {
    let schema = from_crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["need"],
        "properties": {"need": {"type": "string"}, "n": {"type": "integer", "minimum": 1.0, "maximum": 5},
            "s": {"type": "string", "pattern": "^a+$", "maxLength": 2}, "e": {"type": "string", "enum": ["x", "y"]},
            "t": {"type": "string", "format": "date-time"}, "ios": {"x-kubernetes-int-or-string": true},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "few": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
            "maybe": {"type": "string", "nullable": true}}}}}))
    .unwrap();
    let cases = [
        (json!({}), vec!["spec.need: Required value"]),
        (
            json!({"need": "", "n": "x"}),
            vec![r#"spec.n: Invalid value: "string": spec.n in body must be of type integer: "string""#],
        ),
        (
            json!({"need": "", "n": 0}),
            vec!["spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"],
        ),
        (
            json!({"need": "", "n": 6}),
            vec!["spec.n: Invalid value: 6: spec.n in body should be less than or equal to 5"],
        ),
        (
            json!({"need": "", "s": "b"}),
            vec![r#"spec.s: Invalid value: "b": spec.s in body should match '^a+$'"#],
        ),
        (json!({"need": "", "s": "aaa"}), vec!["spec.s: Too long: may not be more than 2 bytes"]),
        (
            json!({"need": "", "e": "z"}),
            vec![r#"spec.e: Unsupported value: "z": supported values: "x", "y""#],
        ),
        (
            json!({"need": "", "t": "z"}),
            vec![r#"spec.t: Invalid value: "z": spec.t in body must be of type date-time: "z""#],
        ),
        (
            json!({"need": "", "ios": true}),
            vec![
                r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
            ],
        ),
        (json!({"need": "", "set": ["a", "a", "a"]}), vec![r#"spec.set[1]: Duplicate value: "a""#]),
        (
            json!({"need": "", "one": {}}),
            vec![
                r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
            ],
        ),
        (json!({"need": "", "few": [1, 2]}), vec!["spec.few: Too many: 2: must have at most 1 item"]),
        (json!({"need": "", "maybe": null, "ios": "5", "n": 3}), vec![]),
    ];
    for (spec, wanted) in cases {
        let found = texts(&structural(&schema, &json!({"spec": spec}), &Path::root()));
        assert_eq!(found, wanted, "{spec}");
    }
}

#[test]
fn metadata_has_rules_of_its_own() {
    let config = |meta: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
    assert!(
        builtin(&config(json!({"name": "a", "namespace": "b", "labels": {"a.b/c": "d"}})), None).is_empty()
    );
    let cases = [
        (json!({"namespace": "b"}), "metadata.name: Required value: name or generateName is required"),
        (
            json!({"name": "A", "namespace": "b"}),
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must",
        ),
        (json!({"name": "a"}), "metadata.namespace: Required value"),
        (
            json!({"name": "a", "namespace": "b", "labels": {"a/b/c": ""}}),
            "metadata.labels: Invalid value: \"a/b/c\": a qualified name must",
        ),
        (
            json!({"name": "a", "namespace": "b", "labels": {"a": "-"}}),
            "metadata.labels[a]: Invalid value: \"-\": a valid label must",
        ),
        (
            json!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            "metadata.ownerReferences[0].uid: Invalid value: \"\": must not be empty",
        ),
    ];
    for (meta, wanted) in cases {
        let found = builtin(&config(meta), None);
        assert!(found.iter().any(|text| text.starts_with(wanted)), "{wanted}\n{found:#?}");
    }
    let before = config(
        json!({"name": "a", "namespace": "b", "uid": "1", "deletionTimestamp": "t", "finalizers": ["x/y"]}),
    );
    let mut after = before.clone();
    after["metadata"]["finalizers"] = json!(["x/y", "x/z"]);
    after["metadata"]["uid"] = json!("2");
    let found = builtin(&after, Some(&before));
    assert!(found[0].starts_with("metadata.uid: Invalid value: \"2\": field is immutable"), "{found:#?}");
    assert!(found[1].contains("no new finalizers can be added"), "{found:#?}");
}

#[test]
fn builtin_kinds_have_the_rules_most_users_meet() {
    let meta = json!({"name": "a", "namespace": "b"});
    let service =
        |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": meta.clone(), "spec": spec});
    let deployment = |labels: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta.clone(),
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let pod = |container: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta.clone(), "spec": {"containers": [container]}});
    let cases = [
        (
            service(json!({"ports": [{"port": 0, "protocol": "TCP"}]})),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            service(json!({"ports": [{"port": 1, "protocol": "XXX"}]})),
            "spec.ports[0].protocol: Unsupported value: \"XXX\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            service(json!({"ports": [{"port": 1}, {"port": 2, "name": "b"}]})),
            "spec.ports[0].name: Required value",
        ),
        (
            service(
                json!({"ports": [{"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 1, "protocol": "TCP"}]}),
            ),
            "spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}",
        ),
        (
            deployment(json!({"app": "y"})),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
        ),
        (pod(json!({"name": "c"})), "spec.containers[0].image: Required value"),
        (
            pod(json!({"name": "C_", "image": "i"})),
            "spec.containers[0].name: Invalid value: \"C_\": a lowercase RFC 1123 label must",
        ),
        (
            pod(json!({"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta.clone(), "spec": {}}),
            "spec.containers: Required value",
        ),
    ];
    for (new, wanted) in cases {
        let found = builtin(&new, None);
        assert!(found.iter().any(|text| text.starts_with(wanted)), "{wanted}\n{found:#?}");
    }
    assert!(builtin(&deployment(json!({"app": "x"})), None).is_empty());
    let mut moved = deployment(json!({"app": "x"}));
    moved["spec"]["selector"] = json!({"matchLabels": {"app": "x", "b": "c"}});
    moved["spec"]["template"]["metadata"]["labels"]["b"] = json!("c");
    let found = builtin(&moved, Some(&deployment(json!({"app": "x"}))));
    assert!(
        found[0].starts_with("spec.selector: Invalid value: ") && found[0].ends_with(": field is immutable")
    );
}

#[test]
fn immutable_data_stays() {
    let secret = |data: &str, immutable: bool| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": immutable,
        "metadata": {"name": "a", "namespace": "b"}, "data": {"k": data}})
    };
    assert_eq!(
        builtin(&secret("YQ==", true), Some(&secret("Yg==", true))),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    assert_eq!(
        builtin(&secret("Yg==", false), Some(&secret("Yg==", true))),
        ["immutable: Forbidden: field is immutable when `immutable` is set"]
    );
    assert!(builtin(&secret("YQ==", true), Some(&secret("Yg==", false))).is_empty());
    assert!(builtin(&secret("YQ==", false), Some(&secret("Yg==", false))).is_empty());
}

#[test]
fn a_field_of_another_type_is_a_bad_request() {
    let resource = find_kind(&GroupVersionKind::new("apps", "v1", "Deployment")).unwrap();
    let status = decodable(resource, &json!({"spec": {"replicas": "3"}})).unwrap_err();
    assert_eq!(
        status.message,
        r#"Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field spec.replicas of type int32"#
    );
    assert_eq!(status.code, 400);
    assert!(decodable(resource, &json!({"spec": {"replicas": 3, "selector": null}})).is_ok());
    let odd = json!({"metadata": {"labels": {"a": 1}}, "spec": 5});
    let status = decodable::metadata(&odd).unwrap_err();
    assert_eq!(
        status.message,
        "json: cannot unmarshal number into Go struct field metadata.labels.a of type string"
    );
}

#[test]
fn rows_refuse_what_kube_apiserver_refuses() {
    let webhook = |rule: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "a"}, "webhooks": [{"name": "a.b.c", "rules": [rule]}]})
    };
    let ingress = |path: Value, host: &str| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]}})
    };
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let budget = |least: Value| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"minAvailable": least}})
    };
    let event = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "b"},
            "involvedObject": {"namespace": namespace}})
    };
    let slice = |kind: &str, address: &str| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a", "namespace": "b"},
            "addressType": kind, "endpoints": [{"addresses": [address]}]})
    };
    let class = |controller: &str| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "a"},
            "spec": {"controller": controller}})
    };
    let all = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    for (object, expected) in [
        (webhook(all), vec![]),
        (
            webhook(
                json!({"operations": ["READ"], "apiGroups": [], "apiVersions": [""], "resources": ["pods"]}),
            ),
            vec![
                r#"webhooks[0].rules[0].operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#,
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions[0]: Required value",
            ],
        ),
        (ingress(json!({"path": "/a", "pathType": "Exact", "backend": backend}), "*.example.org"), vec![]),
        (
            ingress(json!({"path": "a", "pathType": "Exact", "backend": backend}), "example.org"),
            vec![r#"spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path"#],
        ),
        (
            ingress(json!({"pathType": "ImplementationSpecific", "backend": {"service": {"name": "s"}}}), ""),
            vec![
                "spec.rules[0].http.paths[0].backend.service.port: Required value: port name or number is required",
            ],
        ),
        (budget(json!("50%")), vec![]),
        (budget(json!(-1)), vec!["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
        (event("b"), vec![]),
        (event("c"), vec![r#"involvedObject.namespace: Invalid value: "c": does not match event.namespace"#]),
        (slice("FQDN", "a.example.org"), vec![]),
        (
            slice("IPv4", "a"),
            vec![
                r#"endpoints[0].addresses[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        ),
        (class("acme.io/foo"), vec![]),
        (
            class("foo"),
            vec![
                r#"spec.controller: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")"#,
            ],
        ),
    ] {
        assert_eq!(builtin(&object, None), expected, "{object}");
    }
}
