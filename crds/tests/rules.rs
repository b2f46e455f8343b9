//! Wrong input is a clear error where it is written: the schema's ranges, patterns and CEL rules.

#![allow(clippy::unwrap_used, reason = "a test may end at once")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use litek8s_crds::{VipAddress, VipConfig, VipGateway, VipNetwork, VipRoute};
use serde_json::{Value, json};

fn schema(definition: &CustomResourceDefinition) -> Value {
    serde_json::to_value(&definition.spec.versions[0].schema).unwrap()["openAPIV3Schema"].clone()
}

/// What the rules say of an object, joined.
fn verdict(definition: &CustomResourceDefinition, object: &Value, old: Option<&Value>) -> String {
    match kube_cel::Validator::new().validate(&schema(definition), object, old) {
        Ok(()) => String::new(),
        Err(errors) => {
            let all: Vec<String> = errors.iter().map(|error| format!("{error:?}")).collect();
            all.join("\n")
        }
    }
}

fn set(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    changed.pointer_mut(parent).unwrap()[key] = value;
    changed
}

fn config() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipConfig", "metadata": { "name": "default" },
        "spec": {
            "firewallMark": 1, "firewallMarkMask": 127, "routeTable": 20001, "routingPriority": 20001,
            "maxAddressCount": 127, "clusterCIDRs": ["10.42.0.0/16", "fd42::/56"],
        },
    })
}

fn network() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": { "name": "public" },
        "spec": {
            "interface": "eth1", "gatewayIP": "203.0.113.254", "networkCIDR": "203.0.113.0/24",
            "sourceCIDRs": ["0.0.0.0/0"],
        },
    })
}

fn gateway() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipGateway", "metadata": { "name": "g" },
        "spec": {
            "destinationCIDR": "172.30.0.0/16", "routeTable": 200, "routingPriority": 100,
            "podSelector": { "matchLabels": { "app": "gateway" } },
        },
    })
}

fn address() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipAddress", "metadata": { "name": "web-1", "namespace": "default" },
        "spec": {
            "service": { "namespace": "default", "name": "web" }, "index": 1, "network": "public", "node": "node-1",
            "interface": "eth1", "virtualCIDR": "203.0.113.10/24", "gatewayIP": "203.0.113.254",
            "sourceCIDRs": ["0.0.0.0/0"], "firewallMark": 1, "routeTable": 20001, "routingPriority": 20001,
            "egressEnabled": true,
        },
    })
}

fn route() -> Value {
    json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipRoute", "metadata": { "name": "p-g" },
        "spec": {
            "gateway": "g", "pod": { "namespace": "default", "name": "p" }, "podIP": "10.42.1.5", "node": "node-1",
            "destinationCIDR": "172.30.0.0/16", "routeTable": 200, "routingPriority": 100,
        },
    })
}

#[test]
fn right_objects_are_taken() {
    for (definition, object) in [
        (VipConfig::crd(), config()),
        (VipNetwork::crd(), network()),
        (VipGateway::crd(), gateway()),
        (VipAddress::crd(), address()),
        (VipRoute::crd(), route()),
    ] {
        assert_eq!(verdict(&definition, &object, None), "", "{object}");
        assert_eq!(verdict(&definition, &object, Some(&object)), "", "{object}");
    }
    let six = json!({
        "apiVersion": "netwrangler.dev/v1", "kind": "VipNetwork", "metadata": { "name": "six" },
        "spec": {
            "interface": "eth1", "gatewayIP": "2001:db8::1", "networkCIDR": "2001:db8::/64",
            "sourceCIDRs": ["::/0"],
        },
    });
    assert_eq!(verdict(&VipNetwork::crd(), &six, None), "");
}

#[test]
fn the_mark_must_lie_within_the_mask() {
    let definition = VipConfig::crd();
    for (mark, mask, good) in [
        (1_u32, 0x7f_u32, true),
        (0x80, 0x7f, false),
        (1, 0xf0, false),
        (0x8000_0000, 0x8000_0000, true),
        (u32::MAX, u32::MAX, true),
        (3, 0x8001, false),
    ] {
        let object =
            set(&set(&config(), "/spec/firewallMark", mark.into()), "/spec/firewallMarkMask", mask.into());
        let said = verdict(&definition, &object, None);
        assert_eq!(said.is_empty(), good, "{mark:#x}/{mask:#x}: {said}");
        assert_eq!(said.contains("firewallMark must lie within firewallMarkMask"), !good, "{said}");
    }
}

