//! VipNetwork: a network that VIPs are taken from, and how a node reaches it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::selector::Selector;

/// A network that VIPs belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipNetwork",
    plural = "vipnetworks",
    shortname = "vipnet",
    category = "netwrangler",
    status = "VipNetworkStatus",
    derive = "PartialEq",
    doc = "A network that VIPs belong to: every VIP is matched to a VipNetwork by its networkCIDR.",
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.networkCIDR"),
    printcolumn(name = "Interface", type_ = "string", json_path = ".spec.interface"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gatewayIP"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Used", type_ = "integer", json_path = ".status.usedAddresses"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!isCIDR(self.networkCIDR) || !isIP(self.gatewayIP) || cidr(self.networkCIDR).containsIP(self.gatewayIP)"
    ).message("gatewayIP must be an address of networkCIDR").field_path(".gatewayIP"),
    validation = Rule::new(
        "!isCIDR(self.networkCIDR) || !has(self.sourceCIDRs) || self.sourceCIDRs.all(c, !isCIDR(c) || \
         cidr(c).ip().family() == cidr(self.networkCIDR).ip().family())"
    ).message("sourceCIDRs must be of the same address family as networkCIDR").field_path(".sourceCIDRs")
)]
pub struct VipNetworkSpec {
    /// The interface on the nodes that VIPs of this network are put on: 1 to 15 characters.
    #[schemars(schema_with = "schema::interface")]
    pub interface: String,
    /// The router of the network, an address within `networkCIDR`.
    #[serde(rename = "gatewayIP")]
    #[schemars(schema_with = "schema::ip")]
    pub gateway_ip: String,
    /// The network: IPv4 or IPv6, no host bits. Networks of two VipNetworks must not overlap.
    #[serde(rename = "networkCIDR")]
    #[schemars(schema_with = "schema::cidr")]
    pub network_cidr: String,
    /// The networks beyond the router whose traffic takes a VIP's way, up to 64, of the family of `networkCIDR`;
    /// `0.0.0.0/0` (or `::/0`) for all. Entries inside another entry are left out.
    #[serde(rename = "sourceCIDRs", default)]
    #[schemars(schema_with = "schema::cidrs")]
    pub source_cidrs: Vec<String>,
    /// The nodes that are on this network; not set, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<Selector>,
    /// Nodes whose interface has another name, up to 1024, one entry a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1024),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"])
    )]
    pub node_interfaces: Vec<NodeInterface>,
}

impl VipNetworkSpec {
    /// The interface of the network on a node.
    pub fn interface_on(&self, node: &str) -> &str {
        let own = self.node_interfaces.iter().find(|own| own.node_name == node);
        own.map_or(&self.interface, |own| &own.interface)
    }
}

/// The interface of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInterface {
    /// The name of the Node.
    #[schemars(schema_with = "schema::name")]
    pub node_name: String,
    /// The interface on it: 1 to 15 characters.
    #[schemars(schema_with = "schema::interface")]
    pub interface: String,
}

/// What became of a VipNetwork.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipNetworkStatus {
    /// The metadata.generation that was judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted` (the specification can be used), `Ready` (VIPs are placed on it) and `Degraded` (nodes that should be
    /// on it cannot serve it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many VipAddresses belong to it.
    #[serde(default)]
    pub used_addresses: i64,
    /// What was left out of `sourceCIDRs`, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
