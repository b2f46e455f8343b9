//! Tests of decoding and of what a schema makes of fields.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, TypeName, from_crd};

fn pod() -> &'static Schema {
    TypeName::find("core/v1.Pod").unwrap().schema()
}

#[test]
fn fields_that_stand_twice_are_named_by_their_path() {
    let body = br#"{"a":1,"spec":{"list":[{"x":1,"x":2}],"a":1},"a":2}"#;
    let decoded = from_json(body, &Limits::default()).unwrap();
    assert_eq!(decoded.duplicate_keys, ["spec.list[0].x", "a"]);
    assert_eq!(decoded.value, json!({"a": 2, "spec": {"list": [{"x": 2}], "a": 1}}));
}

#[test]
fn yaml_is_read_as_the_clients_write_it() {
    let body = b"a: 1\nb: [x, \"0644\", 0644, 1.5, true, null]\na: 2\nc: {d: 2024-01-01}\n";
    let decoded = from_yaml(body, &Limits::default()).unwrap();
    assert_eq!(
        decoded.value,
        json!({"a": 2, "b": ["x", "0644", 420, 1.5, true, null], "c": {"d": "2024-01-01"}})
    );
    assert_eq!(decoded.duplicate_keys, ["a"]);
    assert!(from_yaml(b"a: 1\n---\nb: 2\n", &Limits::default()).is_err());
}

#[test]
fn a_key_that_stands_twice_in_yaml_is_found_by_its_line() {
    let body = b"\na: 1\nspec:\n  foo: x\n  bar: y\n  foo: z\n";
    let found = yaml_duplicate(body, &Limits::default());
    assert_eq!(found.as_deref(), Some("line 6: key \"foo\" already set in map"));
    assert_eq!(yaml_duplicate(b"a: 1\nb: 2\n", &Limits::default()), None);
}

#[test]
fn limits_hold() {
    let limits = Limits { bytes: 100, depth: 3 };
    assert_eq!(from_json(&[b' '; 101], &limits), Err(DecodeError::TooLarge { limit: 100 }));
    assert!(from_json(b"[[[1]]]", &limits).is_ok());
    assert_eq!(from_json(b"[[[[1]]]]", &limits), Err(DecodeError::TooDeep { limit: 3 }));
    assert!(from_yaml(b"[[[[1]]]]", &limits).is_err());
    assert!(from_json(b"{} x", &limits).is_err());
    let bomb = b"a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    assert!(from_yaml(bomb, &Limits::default()).is_err());
}

#[test]
fn unknown_fields_are_named_in_the_words_of_strict_validation() {
    let object = json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "imagee": "x"}], "foo": 1},
        "metadata": {"labels": {"any": "thing"}, "annotation": {}}});
    let unknown = unknown_fields(pod(), &object);
    assert_eq!(unknown, ["metadata.annotation", "spec.containers[0].imagee", "spec.foo"]);
    assert_eq!(
        strict_texts(&unknown[2..], &["a".to_owned()]),
        [r#"unknown field "spec.foo""#, r#"duplicate field "a""#]
    );
}

fn widget() -> Schema {
    from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}}},
            "tags": {"type": "object", "additionalProperties": {"type": "object",
                "properties": {"v": {"type": "string", "default": "d"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}}}}}))
    .unwrap()
}

#[test]
fn pruning_keeps_what_the_schema_keeps() {
    let mut object = json!({"apiVersion": "a/v1", "kind": "W", "metadata": {"name": "n", "odd": 1}, "odd": 1,
        "spec": {"size": 1, "odd": 1, "open": {"x": 1, "known": {"a": "", "b": 1}},
            "template": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x", "odd": 1}, "spec": {"odd": 1}, "odd": 1},
            "tags": {"k": {"v": "1", "w": 1}}, "list": [{"x": "1", "y": 1}]}});
    prune(&widget(), &mut object);
    assert_eq!(
        object,
        json!({"apiVersion": "a/v1", "kind": "W", "metadata": {"name": "n"},
        "spec": {"size": 1, "open": {"x": 1, "known": {"a": ""}},
            "template": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x"}, "spec": {}},
            "tags": {"k": {"v": "1"}}, "list": [{"x": "1"}]}})
    );
}

#[test]
fn zero_values_of_builtin_types_are_absent() {
    let mut object = json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": {"a": null}},
        "spec": {"hostNetwork": false, "nodeName": "", "volumes": [], "enableServiceLinks": false,
            "securityContext": {}, "containers": [{"name": "", "image": ""}]}});
    normalize(pod(), &mut object);
    assert_eq!(
        object,
        json!({"metadata": {"name": "a", "labels": {"a": ""}},
        "spec": {"enableServiceLinks": false, "securityContext": {}, "containers": [{"name": ""}]}})
    );
    // As clients in Go send a port whose target they do not name.
    for target in [json!(0), json!("")] {
        let mut service = json!({"spec": {"ports": [{"port": 80, "targetPort": target}]}});
        let service_type = TypeName::find("core/v1.Service").unwrap().schema();
        normalize(service_type, &mut service);
        assert_eq!(service, json!({"spec": {"ports": [{"port": 80}]}}));
    }
}

#[test]
fn quantities_and_times_have_one_notation() {
    let mut object = json!({"metadata": {"creationTimestamp": "2024-01-02T05:04:05.5+02:00"}, "spec": {"containers": [
        {"name": "c", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": 2}}}]}});
    normalize(pod(), &mut object);
    assert_eq!(
        object,
        json!({"metadata": {"creationTimestamp": "2024-01-02T03:04:05Z"}, "spec": {"containers": [
        {"name": "c", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "2"}}}]}})
    );
    let mut lease = json!({"spec": {"renewTime": "2024-01-02T03:04:05.12Z"}});
    normalize(TypeName::find("coordination/v1.Lease").unwrap().schema(), &mut lease);
    assert_eq!(lease["spec"]["renewTime"], "2024-01-02T03:04:05.120000Z");
}

/// Any JSON, with field names that the schemas know and such that they do not.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9./:-]{0,8}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("status"),
        Just("containers"),
        Just("ports"),
        Just("size"),
        Just("open"),
        Just("tags"),
        Just("list"),
        Just("template"),
        Just("name"),
        Just("image"),
        Just("limits"),
        Just("resources"),
        Just("selector"),
        Just("type"),
        Just("kind"),
        Just("odd"),
        Just("labels"),
        Just("strategy"),
        Just("volumes"),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decoders_survive_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = from_json(&bytes, &Limits::default());
        let _ = from_yaml(&bytes, &Limits::default());
        let mut body = MAGIC.to_vec();
        body.extend_from_slice(&bytes);
        let _ = from_protobuf(&body, &crate::resource::type_of);
        let _ = crate::protobuf::message(pod(), &bytes);
    }

    #[test]
    fn pruning_and_normalizing_twice_is_doing_it_once(object in any_json()) {
        for schema in [pod(), &widget()] {
            let mut once = object.clone();
            prune(schema, &mut once);
            prop_assert!(unknown_fields(schema, &once).is_empty());
            let mut twice = once.clone();
            prune(schema, &mut twice);
            prop_assert_eq!(&once, &twice);
        }
        let mut once = object.clone();
        normalize(pod(), &mut once);
        let mut twice = once.clone();
        normalize(pod(), &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn json_reads_back_what_was_written(object in any_json()) {
        let decoded = from_json(object.to_string().as_bytes(), &Limits::default()).unwrap();
        prop_assert_eq!(decoded.value, object);
    }
}
