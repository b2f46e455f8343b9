//! Whatever a client sends is taken or refused: nothing here panics on it, and nothing takes longer than its size is
//! worth. Generators know the structure of what they break.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::apply::{self, Writer};
use crate::decode::tests::any_json;
use crate::decode::{self, Limits, from_json, from_protobuf, from_yaml};
use crate::field::{FieldError, Path};
use crate::jsonpath::JsonPath;
use crate::managed::FieldSet;
use crate::protobuf::to_protobuf;
use crate::resource::{Resource, builtin, type_of};
use crate::schema::{Schema, TypeName, from_crd};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::table::{IncludeObject, table};
use crate::{defaults, gvk, patch, quantity, validate};

/// Elements of a list that take minutes where each is compared with all others.
const WIDE: usize = 100_000;

fn resource(plural: &str) -> &'static Resource {
    builtin().iter().find(|resource| *resource.plural == *plural).unwrap()
}

fn schema(ty: &str) -> &'static Schema {
    TypeName::find(ty).unwrap().schema()
}

fn writer() -> Writer<'static> {
    let now = jiff::Timestamp::UNIX_EPOCH;
    Writer { manager: "m", subresource: "", api_version: "v1", has_status: true, now }
}

/// An object that a body of this resource might be, as far as `any` has the right fields.
fn object_of(resource: &Resource, any: &Value) -> Value {
    let mut object = any.clone();
    if !object.is_object() {
        object = json!({"spec": object});
    }
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(&*resource.kind);
    object
}

const KINDS: [&str; 8] = [
    "pods",
    "services",
    "deployments",
    "nodes",
    "customresourcedefinitions",
    "clusterroles",
    "jobs",
    "events",
];

/// Steps and operators of patches, some of which fit the objects of [`any_json`].
fn any_patch() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "containers",
        "ports",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/ports",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("delete")),
        Just(json!("replace")),
        Just(json!("merge")),
        Just(json!("name")),
        any::<i8>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    })
}

fn any_operations() -> impl Strategy<Value = Value> {
    let path = prop::sample::select(vec![
        "",
        "/",
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/-",
        "/spec/containers/-1",
        "/spec/containers/18446744073709551616",
        "/metadata/labels/a~1b",
        "/a~",
        "spec",
    ]);
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "none"]);
    let operation = (op, path.clone(), path, any_json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    prop::collection::vec(operation, 0..6).prop_map(Value::from)
}

