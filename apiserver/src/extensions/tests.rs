//! Definitions: what is refused and in which words, whose names are accepted, and what is served.

use std::path::Path;

use serde_json::{Value, json};

use super::definition::set_defaults;
use super::names::{Taken, settle};
use super::{is_condition_true, validate, versions};

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1}, "color": {"type": "string"},
        }}}}},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "uid": "u", "generation": 1},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
            "versions": [version("v1", true)],
        },
        "status": {"conditions": [], "acceptedNames": {}, "storedVersions": ["v1"]},
    })
}

/// The refusals of a definition changed at a place.
fn refused(pointer: &str, value: Value) -> Vec<String> {
    let mut changed = definition();
    match changed.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[field] = value;
        }
    }
    validate::definition(&changed, None).iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_definition_is_not_refused() {
    assert_eq!(validate::definition(&definition(), None), []);
}

#[test]
fn a_bad_definition_is_refused_in_upstreams_words() {
    let first = "/spec/versions/0";
    let cases = [
        (
            "/metadata/name".to_owned(),
            json!("others.example.com"),
            "metadata.name: Invalid value: \"others.example.com\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "/spec/scope".to_owned(),
            json!("Planet"),
            "spec.scope: Unsupported value: \"Planet\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            "/spec/names/listKind".to_owned(),
            json!("Thing"),
            "spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same",
        ),
        ("/spec/names/kind".to_owned(), json!(""), "spec.names.kind: Required value"),
        (
            "/status/storedVersions".to_owned(),
            json!([]),
            "status.storedVersions: Invalid value: []: must have at least one stored version",
        ),
        (
            "/spec/preserveUnknownFields".to_owned(),
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            format!("{first}/schema"),
            json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            format!("{first}/additionalPrinterColumns"),
            json!([{"name": "A", "type": "text", "jsonPath": ".spec.a"}]),
            "spec.versions[0].additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            format!("{first}/subresources"),
            json!({"scale": {"specReplicasPath": ".status.replicas", "statusReplicasPath": ".status.replicas"}}),
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.replicas\": should be a json path under .spec",
        ),
        (
            format!("{first}/selectableFields"),
            json!([{"jsonPath": ".spec.shape"}]),
            "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.shape\": is an invalid path: does not refer to a valid field",
        ),
    ];
    for (pointer, value, wanted) in cases {
        assert_eq!(refused(&pointer, value), [wanted], "{pointer}");
    }
    let twice = refused("/spec/versions", json!([version("v1", true), version("v1", true)]));
    assert!(twice.iter().any(|e| e.ends_with("must contain unique version names")), "{twice:?}");
    assert!(
        twice.iter().any(|e| e.ends_with("must have exactly one version marked as storage version")),
        "{twice:?}"
    );
    let gone = refused("/status/storedVersions", json!(["v1alpha1", "v1"]));
    assert!(gone[0].starts_with("status.storedVersions[0]: Invalid value: \"v1alpha1\": missing from spec.versions; v1alpha1 was previously a storage version"));
    assert!(
        refused("/spec/group", json!("gateway.networking.k8s.io"))
            .iter()
            .any(|e| e.contains("protected groups must have approval annotation"))
    );
    let rule = json!([{"rule": "self.spec.size > 1"}]);
    let rules = refused("/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations", rule);
    assert!(rules[0].starts_with("spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: \"self.spec.size > 1\": compilation failed: undefined field 'size'"), "{rules:?}");
}

#[test]
fn group_names_and_scope_stay() {
    let mut old = definition();
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Other");
    let said: Vec<String> = validate::definition(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Other\": field is immutable"
        ]
    );
}

#[test]
fn free_names_are_accepted_and_establish_the_definition() {
    let mut settled = definition();
    settle(&mut settled, &Taken::default(), "2024-01-01T00:00:00Z");
    assert_eq!(settled["status"]["acceptedNames"], settled["spec"]["names"]);
    assert!(is_condition_true(&settled, "NamesAccepted") && is_condition_true(&settled, "Established"));
    let again = settled.clone();
    settle(&mut settled, &Taken::default(), "2024-01-02T00:00:00Z");
    assert_eq!(settled, again, "settling twice changes nothing");
}

#[test]
fn names_of_another_definition_are_not_accepted() {
    let mut other = definition();
    settle(&mut other, &Taken::default(), "2024-01-01T00:00:00Z");
    let mut taken = Taken::default();
    taken.add(&other);
    let mut second = definition();
    second["spec"]["names"] = json!({"plural": "stuff", "singular": "stuff", "kind": "Thing", "listKind": "StuffList", "shortNames": ["th"]});
    settle(&mut second, &taken, "2024-01-01T00:00:00Z");
    assert!(!is_condition_true(&second, "NamesAccepted") && !is_condition_true(&second, "Established"));
    let conditions = second["status"]["conditions"].as_array().unwrap();
    let reason = |ty: &str| conditions.iter().find(|c| c["type"] == ty).unwrap()["reason"].clone();
    assert_eq!(
        (reason("NamesAccepted"), reason("Established")),
        (json!("ShortNamesConflict"), json!("NotAccepted"))
    );
    assert_eq!(second["status"]["acceptedNames"]["plural"], "stuff");
    settle(&mut second, &Taken::default(), "2024-01-01T00:00:00Z");
    assert!(is_condition_true(&second, "Established"), "accepted once the names are free");
}

#[test]
fn every_served_version_is_a_resource_stored_in_one() {
    let mut two = definition();
    two["spec"]["versions"] = json!([version("v1beta1", false), version("v1", true), {"name": "v0", "served": false, "storage": false,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    settle(&mut two, &Taken::default(), "2024-01-01T00:00:00Z");
    let served = versions::of_definition(&two, None).unwrap();
    let names: Vec<(&str, &str)> =
        served.iter().map(|v| (&*v.resource.version, &*v.storage_version)).collect();
    assert_eq!(names, [("v1beta1", "v1"), ("v1", "v1")]);
    assert!(
        served.iter().all(|v| v.strategy.rewrites_reads()),
        "objects of other versions may lack defaults"
    );
    two["spec"]["conversion"]["strategy"] = json!("Webhook");
    assert_eq!(
        versions::of_definition(&two, None).unwrap().len(),
        1,
        "nobody converts, so one version is all"
    );
    settle(&mut definition(), &Taken::default(), "2024-01-01T00:00:00Z");
    assert!(!versions::of_definition(&definition(), None).unwrap()[0].strategy.rewrites_reads());
}

#[test]
fn the_definitions_of_this_project_are_accepted_and_served() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds/manifests");
    let mut kinds = Vec::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut manifest: Value = serde_saphyr::from_str(&text).unwrap();
        manifest["status"] = json!({"storedVersions": [manifest["spec"]["versions"][0]["name"]]});
        set_defaults(&mut manifest);
        let errors: Vec<String> =
            validate::definition(&manifest, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, Vec::<String>::new());
        settle(&mut manifest, &Taken::default(), "2024-01-01T00:00:00Z");
        kinds.extend(
            versions::of_definition(&manifest, None).unwrap().iter().map(|v| v.resource.kind.to_string()),
        );
    }
    kinds.sort();
    assert_eq!(kinds, ["VipAddress", "VipConfig", "VipGateway", "VipGuard", "VipNetwork", "VipRoute"]);
}
