//! Server-side apply against what upstream does: owners, conflicts, removals, and the laws that hold for any objects.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Writer, apply, update_managed};
use crate::schema::{ListType, MapType, Property, Schema, SchemaRef, Type};
use crate::status::Status;

/// A schema in short: a type name, `{fields}`, `["*", values]`, `["list", item]`, `["set", item]`, `["map", keys, item]`.
fn schema(short: &Value) -> Schema {
    match short {
        Value::String(name) => Schema::of(match name.as_str() {
            "int" => Type::Integer,
            "string" => Type::String,
            _ => Type::Any,
        }),
        Value::Object(fields) => {
            let property = |(name, short): (&String, &Value)| {
                let mut property = Property::custom(schema(short));
                if name == "protocol" {
                    property.default = Some(Arc::new(json!("TCP")));
                }
                (Arc::from(name.as_str()), property)
            };
            let map = if fields.contains_key("matchLabels") { MapType::Atomic } else { MapType::Granular };
            Schema { map, properties: fields.iter().map(property).collect(), ..Schema::of(Type::Object) }
        }
        Value::Array(parts) => {
            let inner = Some(SchemaRef::from(schema(parts.last().unwrap())));
            let list = match parts[0].as_str().unwrap() {
                "*" => return Schema { additional: inner, ..Schema::of(Type::Object) },
                "set" => ListType::Set,
                "map" => {
                    let keys = parts[1].as_array().unwrap().iter().map(|k| Arc::from(k.as_str().unwrap()));
                    ListType::Map { keys: keys.collect() }
                }
                _ => ListType::Atomic,
            };
            Schema { list, items: inner, ..Schema::of(Type::Array) }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Schema::default(),
    }
}

fn deployment() -> Schema {
    schema(&json!({
        "apiVersion": "string", "kind": "string",
        "metadata": {
            "name": "string", "namespace": "string", "uid": "string", "generation": "int",
            "labels": ["*", "string"], "annotations": ["*", "string"], "finalizers": ["set", "string"],
        },
        "spec": {
            "replicas": "int",
            "selector": {"matchLabels": ["*", "string"]},
            "paused": "any",
            "containers": ["map", ["name"], {
                "name": "string", "image": "string", "args": ["list", "string"],
                "env": ["map", ["name"], {"name": "string", "value": "string"}],
                "ports": ["map", ["containerPort", "protocol"], {"containerPort": "int", "protocol": "string", "hostPort": "int"}],
            }],
        },
        "status": {"replicas": "int"},
    }))
}

fn writer<'a>(manager: &'a str, second: i64) -> Writer<'a> {
    Writer {
        manager,
        subresource: "",
        api_version: "apps/v1",
        has_status: true,
        now: jiff::Timestamp::from_second(1_700_000_000 + second).unwrap(),
    }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

fn applied(live: Option<&Value>, config: Value, manager: &str, second: i64) -> Value {
    apply(&deployment(), live, &config, &writer(manager, second), false).unwrap()
}

fn refused(live: Option<&Value>, config: Value, manager: &str) -> Status {
    apply(&deployment(), live, &config, &writer(manager, 9), false).unwrap_err()
}

fn created(spec: Value, manager: &str) -> Value {
    let mut new = object(spec);
    update_managed(&deployment(), None, &mut new, &writer(manager, 0));
    new
}

fn updated(live: &Value, writer: &Writer<'_>, change: impl FnOnce(&mut Value)) -> Value {
    let mut new = live.clone();
    change(&mut new);
    update_managed(&deployment(), Some(live), &mut new, writer);
    new
}

/// `manager operation` to its fieldsV1.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let named = entries.into_iter().map(|entry| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (format!("{} {}", text("manager"), text("operation")), entry["fieldsV1"].clone())
    });
    Value::Object(named.collect::<Map<_, _>>())
}

fn spec(object: &Value) -> Value {
    object["spec"].clone()
}

#[test]
fn the_first_apply_creates_and_owns_exactly_what_it_names() {
    let config = object(json!({
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": "a", "args": ["x"], "ports": [{"containerPort": 80}]}],
    }));
    let mut labelled = config.clone();
    labelled["metadata"]["labels"] = json!({"app": "web"});
    let live = applied(None, labelled, "flux", 0);
    assert_eq!(
        live["metadata"]["managedFields"],
        json!([{
            "manager": "flux", "operation": "Apply", "apiVersion": "apps/v1", "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:containers": {"k:{\"name\":\"a\"}": {
                        ".": {}, "f:name": {}, "f:args": {},
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    }},
                },
            },
        }])
    );
    assert_eq!(spec(&live), spec(&config));
}