/// A schema of a definition, more or less.
fn any_crd_schema() -> impl Strategy<Value = Value> {
    let ty = prop::sample::select(vec!["object", "array", "string", "integer", "number", "boolean", "null"]);
    let leaf = (ty, any_json()).prop_map(|(ty, default)| match ty {
        "array" => json!({"type": ty, "items": {"type": "string"}, "default": default}),
        _ => json!({"type": ty, "default": default}),
    });
    leaf.prop_recursive(4, 32, 4, |inner| {
        let extra = prop::sample::select(vec![
            json!({}),
            json!({"nullable": true}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({"x-kubernetes-embedded-resource": true}),
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
            json!({"x-kubernetes-list-type": "set"}),
            json!({"required": ["name"], "minProperties": 1}),
            json!({"pattern": "(a+)+$", "maxLength": 3}),
            json!({"enum": [1, "a", null]}),
            json!({"anyOf": [{"required": ["size"]}, {"not": {"required": ["name"]}}]}),
        ]);
        let names = prop::sample::select(vec!["name", "size", "list", "spec", "metadata"]);
        let fields = prop::collection::btree_map(names.prop_map(str::to_owned), inner.clone(), 0..4);
        (fields, inner, extra, any::<bool>()).prop_map(|(fields, item, extra, list)| {
            let mut schema = if list {
                json!({"type": "array", "items": item})
            } else {
                json!({"type": "object", "properties": fields})
            };
            for (name, value) in extra.as_object().into_iter().flatten() {
                schema[name.as_str()] = value.clone();
            }
            schema
        })
    })
}

/// Texts made of what means something in YAML.
fn any_yaml() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "a",
        "b: ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "&x ",
        "*x",
        "<<: *x",
        "!!str ",
        "!!binary ",
        "!t ",
        "? ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "# c",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "\t",
        "0o17",
        "017",
        "0x1f",
        "~",
        ".inf",
        ".nan",
        "1e400",
        "é",
        "\u{feff}",
        "\u{0}",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// A field set as clients store it, with steps of every kind and such that are none.
fn any_fields() -> impl Strategy<Value = Value> {
    let step = prop::sample::select(vec![
        "f:a",
        "f:",
        "f:a:b",
        "k:{\"name\":\"x\"}",
        "k:{",
        "k:{}",
        "v:1",
        "v:\"a\"",
        "v:",
        "i:0",
        "i:x",
        ".",
        "x:1",
        "",
    ]);
    Just(json!({})).prop_recursive(5, 32, 4, move |inner| {
        prop::collection::btree_map(step.clone().prop_map(str::to_owned), inner, 0..4)
            .prop_map(|fields| fields.into_iter().collect::<Value>())
    })
}

/// Bytes with some of them changed, taken away or doubled.
fn broken(mut bytes: Vec<u8>, wounds: &[(u16, u8, u8)]) -> Vec<u8> {
    for &(place, how, byte) in wounds {
        let at = usize::from(place) % bytes.len().max(1);
        match how % 4 {
            0 if at < bytes.len() => bytes[at] = byte,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, byte),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn broken_protobuf_is_refused_and_whole_protobuf_read(
        kind in prop::sample::select(KINDS.to_vec()),
        any in any_json(),
        wounds in prop::collection::vec(any::<(u16, u8, u8)>(), 0..4),
    ) {
        let resource = resource(kind);
        let mut object = object_of(resource, &any);
        decode::prune(resource.schema.get(), &mut object);
        if validate::well_typed(resource, &object).is_ok() {
            decode::normalize(resource.schema.get(), &mut object);
            let bytes = to_protobuf(resource.schema.get(), &object);
            let _ = from_protobuf(&broken(bytes.clone(), &wounds), &type_of);
            prop_assert!(from_protobuf(&bytes, &type_of).is_ok());
        }
    }

    #[test]
    fn objects_of_any_shape_are_judged_defaulted_and_printed(
        kind in prop::sample::select(KINDS.to_vec()), any in any_json(), other in any_json(),
    ) {
        let resource = resource(kind);
        let (mut new, old) = (object_of(resource, &any), object_of(resource, &other));
        let _ = validate::object(resource, &new, Some(&old));
        if validate::well_typed(resource, &new).is_ok() {
            defaults::apply(resource.schema.get(), &mut new);
            let mut twice = new.clone();
            defaults::apply(resource.schema.get(), &mut twice);
            prop_assert_eq!(&twice, &new);
        }
        table(resource, &[&new, &old], IncludeObject::Metadata, jiff::Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn patches_of_any_shape_are_applied_or_refused(
        current in any_json(), change in any_patch(), operations in any_operations(),
    ) {
        for ty in ["core/v1.Pod", "core/v1.Service"] {
            let _ = patch::strategic(schema(ty), &current, &change);
        }
        if let Ok(once) = patch::merge(&current, &change) {
            prop_assert_eq!(patch::merge(&once, &change).unwrap(), once);
        }
        let _ = patch::json(&current, &operations);
    }

    #[test]
    fn configurations_and_owners_of_any_shape_are_applied_or_refused(
        live in any_json(), applied in any_json(), fields in any_fields(),
    ) {
        let pods = resource("pods");
        let (mut live, applied) = (object_of(pods, &live), object_of(pods, &applied));
        if live["metadata"].is_object() {
            let entry = json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields});
            live["metadata"]["managedFields"] = json!([entry]);
        }
        for force in [false, true] {
            let _ = apply::apply(pods.schema.get(), Some(&live), &applied, &writer(), force);
        }
        let mut new = applied;
        apply::update_managed(pods.schema.get(), Some(&live), &mut new, &writer());
        if let Ok(set) = FieldSet::from_json(&fields) {
            prop_assert_eq!(FieldSet::from_json(&set.to_json()).unwrap(), set);
        }
    }

    #[test]
    fn definitions_of_any_shape_are_read_and_used_or_refused(
        definition in any_crd_schema(), any in any_json(),
    ) {
        if let Ok(schema) = from_crd(&definition) {
            let mut object = any;
            let _ = validate::structural(&schema, &object, &Path::root());
            decode::prune(&schema, &mut object);
            defaults::apply(&schema, &mut object);
            let mut twice = object.clone();
            defaults::apply(&schema, &mut twice);
            prop_assert_eq!(twice, object);
        }
    }

    #[test]
    fn yaml_of_any_shape_is_read_or_refused(text in any_yaml()) {
        if let Ok(decoded) = from_yaml(text.as_bytes(), &Limits::default()) {
            let back = from_json(decoded.value.to_string().as_bytes(), &Limits::default());
            prop_assert_eq!(back.unwrap().value, decoded.value);
        }
        decode::yaml_duplicate(text.as_bytes(), &Limits::default());
    }

    #[test]
    fn selectors_of_any_text_say_what_they_were_read_from(text in "[ab/.=!(),<> 1-]{0,24}|([ab]|!|=|in|notin|[ (),]){0,12}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn quantities_of_any_text_have_one_form_or_none(
        text in "[+-]?[0-9]{0,24}[.]?[0-9]{0,24}([numkKMGTPE]i?|[eE][+-]?[0-9]{1,11})?",
    ) {
        if let Some(form) = quantity::canonical(&text) {
            prop_assert!(quantity::is_quantity(&text));
            prop_assert_eq!(quantity::nanos(&form), quantity::nanos(&text));
            prop_assert_eq!(quantity::canonical(&form), Some(form));
        }
    }

    #[test]
    fn paths_and_versions_of_any_text_are_read_or_refused(
        text in "[a-c.{}\\[\\]'\"@?()*:,=<>&0-9 -]{0,24}", any in any_json(),
    ) {
        if let Ok(path) = JsonPath::parse(&text) {
            path.find(&any);
        }
        if let Some(version) = gvk::GroupVersion::parse(&text) {
            prop_assert_eq!(gvk::GroupVersion::parse(&version.to_string()), Some(version));
        }
    }
}

fn many(item: impl Fn(usize) -> Value) -> Value {
    (0..WIDE).map(item).collect()
}

#[test]
fn a_wide_pod_is_refused_in_no_time_and_in_few_words() {
    let pods = resource("pods");
    let container = |_| json!({"name": "same", "volumeMounts": [{"name": "none", "mountPath": "/x"}]});
    let volume = |at: usize| json!({"name": format!("v{at}"), "emptyDir": {}});
    let finalizers = many(|at| json!(format!("example.com/f{at}")));
    let mut old = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "deletionTimestamp": "2024-01-01T00:00:00Z",
            "finalizers": finalizers},
        "spec": {"containers": many(container), "volumes": many(volume)}});
    let new = old.clone();
    old["metadata"]["finalizers"][0] = json!("example.com/gone");
    let errors = validate::object(pods, &new, Some(&old));
    assert!(errors.iter().any(|error| error.body().contains("no new finalizers can be added")));
    assert!(errors.len() > 100);
    let status = Status::invalid(&pods.group_kind(), "p", &errors);
    assert_eq!(status.details.unwrap().causes.len(), 100);
    assert!(status.message.ends_with(" and more") && status.message.len() < 32 * 1024);
}

