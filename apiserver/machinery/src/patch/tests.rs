//! Patches: the examples of the RFCs, every directive of strategic merge, and the bounds.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{MAX_DEPTH, MAX_OPERATIONS, json as json_patch, merge, strategic};
use crate::schema::{Patch, Property, Schema, SchemaRef, Type};

fn property(schema: Schema, patch: Option<Patch>) -> Property {
    Property { patch: patch.map(Arc::new), ..Property::custom(schema) }
}

fn object(properties: Vec<(&str, Property)>) -> Schema {
    Schema {
        properties: properties.into_iter().map(|(n, p)| (Arc::from(n), p)).collect(),
        ..Schema::of(Type::Object)
    }
}

fn list(item: Schema) -> Schema {
    Schema { items: Some(SchemaRef::from(item)), ..Schema::of(Type::Array) }
}

fn merging(key: Option<&str>) -> Option<Patch> {
    Some(Patch { merge: true, merge_key: key.map(Arc::from), ..Patch::default() })
}

/// A pod-like type: containers by name, ports by containerPort, finalizers merged, args replaced.
fn pod() -> Schema {
    let port = object(vec![
        ("containerPort", property(Schema::of(Type::Integer), None)),
        ("protocol", property(Schema::of(Type::String), None)),
    ]);
    let container = object(vec![
        ("name", property(Schema::of(Type::String), None)),
        ("args", property(list(Schema::of(Type::String)), None)),
        ("ports", property(list(port), merging(Some("containerPort")))),
    ]);
    let replaced = Some(Patch { replace: true, ..Patch::default() });
    let template = object(vec![("a", property(Schema::of(Type::String), None))]);
    let spec = object(vec![
        ("containers", property(list(container), merging(Some("name")))),
        (
            "strategy",
            property(
                Schema { additional: Some(SchemaRef::from(Schema::default())), ..Schema::of(Type::Object) },
                None,
            ),
        ),
        ("whole", property(template, replaced)),
    ]);
    let metadata = object(vec![("finalizers", property(list(Schema::of(Type::String)), merging(None)))]);
    object(vec![("metadata", property(metadata, None)), ("spec", property(spec, None))])
}

fn patched(current: Value, patch: Value) -> Value {
    strategic(&pod(), &current, &patch).unwrap()
}

fn refused(current: Value, patch: Value) -> String {
    strategic(&pod(), &current, &patch).unwrap_err().message
}

fn containers(items: Value) -> Value {
    json!({"spec": {"containers": items}})
}

#[test]
fn a_merge_patch_follows_rfc_7386() {
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": "foo"}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
    ];
    for (current, patch, wanted) in cases {
        assert_eq!(merge(&current, &patch).unwrap(), wanted);
    }
    assert_eq!(merge(&json!({}), &json!([])).unwrap_err().code, 400);
}

#[test]
fn a_json_patch_applies_all_of_its_operations_or_none() {
    let current = json!({"a": {"b": [1, 2]}, "c": "d"});
    let patch = json!([
        {"op": "test", "path": "/c", "value": "d"},
        {"op": "test", "path": "/absent", "value": null},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "remove", "path": "/a/b/0"},
        {"op": "copy", "from": "/a/b", "path": "/e"},
        {"op": "move", "from": "/c", "path": "/f~1g"},
        {"op": "replace", "path": "/e/0", "value": "x"},
    ]);
    assert_eq!(json_patch(&current, &patch).unwrap(), json!({"a": {"b": [2, 3]}, "e": ["x", 3], "f/g": "d"}));
    let failing = json!([{"op": "test", "path": "/c", "value": "other"}]);
    let status = json_patch(&current, &failing).unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.starts_with("the server rejected our request due to an error in our request"));
    assert_eq!(json_patch(&current, &json!([{"op": "jump"}])).unwrap_err().code, 400);
    assert_eq!(json_patch(&current, &json!({})).unwrap_err().code, 400);
}

#[test]
fn a_json_patch_is_bounded_in_operations_copies_and_depth() {
    let many: Vec<Value> =
        (0..=MAX_OPERATIONS).map(|_| json!({"op": "add", "path": "/a", "value": 1})).collect();
    assert_eq!(json_patch(&json!({}), &Value::Array(many)).unwrap_err().code, 413);

    let mut doubling = vec![json!({"op": "add", "path": "/a", "value": ["x".repeat(1024)]})];
    doubling.extend((0..20).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})));
    let status = json_patch(&json!({}), &Value::Array(doubling)).unwrap_err();
    assert_eq!(status.code, 422);

    let mut nested = vec![json!({"op": "add", "path": "/a", "value": {}})];
    let mut path = "/a".to_owned();
    for _ in 0..MAX_DEPTH {
        path.push_str("/a");
        nested.push(json!({"op": "add", "path": path, "value": {}}));
    }
    assert!(json_patch(&json!({}), &Value::Array(nested)).unwrap_err().message.contains("nested deeper"));
}

#[test]
fn keyed_lists_merge_by_key_and_others_are_replaced() {
    let current = containers(json!([{"name": "a", "args": ["1", "2"]}, {"name": "b"}]));
    let next = patched(current, containers(json!([{"name": "a", "args": ["3"]}, {"name": "c"}])));
    // What is new stands before the server's own items, as upstream has it.
    assert_eq!(next, containers(json!([{"name": "a", "args": ["3"]}, {"name": "c"}, {"name": "b"}])));
    let finalizers = |items: Value| json!({"metadata": {"finalizers": items}});
    assert_eq!(
        patched(finalizers(json!(["a", "b"])), finalizers(json!(["b", "c"]))),
        finalizers(json!(["a", "b", "c"]))
    );
}

