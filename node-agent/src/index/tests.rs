//! What the objects make of the facts.

use litek8s_crds::{VipAddressPhase, VipAddressSpec, VipAddressStatus, VipEndpoint, VipService};

use super::*;

fn address(name: &str, node: &str) -> VipAddress {
    let spec = VipAddressSpec {
        service: VipService { namespace: "default".into(), name: "web".into() },
        index: 1,
        network: "public".into(),
        node: node.into(),
        interface: "eth1".into(),
        virtual_cidr: "203.0.113.10/24".into(),
        gateway_ip: "203.0.113.254".into(),
        source_cidrs: vec!["0.0.0.0/0".into()],
        firewall_mark: 1,
        route_table: 20001,
        routing_priority: 20001,
        egress_enabled: true,
    };
    let mut address = VipAddress::new(name, spec);
    address.metadata.namespace = Some("default".into());
    address
}

fn config(mask: i64) -> VipConfig {
    let spec = serde_json::json!({
        "firewallMark": 1, "firewallMarkMask": mask, "routeTable": 20001, "routingPriority": 20001,
        "maxAddressCount": 127, "clusterCIDRs": ["10.42.0.0/16", "fd00::/8"],
    });
    VipConfig::new(names::CONFIG_NAME, serde_json::from_value(spec).unwrap())
}

fn network() -> VipNetwork {
    let spec = serde_json::json!({
        "interface": "eth1", "gatewayIP": "203.0.113.254", "networkCIDR": "203.0.113.0/24",
    });
    VipNetwork::new("public", serde_json::from_value(spec).unwrap())
}

fn synced() -> Index {
    let mut index = Index::new("n1", &[[192, 0, 2, 1].into()]);
    index.address(Change::Reset(vec![address("web-1", "n1"), address("web-2", "n2")]));
    index.network(Change::Reset(vec![network()]));
    index.config(Change::Reset(vec![config(0x7f)]));
    assert!(!index.synced());
    index.node(Change::Reset(Vec::new()));
    index.gateway(Change::Reset(Vec::new()));
    assert!(!index.synced());
    index.route(Change::Reset(Vec::new()));
    index.guard(Change::Reset(Vec::new()));
    assert!(index.synced());
    index
}

#[test]
fn the_facts_hold_the_vips_of_this_node_alone() {
    let (facts, unusable) = synced().facts();
    assert_eq!(facts.vips.iter().map(|vip| vip.name.as_str()).collect::<Vec<_>>(), ["default/web-1"]);
    assert_eq!((facts.mask, facts.cluster_networks.len()), (0x7f, 2));
    assert!(unusable.is_empty());
}

#[test]
fn a_vip_without_its_network_or_handed_over_is_left_out_with_a_reason() {
    let mut index = synced();
    index.network(Change::Delete(network()));
    let (facts, unusable) = index.facts();
    assert!(facts.vips.is_empty());
    assert_eq!(unusable["default/web-1"].0, "NetworkMissing");

    index.network(Change::Apply(network()));
    for (phase, reason) in [(VipAddressPhase::Pending, "Pending"), (VipAddressPhase::Releasing, "Releasing")]
    {
        let mut moving = address("web-1", "n1");
        moving.status = Some(VipAddressStatus { phase: Some(phase), ..VipAddressStatus::default() });
        index.address(Change::Apply(moving));
        assert_eq!(index.facts().1["default/web-1"].0, reason);
    }
    let mut other = address("web-1", "n1");
    other.spec.virtual_cidr = "203.0.113.300/24".into();
    index.address(Change::Apply(other));
    assert_eq!(index.facts().1["default/web-1"].0, "InvalidAddress");
}

#[test]
fn pods_come_from_the_status_and_only_with_egress() {
    let mut index = synced();
    let pod = |address: &str| VipEndpoint { address: address.into(), uid: None, name: None };
    let mut mapped = address("web-1", "n1");
    let endpoints = vec![pod("10.42.0.5"), pod("fd00::5")];
    mapped.status = Some(VipAddressStatus { endpoints, ..VipAddressStatus::default() });
    index.address(Change::Apply(mapped.clone()));
    let pods: Vec<IpAddr> = index.facts().0.vips[0].pods().collect();
    assert_eq!(pods, ["10.42.0.5".parse::<IpAddr>().unwrap()]);
    mapped.spec.egress_enabled = false;
    index.address(Change::Apply(mapped));
    assert!(index.facts().0.vips[0].endpoints.is_empty());
}

#[test]
fn a_configuration_that_is_refused_or_deleted_leaves_the_last_one_in_force() {
    let mut index = synced();
    let mut refused = config(0);
    refused.status =
        Some(serde_json::from_value(serde_json::json!({"accepted": config(0x7f).spec})).unwrap());
    index.config(Change::Apply(refused.clone()));
    assert_eq!(index.facts().0.mask, 0x7f);
    index.config(Change::Delete(refused));
    index.config(Change::Reset(Vec::new()));
    assert_eq!(index.facts().0.mask, 0x7f);
    index.config(Change::Apply(config(0xff)));
    assert_eq!(index.facts().0.mask, 0xff);
}

#[test]
fn without_a_configuration_the_one_that_an_earlier_agent_knew_is_in_force() {
    let mut index = Index::new("n1", &[]);
    index.remember(&synced().facts().0);
    index.config(Change::Reset(Vec::new()));
    let facts = index.facts().0;
    assert_eq!((facts.mask, facts.cluster_networks.len()), (0x7f, 2));
    index.config(Change::Apply(config(0xff)));
    assert_eq!(index.facts().0.mask, 0xff);
}

#[test]
fn a_vip_that_moves_to_another_node_or_is_being_deleted_is_gone() {
    let mut index = synced();
    index.address(Change::Apply(address("web-1", "n2")));
    assert_eq!(index.addresses().count(), 0);
    let mut dying = address("web-1", "n1");
    index.address(Change::Apply(dying.clone()));
    assert_eq!(index.addresses().count(), 1);
    dying.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    index.address(Change::Apply(dying));
    assert_eq!(index.addresses().count(), 0);
}

#[test]
fn the_addresses_of_all_nodes_are_known() {
    let mut index = synced();
    let node = |name: &str, address: &str| -> Node {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name},
            "status": {"addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "ExternalIP", "address": "198.51.100.9"},
                {"type": "InternalIP", "address": "fd00::1"},
            ]},
        }))
        .unwrap()
    };
    index.node(Change::Reset(vec![node("n1", "192.0.2.1"), node("n2", "192.0.2.2")]));
    assert_eq!(index.facts().0.node_addresses.len(), 3, "both have one of IPv6");
    index.node(Change::Delete(node("n2", "192.0.2.2")));
    let left = ["192.0.2.1", "fd00::1"].map(|text| text.parse::<IpAddr>().unwrap());
    assert_eq!(index.facts().0.node_addresses, left);
}
