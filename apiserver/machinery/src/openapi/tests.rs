//! Tests of the OpenAPI documents.

use std::collections::BTreeSet;

use super::*;
use crate::resource::{builtin, custom};

fn apps() -> Value {
    v3(&GroupVersion::new("apps", "v1"), builtin())
}

/// Every `$ref` of a document.
fn references(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(target) if name == "$ref" => {
                        out.insert(target.to_owned());
                    }
                    _ => references(value, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    let documents = [apps(), v3(&GroupVersion::new("", "v1"), builtin()), v2(builtin())];
    for document in documents {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            // The `$ref` of JSON schemas in definitions is a field, not a reference.
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some_and(|schema| !schema.is_null()), "{reference}");
        }
    }
}

#[test]
fn kubectl_finds_what_it_patches_with() {
    let document = apps();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"][0]["kind"], "Deployment");
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let strategy = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
    assert_eq!(strategy["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy");
    assert_eq!(strategy["x-kubernetes-patch-strategy"], "retainKeys");
}

#[test]
fn custom_resources_are_published() {
    let definition = json!({"spec": {"group": "example.org", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "description": "A widget.", "properties": {"spec": {"type": "object",
                "properties": {"size": {"type": "integer", "minimum": 1, "default": 2, "description": "How big."},
                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                    "plain": {"type": "array", "items": {"type": "string"}},
                    "whole": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}},
                "oneOf": [{"required": ["size"]}, {"required": ["any"]}]}}}}}]}});
    let resources: Vec<_> = custom::resources(&definition).unwrap().into_iter().map(Arc::new).collect();
    let document = v3(&GroupVersion::new("example.org", "v1"), &resources);
    let widget = &document["components"]["schemas"]["org.example.v1.Widget"];
    assert_eq!(widget["description"], "A widget.");
    let size = &widget["properties"]["spec"]["properties"]["size"];
    assert_eq!(*size, json!({"type": "integer", "minimum": 1, "default": 2, "description": "How big."}));
    let metadata = &widget["properties"]["metadata"];
    assert!(metadata["allOf"][0]["$ref"].as_str().is_some_and(|name| name.ends_with(".ObjectMeta")));
    assert!(
        metadata["description"].as_str().is_some_and(|text| text.starts_with("Standard object's metadata"))
    );
    // What nobody said of a list is not said here either: clients compare.
    let lists = ["plain", "whole"]
        .map(|name| &widget["properties"]["spec"]["properties"][name]["x-kubernetes-list-type"]);
    assert_eq!(lists, [&Value::Null, &json!("atomic")]);
    assert_eq!(widget["properties"]["spec"]["oneOf"], json!([{"required": ["size"]}, {"required": ["any"]}]));
    let patch = &document["paths"]["/apis/example.org/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_null());
    let second = v2(&resources);
    assert!(second["definitions"]["org.example.v1.Widget"]["properties"]["spec"]["oneOf"].is_null());
}

#[test]
fn the_same_resources_give_the_same_bytes() {
    assert_eq!(apps().to_string(), apps().to_string());
    let index = v3_index([
        (&GroupVersion::new("", "v1"), "A".to_owned()),
        (&GroupVersion::new("apps", "v1"), "B".to_owned()),
    ]);
    assert_eq!(index["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1?hash=B");
    assert_eq!(index["paths"]["api/v1"]["serverRelativeURL"], "/openapi/v3/api/v1?hash=A");
}

#[test]
fn the_second_version_is_also_written_as_gnostic_reads_it() {
    let document = json!({
        "swagger": "2.0",
        "definitions": {"a": {"type": "object", "x-y": [1], "items": {"$ref": "#/b"}, "minimum": 1}},
        "security": [{"BearerToken": []}],
    });
    let schema = [
        // minimum = 9, a double; type = 22 { value = 1 }; items = 23 { schema = 1 { _ref = 1 } }.
        b"\x49\0\0\0\0\0\0\xf0\x3f\xb2\x01\x08\x0a\x06object\xba\x01\x07\x0a\x05\x0a\x03#/b".as_slice(),
        // vendor_extension = 31 { name = 1, value = 2 { yaml = 2 } }.
        b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]",
    ]
    .concat();
    let named = [b"\x0a\x01a\x12".as_slice(), &[u8::try_from(schema.len()).unwrap()], &schema].concat();
    let definitions = [b"\x0a".as_slice(), &[u8::try_from(named.len()).unwrap()], &named].concat();
    let expected = [
        b"\x0a\x032.0".as_slice(),
        b"\x4a",
        &[u8::try_from(definitions.len()).unwrap()],
        &definitions,
        b"\x62\x11\x0a\x0f\x0a\x0bBearerToken\x12\x00",
    ]
    .concat();
    assert_eq!(v2_protobuf(&document), expected);
}