#[test]
fn wide_lists_with_keys_are_compared_by_their_keys() {
    let ports = json!({"spec": {"ports": many(|_| json!({"port": 80, "protocol": "TCP", "name": "a"}))}});
    let services = resource("services");
    let errors = validate::object(services, &object_of(services, &ports), None);
    assert!(errors.len() >= validate::MAX_ERRORS);
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    for (list, item) in [
        (json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}), item),
        (json!({"x-kubernetes-list-type": "set"}), json!({"type": "integer"})),
    ] {
        let mut keyed = json!({"type": "array", "items": item});
        for (name, value) in list.as_object().into_iter().flatten() {
            keyed[name.as_str()] = value.clone();
        }
        let schema = from_crd(&json!({"type": "object", "properties": {"list": keyed}})).unwrap();
        let of_objects = keyed["items"]["type"] == "object";
        let items = many(|at| if of_objects { json!({"name": at.to_string()}) } else { json!(at) });
        assert_eq!(validate::structural(&schema, &json!({"list": items}), &Path::root()), []);
    }
}

#[test]
fn wide_patches_are_merged_by_their_keys() {
    let pod = schema("core/v1.Pod");
    let named = |at: usize| json!({"name": format!("c{at}"), "image": "i"});
    let current = json!({"spec": {"containers": many(named)}});
    let delete =
        json!({"spec": {"containers": many(|at| json!({"name": format!("c{at}"), "$patch": "delete"}))}});
    assert_eq!(patch::strategic(pod, &current, &delete).unwrap()["spec"]["containers"], json!([]));
    let kept: Map<String, Value> = (0..WIDE).map(|at| (format!("k{at}"), json!("v"))).collect();
    let retained = json!({"data": kept, "x": 1});
    let mut retain = retained.clone();
    retain["data"]["$retainKeys"] = many(|at| json!(format!("k{at}")));
    assert_eq!(patch::strategic(schema("core/v1.ConfigMap"), &retained, &retain).unwrap(), retained);
    let mut applied = json!({"apiVersion": "v1", "kind": "Pod"});
    applied["spec"] = current["spec"].clone();
    let once = apply::apply(pod, None, &applied, &writer(), false).unwrap();
    assert_eq!(apply::apply(pod, Some(&once), &applied, &writer(), false).unwrap(), once);
}