#[test]
fn one_conflict_has_upstreams_words_and_cause() {
    let live = created(json!({"replicas": 1}), "kubectl-client-side-apply");
    let status = refused(Some(&live), object(json!({"replicas": 3})), "helm");
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    assert_eq!(status.code, 409);
    let json = status.to_json();
    assert_eq!(json["reason"], "Conflict");
    assert_eq!(
        json["details"]["causes"],
        json!([{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"kubectl-client-side-apply\" using apps/v1",
            "field": ".spec.replicas",
        }])
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let live =
        applied(None, object(json!({"replicas": 1, "containers": [{"name": "a", "image": "x"}]})), "helm", 0);
    let mut scale = writer("hpa", 1);
    scale.subresource = "scale";
    let live = updated(&live, &scale, |o| o["spec"]["replicas"] = json!(5));
    let config = object(json!({"replicas": 2, "containers": [{"name": "a", "image": "y"}]}));
    assert_eq!(
        refused(Some(&live), config, "flux").message,
        "Apply failed with 2 conflicts: conflicts with \"helm\":\n- .spec.containers[name=\"a\"].image\n\
         conflicts with \"hpa\" with subresource \"scale\" using apps/v1:\n- .spec.replicas"
    );
}

#[test]
fn force_takes_the_field_from_its_owner() {
    let live = applied(None, object(json!({"replicas": 1, "paused": true})), "a", 0);
    let config = object(json!({"replicas": 3}));
    let next = apply(&deployment(), Some(&live), &config, &writer("b", 1), true).unwrap();
    assert_eq!(spec(&next), json!({"replicas": 3, "paused": true}));
    assert_eq!(
        owners(&next),
        json!({"a Apply": {"f:spec": {"f:paused": {}}}, "b Apply": {"f:spec": {"f:replicas": {}}}})
    );
}

#[test]
fn the_same_value_is_shared_and_conflicts_with_nobody() {
    let live = applied(None, object(json!({"replicas": 1})), "a", 0);
    let next = applied(Some(&live), object(json!({"replicas": 1})), "b", 1);
    let both = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(owners(&next), json!({"a Apply": both, "b Apply": both}));
    // One of two owners lets go: the field stays.
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    let next = applied(Some(&next), nothing.clone(), "a", 2);
    assert_eq!(spec(&next), json!({"replicas": 1}));
    // The last one does: it goes.
    let next = applied(Some(&next), nothing, "b", 3);
    assert_eq!(spec(&next), Value::Null);
    assert_eq!(owners(&next), json!({}));
}

#[test]
fn a_field_no_longer_applied_stays_when_an_update_owns_it_too() {
    let live =
        applied(None, object(json!({"replicas": 1, "containers": [{"name": "a"}, {"name": "b"}]})), "a", 0);
    let live = updated(&live, &writer("editor", 1), |o| o["spec"]["replicas"] = json!(4));
    let next = applied(Some(&live), object(json!({"containers": [{"name": "b"}]})), "a", 2);
    assert_eq!(spec(&next), json!({"replicas": 4, "containers": [{"name": "b"}]}));
}

#[test]
fn a_list_element_that_others_added_to_stays_with_their_fields() {
    let live =
        applied(None, object(json!({"containers": [{"name": "a", "image": "x"}, {"name": "b"}]})), "a", 0);
    let live = applied(Some(&live), object(json!({"containers": [{"name": "a", "args": ["1"]}]})), "b", 1);
    let next = applied(Some(&live), object(json!({"containers": [{"name": "b"}]})), "a", 2);
    assert_eq!(spec(&next), json!({"containers": [{"name": "a", "args": ["1"]}, {"name": "b"}]}));
}

#[test]
fn applying_again_changes_nothing_not_even_the_time() {
    let config =
        object(json!({"replicas": 1, "containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}));
    let live = applied(None, config.clone(), "a", 0);
    assert_eq!(applied(Some(&live), config.clone(), "a", 60), live);
    // Values that the server filled in do not count as a change.
    let mut defaulted = live.clone();
    defaulted["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    defaulted["spec"]["containers"][0]["image"] = json!("filled-in");
    assert_eq!(applied(Some(&defaulted), config, "a", 60), defaulted);
}

#[test]
fn two_protocols_on_one_port_are_two_elements() {
    let ports = json!([{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]);
    let config = object(json!({"containers": [{"name": "a", "ports": ports}]}));
    let live = applied(None, config.clone(), "a", 0);
    assert_eq!(spec(&live), spec(&config));
    let without_udp = object(json!({"containers": [{"name": "a", "ports": [{"containerPort": 53}]}]}));
    let next = applied(Some(&live), without_udp, "a", 1);
    assert_eq!(next["spec"]["containers"][0]["ports"].as_array().unwrap().len(), 1);
}

#[test]
fn atomic_lists_and_maps_are_replaced_and_owned_whole() {
    let live = applied(None, object(json!({"containers": [{"name": "a", "args": ["1", "2"]}]})), "a", 0);
    let config = object(json!({"containers": [{"name": "a", "args": ["3"]}]}));
    assert!(refused(Some(&live), config.clone(), "b").message.ends_with(".spec.containers[name=\"a\"].args"));
    let next = applied(Some(&live), config.clone(), "a", 1);
    assert_eq!(spec(&next), spec(&config));
    let live = applied(None, object(json!({"selector": {"matchLabels": {"a": "1"}}})), "a", 0);
    let next = applied(Some(&live), object(json!({"selector": {"matchLabels": {"b": "2"}}})), "a", 1);
    assert_eq!(spec(&next), json!({"selector": {"matchLabels": {"b": "2"}}}));
}

#[test]
fn elements_keep_the_applied_order_with_foreign_ones_between() {
    let names = |names: &[&str]| {
        object(json!({"containers": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()}))
    };
    let live = applied(None, names(&["a", "b", "c"]), "one", 0);
    let next = applied(Some(&live), names(&["d", "c", "a"]), "two", 1);
    let order: Vec<&str> =
        next["spec"]["containers"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(order, ["b", "d", "c", "a"]);
}

#[test]
fn duplicates_are_refused_in_a_configuration_and_tolerated_in_the_live_object() {
    let twice = json!([{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]);
    let config = object(json!({"containers": [{"name": "a", "env": twice}]}));
    assert_eq!(
        refused(None, config.clone(), "a").message,
        "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): \
         .spec.containers[name=\"a\"].env: duplicate entries for key [name=\"X\"]"
    );
    let live = created(spec(&config), "kubectl-create");
    let next = applied(Some(&live), object(json!({"replicas": 2})), "a", 1);
    assert_eq!(next["spec"]["containers"][0]["env"], twice);
    let one = object(json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "3"}]}]}));
    let next = apply(&deployment(), Some(&live), &one, &writer("a", 1), true).unwrap();
    assert_eq!(next["spec"]["containers"][0]["env"], json!([{"name": "X", "value": "3"}]));
}

#[test]
fn a_configuration_is_refused_for_what_it_may_not_hold() {
    let mut listed = object(json!({}));
    listed["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(None, listed, "a").message, "metadata.managedFields must be nil");
    let mut other = object(json!({}));
    other["apiVersion"] = json!("apps/v1beta1");
    assert_eq!(
        refused(None, other, "a").message,
        "Incorrect version specified in apply patch. Specified patch version: apps/v1beta1, expected: apps/v1"
    );
    assert_eq!(
        refused(None, object(json!({"replica": 1, "replicas": "2"})), "a").message,
        "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): errors:\n  .spec.replica: field \
         not declared in schema\n  .spec.replicas: expected numeric (int or float), got string"
    );
}

#[test]
fn updates_take_what_they_change_and_drop_what_is_gone() {
    let live = created(json!({"replicas": 1, "paused": true}), "kubectl-create");
    assert_eq!(
        owners(&live),
        json!({"kubectl-create Update": {"f:spec": {".": {}, "f:replicas": {}, "f:paused": {}}}})
    );
    let next = updated(&live, &writer("editor", 5), |o| {
        o["spec"]["replicas"] = json!(2);
        o["spec"].as_object_mut().unwrap().remove("paused");
    });
    assert_eq!(
        owners(&next),
        json!({
            "kubectl-create Update": {"f:spec": {}},
            "editor Update": {"f:spec": {"f:replicas": {}}},
        })
    );
    // Nothing changed: nothing is written, times included.
    assert_eq!(updated(&next, &writer("third", 9), |_| {}), next);
    // Only what the server sets changed.
    assert_eq!(
        owners(&updated(&next, &writer("third", 9), |o| o["metadata"]["generation"] = json!(7))),
        owners(&next)
    );
}

#[test]
fn status_is_owned_through_its_subresource_only() {
    let mut status = writer("kubelet", 3);
    status.subresource = "status";
    let live = created(json!({"replicas": 1}), "kubectl-create");
    let next = updated(&live, &status, |o| o["status"] = json!({"replicas": 1}));
    let entry = &next["metadata"]["managedFields"][1];
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {".": {}, "f:replicas": {}}}));
    let mut config = object(json!({"replicas": 1}));
    config["status"] = json!({"replicas": 9});
    let mine = applied(Some(&next), config, "a", 4);
    assert_eq!(owners(&mine)["a Apply"], json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn objects_without_owners_get_one_at_their_first_apply() {
    let mut live = object(json!({"replicas": 1, "paused": true}));
    live["metadata"]["uid"] = json!("u");
    assert_eq!(owners(&updated(&live, &writer("x", 1), |o| o["spec"]["replicas"] = json!(2))), json!({}));
    let status = refused(Some(&live), object(json!({"replicas": 3})), "a");
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    let next = applied(Some(&live), object(json!({"replicas": 1})), "a", 1);
    assert_eq!(
        owners(&next)["before-first-apply Update"]["f:spec"],
        json!({".": {}, "f:replicas": {}, "f:paused": {}})
    );
}

#[test]
fn managed_fields_are_reset_on_request_and_otherwise_survive_clients_that_drop_them() {
    let live = created(json!({"replicas": 1}), "a");
    for reset in [json!([]), json!([{}])] {
        let next = updated(&live, &writer("b", 1), |o| o["metadata"]["managedFields"] = reset.clone());
        assert_eq!(next["metadata"].get("managedFields"), None);
    }
    let next = updated(&live, &writer("b", 1), |o| {
        o["metadata"].as_object_mut().unwrap().remove("managedFields");
    });
    assert_eq!(next, live);
    let next =
        updated(&live, &writer("b", 1), |o| o["metadata"]["managedFields"] = json!([{"operation": "odd"}]));
    assert_eq!(next, live);
}

#[test]
fn kubectl_takes_over_what_client_side_apply_had_set() {
    let last = object(json!({"replicas": 1, "containers": [{"name": "a", "image": "x"}]}));
    let mut new = last.clone();
    new["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    update_managed(&deployment(), None, &mut new, &writer("kubectl-client-side-apply", 0));
    let config = object(json!({"replicas": 1, "containers": [{"name": "a", "image": "y"}]}));
    // Another manager meets the conflict, kubectl does not.
    assert_eq!(refused(Some(&new), config.clone(), "flux").code, 409);
    let next = applied(Some(&new), config.clone(), "kubectl", 1);
    assert_eq!(spec(&next), spec(&config));
    let annotation =
        next["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), config);
    // What was changed since is still a conflict.
    let edited = updated(&new, &writer("editor", 1), |o| o["spec"]["replicas"] = json!(7));
    let status = refused(
        Some(&edited),
        object(json!({"replicas": 2, "containers": [{"name": "a", "image": "y"}]})),
        "kubectl",
    );
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"editor\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn a_null_is_owned_conflicts_and_is_not_stored() {
    let live = created(json!({"replicas": 1}), "x");
    assert_eq!(refused(Some(&live), object(json!({"replicas": null})), "a").code, 409);
    let config = object(json!({"replicas": null, "paused": true}));
    let next = apply(&deployment(), Some(&live), &config, &writer("a", 1), true).unwrap();
    assert_eq!(spec(&next), json!({"paused": true}));
    assert_eq!(owners(&next)["a Apply"]["f:spec"], json!({"f:replicas": {}, "f:paused": {}}));
    assert_eq!(applied(Some(&next), config, "a", 2), next);
}

#[test]
fn a_field_that_became_atomic_is_owned_whole() {
    let mut live = created(json!({"selector": {"matchLabels": {"a": "1"}}}), "x");
    live["metadata"]["managedFields"][0]["fieldsV1"] =
        json!({"f:spec": {"f:selector": {"f:matchLabels": {".": {}, "f:a": {}}}}});
    let next = applied(Some(&live), object(json!({"replicas": 1})), "a", 1);
    assert_eq!(owners(&next)["x Update"], json!({"f:spec": {"f:selector": {}}}));
}

#[test]
fn values_without_a_schema_are_granular_maps_and_whole_lists() {
    let anything = Schema::anything();
    let config = json!({"apiVersion": "apps/v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"m": {"k": [1, 2]}}});
    let live = apply(anything, None, &config, &writer("a", 0), false).unwrap();
    assert_eq!(owners(&live)["a Apply"]["f:spec"], json!({".": {}, "f:m": {".": {}, "f:k": {}}}));
}

#[test]
fn built_in_types_bring_their_keys_and_defaults() {
    let service = crate::schema::TypeName::find("core/v1.Service").unwrap().schema();
    let config = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "dns"},
        "spec": {"ports": [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]},
    });
    let by = |second| Writer { api_version: "v1", ..writer("a", second) };
    let live = apply(service, None, &config, &by(0), false).unwrap();
    let keys: Vec<String> =
        owners(&live)["a Apply"]["f:spec"]["f:ports"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["k:{\"port\":53,\"protocol\":\"TCP\"}", "k:{\"port\":53,\"protocol\":\"UDP\"}"]);
    let mut defaulted = live.clone();
    defaulted["spec"]["ports"][1]["protocol"] = json!("TCP");
    assert_eq!(apply(service, Some(&defaulted), &config, &by(9), false).unwrap(), defaulted);
}

fn configs() -> impl Strategy<Value = Value> {
    let container =
        (prop::sample::select(vec!["a", "b", "c"]), prop::option::of(0..3), prop::option::of(0..3));
    let containers = prop::collection::btree_map(container.clone().prop_map(|c| c.0), container, 0..3);
    (prop::option::of(0..3), containers, prop::option::of(0..3)).prop_map(|(replicas, containers, label)| {
        let mut config = object(json!({}));
        if let Some(replicas) = replicas {
            config["spec"]["replicas"] = json!(replicas);
        }
        if let Some(label) = label {
            config["metadata"]["labels"] = json!({format!("l{label}"): "v"});
        }
        for (name, (_, image, args)) in containers {
            let mut item = json!({"name": name});
            if let Some(image) = image {
                item["image"] = json!(format!("i{image}"));
            }
            if let Some(args) = args {
                item["args"] = json!([format!("x{args}")]);
            }
            let list = config["spec"].as_object_mut().unwrap().entry("containers").or_insert(json!([]));
            list.as_array_mut().unwrap().push(item);
        }
        config
    })
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(first in configs(), second in configs(), other in configs()) {
        let live = applied(None, first, "a", 0);
        let live = apply(&deployment(), Some(&live), &other, &writer("b", 1), true).unwrap();
        let once = apply(&deployment(), Some(&live), &second, &writer("a", 2), true).unwrap();
        let twice = apply(&deployment(), Some(&once), &second, &writer("a", 3), true).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn every_applied_field_has_its_value_and_the_rest_is_gone_when_nobody_owns_it(first in configs(), second in configs()) {
        let live = applied(None, first, "a", 0);
        let next = applied(Some(&live), second.clone(), "a", 1);
        let fresh = applied(None, second, "a", 1);
        prop_assert_eq!(owners(&next), owners(&fresh));
        let sorted = |o: &Value| {
            let mut list = o["spec"]["containers"].as_array().cloned().unwrap_or_default();
            list.sort_by_key(|c| c["name"].as_str().map(str::to_owned));
            (list, o["spec"]["replicas"].clone(), o["metadata"]["labels"].clone())
        };
        prop_assert_eq!(sorted(&next), sorted(&fresh));
    }

    #[test]
    fn two_appliers_of_different_fields_commute(config in configs(), replicas in 0..5) {
        let mut left = config;
        left["spec"].as_object_mut().unwrap().remove("replicas");
        let right = object(json!({"replicas": replicas}));
        let base = applied(None, object(json!({"paused": false})), "base", 0);
        let one = applied(Some(&applied(Some(&base), left.clone(), "l", 1)), right.clone(), "r", 1);
        let two = applied(Some(&applied(Some(&base), right, "r", 1)), left, "l", 1);
        prop_assert_eq!(one, two);
    }
}

#[test]
fn a_create_owns_what_differs_from_the_empty_object_of_its_type() {
    let schema = crate::schema::TypeName::find("networking/v1.NetworkPolicy").unwrap().schema();
    let mut new = json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    update_managed(schema, None, &mut new, &Writer { api_version: "networking.k8s.io/v1", ..writer("a", 0) });
    // As kube-apiserver: the structs of a type are there before anybody writes.
    assert_eq!(new["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:policyTypes": {}}}));
}
