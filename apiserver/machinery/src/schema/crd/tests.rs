//! Tests of structural schemas.

use serde_json::{Value, json};

use super::*;

fn errors(schema: Value) -> Vec<String> {
    from_crd(&schema).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn spec(inner: Value) -> Value {
    json!({"type": "object", "properties": {"spec": inner}})
}

#[test]
fn a_structural_schema_is_read() {
    let schema = from_crd(&spec(json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "pattern": "^a", "maxLength": 3},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "x-kubernetes-map-type": "atomic"}},
        "x-kubernetes-validations": [{"rule": "self.a != 'b'", "message": "no b"}]})))
    .unwrap();
    let spec = schema.field("spec").unwrap();
    assert_eq!(spec.field("port").unwrap().ty, Type::IntOrString);
    assert_eq!(spec.field("list").unwrap().list, ListType::Map { keys: ["name".into()].into() });
    assert_eq!(spec.field("map").unwrap().map, MapType::Atomic);
    assert_eq!(spec.rules[0].message.as_deref(), Some("no b"));
    assert!(schema.field("metadata").unwrap().field("labels").is_some());
}

#[test]
fn what_is_not_structural_is_refused_in_upstreams_words() {
    let at = "openAPIV3Schema.properties[spec]";
    let cases = [
        (
            json!({"type": "string"}),
            "openAPIV3Schema.type: Invalid value: \"string\": must be object at the root".to_owned(),
        ),
        (json!({}), "openAPIV3Schema.type: Required value: must not be empty at the root".to_owned()),
        (
            spec(json!({})),
            format!("{at}.type: Required value: must not be empty for specified object fields"),
        ),
        (spec(json!({"type": "array"})), format!("{at}.items: Required value: must be specified")),
        (
            spec(json!({"type": "object", "anyOf": [{"properties": {"x": {}}}]})),
            format!(
                "{at}.properties[x]: Required value: because it is defined in {at}.anyOf[0].properties[x]"
            ),
        ),
        (
            spec(json!({"type": "object", "oneOf": [{"type": "string"}]})),
            format!("{at}.oneOf[0].type: Forbidden: must be empty to be structural"),
        ),
        (
            spec(json!({"type": "object", "$ref": "#/x"})),
            format!("{at}.$ref: Forbidden: $ref is not supported"),
        ),
        (
            spec(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
            format!(
                "{at}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            ),
        ),
        (
            spec(json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}})),
            format!(
                "{at}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
            ),
        ),
        (
            spec(json!({"type": "string", "default": 5})),
            format!(
                "{at}.default: Invalid value: \"integer\": {at}.default in body must be of type string: \"integer\""
            ),
        ),
    ];
    for (schema, wanted) in cases {
        let found = errors(schema);
        assert!(found.contains(&wanted), "{wanted}\n{found:#?}");
    }
}
