//! Field sets: the wire form both ways, their algebra, and the order and cap of entries.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldSet, Managers, PathElement};

fn names(path: &[&str]) -> Vec<PathElement> {
    path.iter().map(|name| PathElement::field(name)).collect()
}

#[test]
fn fields_v1_is_read_and_written_in_all_its_forms() {
    let wire = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {".": {}, "v:\"x.io/y\"": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
            },
            "f:odd": {"i:3": {}},
        },
    });
    let set = FieldSet::from_json(&wire).unwrap();
    assert!(set.contains(&names(&["metadata", "labels"])));
    assert!(!set.contains(&names(&["spec"])));
    assert_eq!(set.to_json(), wire);
}

#[test]
fn unknown_steps_are_dropped_and_malformed_ones_refused() {
    let set = FieldSet::from_json(&json!({"x:later": {}, "f:a": {}})).unwrap();
    assert_eq!(set.to_json(), json!({"f:a": {}}));
    assert!(FieldSet::from_json(&json!({"a": {}})).is_err());
    assert!(FieldSet::from_json(&json!({"k:[": {}})).is_err());
    assert!(FieldSet::from_json(&json!({"i:x": {}})).is_err());
    assert!(FieldSet::from_json(&json!([])).is_err());
}

#[test]
fn a_parent_takes_its_children_only_when_asked() {
    let set = FieldSet::of([&names(&["a", "b"])[..], &names(&["a"]), &names(&["c"])]);
    let parent = FieldSet::of([&names(&["a"])[..]]);
    assert_eq!(set.difference(&parent), FieldSet::of([&names(&["a", "b"])[..], &names(&["c"])]));
    assert_eq!(set.difference_with_children(&parent), FieldSet::of([&names(&["c"])[..]]));
}

#[test]
fn paths_print_as_in_conflicts() {
    let path = [
        PathElement::field("spec"),
        PathElement::Key(vec![("containerPort".into(), json!(80)), ("protocol".into(), json!("TCP"))]),
        PathElement::Value(json!("x")),
        PathElement::Index(2),
    ];
    assert_eq!(super::path_text(&path), ".spec[containerPort=80,protocol=\"TCP\"][=\"x\"][2]");
}

fn entry(manager: &str, operation: &str, time: &str, field: &str) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": {format!("f:{field}"): {}}})
}

#[test]
fn entries_are_ordered_by_operation_time_and_name() {
    let list = json!([
        entry("z", "Update", "2024-01-01T00:00:00Z", "a"),
        entry("b", "Update", "2024-01-02T00:00:00Z", "b"),
        entry("a", "Update", "2024-01-02T00:00:00Z", "c"),
        entry("late", "Apply", "2024-01-03T00:00:00Z", "d"),
    ]);
    let encoded = Managers::decode(Some(&list)).unwrap().encode().unwrap();
    let order: Vec<&str> = encoded.as_array().unwrap().iter().filter_map(|e| e["manager"].as_str()).collect();
    assert_eq!(order, ["late", "z", "a", "b"]);
    assert_eq!(Managers::decode(None).unwrap().encode(), None);
}

#[test]
fn malformed_entries_are_refused_with_the_reason() {
    let refusal = |entry: Value| Managers::decode(Some(&json!([entry]))).unwrap_err().to_string();
    assert_eq!(refusal(json!({"operation": "x"})), "operation must be `Apply` or `Update`");
    assert_eq!(refusal(json!({"operation": "Apply"})), "apiVersion must not be empty");
    assert_eq!(
        refusal(json!({"operation": "Apply", "apiVersion": "v1"})),
        "missing fieldsType in managed fields entry 0"
    );
}

#[test]
fn the_oldest_update_managers_beyond_ten_are_merged() {
    let entries: Vec<Value> = (0..13)
        .map(|i| entry(&format!("m{i:02}"), "Update", &format!("2024-01-01T00:00:{i:02}Z"), &format!("f{i}")))
        .collect();
    let mut managers = Managers::decode(Some(&Value::Array(entries))).unwrap();
    managers.cap_updates();
    assert_eq!(managers.owners.len(), 10);
    let ancient = managers.owners.iter().find(|(id, _)| id.manager == "ancient-changes").unwrap().1;
    assert_eq!(ancient.fields.paths().len(), 4);
    assert_eq!(ancient.time.as_deref(), Some("2024-01-01T00:00:03Z"));
}

fn sets() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let paths: Vec<_> = paths.iter().map(|p| names(p)).collect();
        FieldSet::of(paths.iter().map(Vec::as_slice))
    })
}

proptest! {
    #[test]
    fn the_wire_form_loses_nothing(set in sets()) {
        prop_assert_eq!(FieldSet::from_json(&set.to_json()).unwrap(), set);
    }

    #[test]
    fn the_algebra_is_that_of_sets_of_paths(a in sets(), b in sets()) {
        let (pa, pb) = (a.paths(), b.paths());
        let sorted = |set: FieldSet| { let mut p = set.paths(); p.sort(); p };
        let expect = |keep: &dyn Fn(&Vec<PathElement>) -> bool| {
            let mut all: Vec<_> = pa.iter().chain(&pb).filter(|p| keep(p)).cloned().collect();
            all.sort();
            all.dedup();
            all
        };
        prop_assert_eq!(sorted(a.union(&b)), expect(&|_| true));
        prop_assert_eq!(sorted(a.intersection(&b)), expect(&|p| pa.contains(p) && pb.contains(p)));
        prop_assert_eq!(sorted(a.difference(&b)), expect(&|p| pa.contains(p) && !pb.contains(p)));
    }
}