#[test]
fn numbers_have_ranges() {
    let range = |definition: &CustomResourceDefinition, field: &str| {
        let field = schema(definition)["properties"]["spec"]["properties"][field].clone();
        (field["minimum"].as_f64().unwrap(), field["maximum"].as_f64().unwrap(), field["format"].clone())
    };
    let most = f64::from(u32::MAX);
    for field in ["firewallMark", "firewallMarkMask", "routeTable", "maxAddressCount"] {
        assert_eq!(range(&VipConfig::crd(), field), (1.0, most, "int64".into()), "{field}");
    }
    assert_eq!(range(&VipConfig::crd(), "routingPriority"), (1.0, 32_765.0, "int64".into()));
    assert_eq!(range(&VipGateway::crd(), "routingPriority"), (1.0, 32_765.0, "int64".into()));
}

#[test]
fn only_one_config_counts() {
    let said = verdict(&VipConfig::crd(), &set(&config(), "/metadata/name", "other".into()), None);
    assert!(said.contains("the only VipConfig of a cluster is named 'default'"), "{said}");
}

#[test]
fn addresses_and_networks_are_read_strictly() {
    for (pointer, value, text) in [
        ("/spec/gatewayIP", json!("010.0.0.1"), "without leading zeros"),
        ("/spec/gatewayIP", json!("203.0.113"), "must be an IPv4 or IPv6 address"),
        ("/spec/gatewayIP", json!("198.51.100.1"), "gatewayIP must be an address of networkCIDR"),
        ("/spec/gatewayIP", json!("fd00::1"), "gatewayIP must be an address of networkCIDR"),
        ("/spec/networkCIDR", json!("203.0.113.5/24"), "did you mean 203.0.113.0/24?"),
        ("/spec/networkCIDR", json!("203.0.113.0"), "must be a network such as"),
        ("/spec/networkCIDR", json!("203.0.113.0/33"), "must be a network such as"),
        ("/spec/sourceCIDRs", json!(["10.1.2.3/8"]), "did you mean 10.0.0.0/8?"),
        ("/spec/sourceCIDRs", json!(["010.0.0.0/8"]), "without leading zeros"),
        ("/spec/sourceCIDRs", json!(["10.0.0.010/32"]), "without leading zeros"),
        ("/spec/sourceCIDRs", json!(["10.0.0.0/08"]), "without leading zeros"),
        ("/spec/sourceCIDRs", json!(["fd00::/8"]), "same address family"),
        ("/spec/interface", json!("eth0/1"), "must be an interface name"),
        ("/spec/interface", json!("eth 0"), "must be an interface name"),
        ("/spec/interface", json!(".."), "must be an interface name"),
    ] {
        let said = verdict(&VipNetwork::crd(), &set(&network(), pointer, value.clone()), None);
        assert!(said.contains(text), "{pointer} {value}: {said}");
    }
    let interface = &schema(&VipNetwork::crd())["properties"]["spec"]["properties"]["interface"];
    assert_eq!((&interface["minLength"], &interface["maxLength"]), (&json!(1), &json!(15)));
}

#[test]
fn a_gateway_takes_no_table_of_the_kernel_and_not_everything() {
    for table in [253, 254, 255] {
        let said = verdict(&VipGateway::crd(), &set(&gateway(), "/spec/routeTable", table.into()), None);
        assert!(said.contains("belong to the kernel"), "{said}");
    }
    let said =
        verdict(&VipGateway::crd(), &set(&gateway(), "/spec/destinationCIDR", "0.0.0.0/0".into()), None);
    assert!(said.contains("cannot be the way to everywhere"), "{said}");
}

#[test]
fn what_the_controller_made_is_never_changed() {
    for (definition, object, pointer) in
        [(VipAddress::crd(), address(), "/spec/node"), (VipRoute::crd(), route(), "/spec/node")]
    {
        let said = verdict(&definition, &set(&object, pointer, "node-2".into()), Some(&object));
        assert!(said.contains("is never changed"), "{said}");
    }
    let with_status =
        set(&address(), "/status", json!({ "phase": "Active", "endpoints": [{ "address": "10.42.1.5" }] }));
    assert_eq!(verdict(&VipAddress::crd(), &with_status, Some(&address())), "");
    let all = schema(&VipRoute::crd())["properties"]["spec"].clone();
    assert_eq!(all["required"].as_array().unwrap().len(), all["properties"].as_object().unwrap().len());
}

#[test]
fn every_field_says_what_it_is() {
    fn walk(value: &Value, path: &str, silent: &mut Vec<String>) {
        for (name, property) in value["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property["description"].as_str().is_none_or(str::is_empty) {
                silent.push(path.clone());
            }
            walk(property, &path, silent);
        }
        if value["items"].is_object() {
            walk(&value["items"], &format!("{path}[]"), silent);
        }
    }
    for definition in litek8s_crds::definitions() {
        let mut silent = Vec::new();
        let whole = schema(&definition);
        for part in ["spec", "status"] {
            walk(&whole["properties"][part], part, &mut silent);
        }
        assert!(silent.is_empty(), "{}: {silent:?}", definition.spec.names.kind);
    }
}
