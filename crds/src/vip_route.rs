//! VipRoute: one pod of a VipGateway. Made by the controller, never changed.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A way to a VipGateway's destination: through one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipRoute",
    plural = "viproutes",
    shortname = "viprt",
    category = "netwrangler",
    derive = "PartialEq",
    doc = "A way to a VipGateway's destination: through one pod. Made by the controller.",
    printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gateway"),
    printcolumn(name = "Pod IP", type_ = "string", json_path = ".spec.podIP"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Destination", type_ = "string", json_path = ".spec.destinationCIDR", priority = 1),
    printcolumn(name = "Table", type_ = "integer", json_path = ".spec.routeTable", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("a VipRoute is never changed; the controller deletes it and makes another"))]
pub struct VipRouteSpec {
    /// The VipGateway.
    #[schemars(schema_with = "schema::name")]
    pub gateway: String,
    /// The pod.
    pub pod: VipRoutePod,
    /// The pod's address.
    #[serde(rename = "podIP")]
    #[schemars(schema_with = "schema::ip")]
    pub pod_ip: String,
    /// The pod's node.
    #[schemars(schema_with = "schema::name")]
    pub node: String,
    /// The gateway's destination.
    #[serde(rename = "destinationCIDR")]
    #[schemars(schema_with = "schema::cidr")]
    pub destination_cidr: String,
    /// The gateway's route table: 1 to 4294967295, not 253 to 255.
    #[schemars(schema_with = "schema::gateway_table")]
    pub route_table: u32,
    /// The gateway's rule priority: 1 to 32765.
    #[schemars(schema_with = "schema::priority")]
    pub routing_priority: u32,
}

/// The pod of a VipRoute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipRoutePod {
    /// Its namespace.
    #[schemars(schema_with = "schema::name")]
    pub namespace: String,
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}