#[test]
fn two_protocols_on_one_port_merge_as_upstream_does() {
    let ports = |items: Value| containers(json!([{"name": "a", "ports": items}]));
    let current =
        ports(json!([{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]));
    let next = patched(current, ports(json!([{"containerPort": 53, "protocol": "SCTP"}])));
    assert_eq!(
        next,
        ports(json!([{"containerPort": 53, "protocol": "SCTP"}, {"containerPort": 53, "protocol": "UDP"}]))
    );
}

#[test]
fn null_deletes_and_is_never_stored() {
    let current = json!({"spec": {"strategy": {"type": "x"}, "containers": [{"name": "a"}]}});
    assert_eq!(
        patched(current.clone(), json!({"spec": {"strategy": null}})),
        containers(json!([{"name": "a"}]))
    );
    let next =
        patched(json!({}), json!({"spec": {"strategy": {"type": null, "rolling": {"x": null, "y": 1}}}}));
    assert_eq!(next, json!({"spec": {"strategy": {"rolling": {"y": 1}}}}));
}

#[test]
fn the_patch_directive_deletes_replaces_and_refuses() {
    let current = containers(json!([{"name": "a"}, {"name": "b", "args": ["1"]}]));
    let next = patched(current.clone(), containers(json!([{"name": "a", "$patch": "delete"}])));
    assert_eq!(next, containers(json!([{"name": "b", "args": ["1"]}])));
    let next = patched(current.clone(), containers(json!([{"name": "c"}, {"$patch": "replace"}])));
    assert_eq!(next, containers(json!([{"name": "c"}])));
    let next = patched(current.clone(), json!({"spec": {"$patch": "replace", "strategy": {"type": "x"}}}));
    assert_eq!(next, json!({"spec": {"strategy": {"type": "x"}}}));
    assert_eq!(patched(current.clone(), json!({"spec": {"$patch": "delete"}})), json!({"spec": {}}));
    assert_eq!(
        patched(json!({}), containers(json!([{"name": "a", "$patch": "delete"}]))),
        containers(json!([]))
    );
    assert_eq!(
        refused(current.clone(), json!({"spec": {"$patch": "shake", "x": 1}})),
        "unknown patch type: shake in map: map[$patch:shake x:1]"
    );
    assert_eq!(
        refused(current, containers(json!([{"image": "x"}]))),
        "map: map[image:x] does not contain declared merge key: name"
    );
}

#[test]
fn a_replaced_field_is_taken_whole() {
    let next = patched(json!({"spec": {"whole": {"a": "1"}}}), json!({"spec": {"whole": {"b": "2"}}}));
    assert_eq!(next, json!({"spec": {"whole": {"b": "2"}}}));
}

#[test]
fn retain_keys_clears_what_it_does_not_name() {
    let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let next = patched(
        current.clone(),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    );
    assert_eq!(next, json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let foreign = json!({"spec": {"strategy": {"$retainKeys": ["type"], "other": 1}}});
    assert_eq!(refused(current, foreign), "invalid patch format of retainKeys");
}

#[test]
fn scalars_are_deleted_from_a_list_by_value() {
    let current = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let next = patched(
        current,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}}),
    );
    assert_eq!(next, json!({"metadata": {"finalizers": ["d", "a", "c"]}}));
    let next =
        patched(json!({"metadata": {}}), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}));
    assert_eq!(next, json!({"metadata": {}}));
}

#[test]
fn set_element_order_orders_the_list_and_keeps_the_servers_items_between() {
    let current = containers(json!([{"name": "a"}, {"name": "sidecar"}, {"name": "b"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
        "containers": [{"name": "c", "args": ["1"]}],
    }});
    assert_eq!(
        patched(current.clone(), patch),
        containers(json!([{"name": "sidecar"}, {"name": "b"}, {"name": "a"}, {"name": "c", "args": ["1"]}]))
    );
    let order_only = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    let next = patched(containers(json!([{"name": "a"}, {"name": "b"}])), order_only);
    assert_eq!(next, containers(json!([{"name": "b"}, {"name": "a"}])));
    let wrong = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "b"}],
    }});
    assert!(refused(current, wrong).starts_with("The order in patch list:"));
}

#[test]
fn directives_for_something_new_leave_no_trace() {
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "$setElementOrder/ports": [{"containerPort": 1}], "ports": [{"containerPort": 1}]}],
        "strategy": {"$retainKeys": ["type"], "type": "x"},
    }});
    let wanted = json!({"spec": {
        "containers": [{"name": "a", "ports": [{"containerPort": 1}]}],
        "strategy": {"type": "x"},
    }});
    assert_eq!(patched(json!({}), patch.clone()), wanted);
    assert_eq!(patched(json!({"spec": {}}), patch), wanted);
}

#[test]
fn built_in_types_bring_their_merge_keys() {
    let deployment = crate::schema::TypeName::find("apps/v1.Deployment").unwrap().schema();
    let current = json!({"spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"spec": {
            "containers": [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }},
    }});
    let patch = json!({"spec": {
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        "template": {"spec": {
            "containers": [{"name": "a", "image": "y", "env": [{"name": "F", "value": "2"}]}],
            "volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}],
        }},
    }});
    assert_eq!(
        strategic(deployment, &current, &patch).unwrap(),
        json!({"spec": {
            "strategy": {"type": "Recreate"},
            "template": {"spec": {
                "containers": [
                    {"name": "a", "image": "y", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
                ],
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            }},
        }})
    );
}
