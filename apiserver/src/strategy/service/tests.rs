//! What a Service keeps, gains and loses when it is written; allocation itself is tested over a store.

use super::*;

fn settled(spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
    settle(&mut object);
    object["spec"].clone()
}

#[test]
fn what_follows_from_the_type_is_filled_in() {
    let plain = settled(json!({"ports": [{"port": 80}]}));
    assert_eq!(
        plain,
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        })
    );
    let balancer = settled(json!({"type": "LoadBalancer", "ports": []}));
    assert_eq!(
        (&balancer["allocateLoadBalancerNodePorts"], &balancer["externalTrafficPolicy"]),
        (&json!(true), &json!("Cluster"))
    );
    let external = settled(json!({"externalIPs": ["203.0.113.1"], "ports": []}));
    assert_eq!(external["externalTrafficPolicy"], "Cluster");
    let name = settled(json!({"type": "ExternalName", "externalName": "a.example.com"}));
    assert!(name.get("internalTrafficPolicy").is_none());
}

#[test]
fn an_update_that_names_no_address_keeps_the_old_one() {
    let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.43.0.9", "clusterIPs": ["10.43.0.9"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "nodePort": 30001}]}});
    let mut new =
        json!({"spec": {"type": "NodePort", "ports": [{"port": 81}, {"port": 80, "protocol": "TCP"}]}});
    carry_over(&mut new, &old);
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.43.0.9"]));
    assert_eq!(
        (&new["spec"]["ports"][0]["nodePort"], &new["spec"]["ports"][1]["nodePort"]),
        (&Value::Null, &json!(30001))
    );
    let mut plain = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30001}]}});
    carry_over(&mut plain, &old);
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    let mut name = json!({"spec": {"type": "ExternalName", "externalName": "x", "clusterIP": "10.43.0.9", "clusterIPs": ["10.43.0.9"]}});
    carry_over(&mut name, &old);
    assert!(addresses(&name).is_empty());
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let errors = |spec: Value| {
        let found = validate::service(&json!({"metadata": {"name": "a"}, "spec": spec}), None);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let cases = [
        (json!({"ports": []}), "spec.ports: Required value"),
        (json!({"ports": [{"port": 1}], "externalIPs": ["127.0.0.1"]}), "may not be in the loopback range"),
        (
            json!({"ports": [{"port": 1}], "externalIPs": ["010.0.0.1"]}),
            "spec.externalIPs[0]: Invalid value: \"010.0.0.1\"",
        ),
        (
            json!({"ports": [{"port": 1}], "loadBalancerClass": "x"}),
            "may only be used when `type` is 'LoadBalancer'",
        ),
        (json!({"ports": [{"port": 1, "nodePort": 30001}]}), "may not be used when `type` is 'ClusterIP'"),
        (
            json!({"type": "ExternalName", "externalName": "x", "clusterIP": "10.43.0.10"}),
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"type": "ExternalName", "externalName": "x", "clusterIPs": ["10.43.0.10"]}),
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"type": "ExternalName", "externalName": "x", "ipFamilies": ["IPv4"]}),
            "spec.ipFamilies: Forbidden",
        ),
        (json!({"type": "Other", "ports": [{"port": 1}]}), "spec.type: Unsupported value: \"Other\""),
    ];
    for (spec, text) in cases {
        let found = errors(spec.clone());
        assert!(found.contains(text), "{spec}: {found}");
    }
    assert_eq!(errors(json!({"ports": [{"port": 1}], "externalIPs": ["203.0.113.1"]})), "");
}

#[test]
fn only_what_a_type_has_is_claimed() {
    let claimed = |kind: &str| {
        let spec =
            json!({"type": kind, "clusterIP": "10.43.0.9", "ports": [{"port": 80, "nodePort": 30001}]});
        Service.claims(&json!({"spec": spec})).len()
    };
    assert_eq!(["ExternalName", "ClusterIP", "NodePort", "LoadBalancer"].map(claimed), [0, 1, 2, 2]);
}
