//! VipAddress: one VIP on one node. Made by the controller; its specification never changes, its status does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// One VIP on one node, with everything the node's agent needs to put it in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipAddress",
    plural = "vipaddresses",
    shortname = "vip",
    category = "netwrangler",
    namespaced,
    status = "VipAddressStatus",
    derive = "PartialEq",
    doc = "One VIP on one node. Made by the controller.",
    printcolumn(name = "Network", type_ = "string", json_path = ".spec.network"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Virtual IP", type_ = "string", json_path = ".spec.virtualCIDR"),
    printcolumn(name = "Table", type_ = "integer", json_path = ".spec.routeTable"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.routingPriority"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name", priority = 1),
    printcolumn(name = "Interface", type_ = "string", json_path = ".spec.interface", priority = 1),
    printcolumn(name = "Mark", type_ = "integer", json_path = ".spec.firewallMark", priority = 1),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("a VipAddress is never changed; the controller deletes it and makes another"))]
pub struct VipAddressSpec {
    /// The Service that lists the VIP.
    pub service: VipService,
    /// Its number within its Service: 1 to 4294967295.
    #[schemars(schema_with = "schema::count")]
    pub index: u32,
    /// The VipNetwork the VIP belongs to.
    #[schemars(schema_with = "schema::name")]
    pub network: String,
    /// The Node that holds the VIP.
    #[schemars(schema_with = "schema::name")]
    pub node: String,
    /// The interface on the node: 1 to 15 characters.
    #[schemars(schema_with = "schema::interface")]
    pub interface: String,
    /// The VIP with the prefix length of its network: `203.0.113.10/24`.
    #[serde(rename = "virtualCIDR")]
    #[schemars(schema_with = "schema::address_with_prefix")]
    pub virtual_cidr: String,
    /// The router of the network.
    #[serde(rename = "gatewayIP")]
    #[schemars(schema_with = "schema::ip")]
    pub gateway_ip: String,
    /// The networks beyond the router whose traffic takes this VIP's way; the smallest list that covers the network's.
    #[serde(rename = "sourceCIDRs", default)]
    #[schemars(schema_with = "schema::cidrs")]
    pub source_cidrs: Vec<String>,
    /// The packet mark, unique on the node: 1 to 4294967295, within the VipConfig's mask.
    #[schemars(schema_with = "schema::mark")]
    pub firewall_mark: u32,
    /// The route table, unique on the node: 1 to 4294967295.
    #[schemars(schema_with = "schema::table")]
    pub route_table: u32,
    /// The priority of the policy rule, unique on the node: 1 to 32765.
    #[schemars(schema_with = "schema::priority")]
    pub routing_priority: u32,
    /// Whether the Service's endpoints on the node leave with the VIP as source.
    #[serde(default)]
    pub egress_enabled: bool,
}

/// The Service of a VipAddress.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipService {
    /// Its namespace, which is the VipAddress's.
    #[schemars(schema_with = "schema::name")]
    pub namespace: String,
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

/// What became of a VipAddress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipAddressStatus {
    /// The metadata.generation that was judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Of the agent: `Programmed`, `Announced`, `AddressConflict`, and `Ready` that sums them up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Of the agent: the hardware address that answers for the VIP. Not set, none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17))]
    pub hardware_address: Option<String>,
    /// Of the controller: how far a hand-over from another node is. Not set, the node may put the VIP in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<VipAddressPhase>,
    /// Of the controller: the pods on the node that leave with this VIP as source. Empty unless `egressEnabled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<VipEndpoint>,
}

/// How far a hand-over is: `Pending`, the node that held the VIP before still has it and this one must wait; `Active`,
/// this node may put it in place; `Releasing`, this node must take it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VipAddressPhase {
    #[allow(
        missing_docs,
        reason = "descriptions of variants make the schema a oneOf, which is not structural"
    )]
    Pending,
    #[allow(missing_docs, reason = "see Pending")]
    Active,
    #[allow(missing_docs, reason = "see Pending")]
    Releasing,
}

/// A pod that leaves with a VIP as source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipEndpoint {
    /// The pod's address.
    #[schemars(schema_with = "schema::ip")]
    pub address: String,
    /// The pod's UID; not set when its EndpointSlice does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The pod's name; not set when its EndpointSlice does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