#[test]
fn operations_of_a_json_patch_may_take_so_many_steps() {
    let current = json!({"list": (0..10_000).collect::<Vec<_>>(), "a": (0..10_000).collect::<Vec<_>>()});
    let moves = |count: usize| -> Value {
        let (there, back) = (("/a", "/b"), ("/b", "/a"));
        let ways = std::iter::repeat([there, back]).flatten().take(count);
        ways.map(|(from, path)| json!({"op": "move", "from": from, "path": path})).collect()
    };
    assert!(patch::json(&current, &moves(1998)).is_ok());
    let refused = patch::json(&current, &moves(2000)).unwrap_err();
    assert_eq!(refused.code, 413);
    let inserts: Value = (0..2001).map(|_| json!({"op": "add", "path": "/list/0", "value": 1})).collect();
    assert_eq!(patch::json(&current, &inserts).unwrap_err().code, 413);
    let few: Value = (0..1000).map(|_| json!({"op": "add", "path": "/list/0", "value": 1})).collect();
    assert!(patch::json(&current, &few).is_ok());
}

/// As callers read YAML: on a stack for a hundred levels of it.
fn with_room(bytes: &[u8], limits: &Limits) -> Result<decode::Decoded, decode::DecodeError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(8 << 20);
        thread.spawn_scoped(scope, || from_yaml(bytes, limits)).unwrap().join().unwrap()
    })
}

#[test]
fn a_body_is_as_deep_as_the_limit_and_no_deeper() {
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let limits = Limits::default();
    for read in [from_json, with_room] {
        assert!(read(nested(limits.depth).as_bytes(), &limits).is_ok());
        assert!(read(nested(limits.depth + 1).as_bytes(), &limits).is_err());
        assert!(read(nested(1_000_000).as_bytes(), &limits).is_err());
        let padded = |length: usize| [vec![b' '; length - 1], vec![b'1']].concat();
        assert!(read(&padded(limits.bytes), &limits).is_ok());
        assert!(read(&padded(limits.bytes + 1), &limits).is_err());
    }
    // NOT in NOT: every level of a JSON schema is one message in another.
    let not = |levels: usize| -> Value {
        (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"not": inner}))
    };
    let definition = |levels: usize| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": not(levels)}}]}})
    };
    let ty = schema("apiextensions/v1.CustomResourceDefinition");
    // The definition, its `spec`, a version and its validation are the first four.
    assert!(from_protobuf(&to_protobuf(ty, &definition(95)), &type_of).is_ok());
    assert!(from_protobuf(&to_protobuf(ty, &definition(96)), &type_of).is_err());
}

#[test]
fn aliases_expand_to_so_much_and_no_more() {
    let limits = Limits::default();
    let aliased = |count: usize| format!("a: &a [{}1]\nb: [{}1]\n", "1, ".repeat(999), "*a, ".repeat(count));
    assert!(from_yaml(aliased(90).as_bytes(), &limits).is_ok());
    assert!(from_yaml(aliased(110).as_bytes(), &limits).is_err());
    let long = |count: usize| format!("a: &a {}\nb: [{}1]\n", "x".repeat(1 << 20), "*a, ".repeat(count));
    assert!(from_yaml(long(10).as_bytes(), &limits).is_ok());
    assert!(from_yaml(long(12).as_bytes(), &limits).is_err());
}

#[test]
fn few_unknown_fields_are_listed() {
    let odd: Map<String, Value> = (0..WIDE).map(|at| (format!("odd{at}"), json!(1))).collect();
    let unknown = decode::unknown_fields(schema("core/v1.Pod"), &json!({"spec": odd}));
    assert_eq!(unknown.len(), 100);
}

#[test]
fn a_status_lists_a_hundred_causes() {
    let error = |at: usize| FieldError::required(format!("spec.list[{at}]"), "");
    let errors: Vec<FieldError> = (0..101).map(error).collect();
    let kind = gvk::GroupKind::new("", "Pod");
    let causes = |errors: &[FieldError]| {
        let status = Status::invalid(&kind, "p", errors);
        (status.details.unwrap().causes.len(), status.message.ends_with(" and more"))
    };
    assert_eq!(causes(&errors[..100]), (100, false));
    assert_eq!(causes(&errors), (100, true));
}
