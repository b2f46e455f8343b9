//! VipGateway: traffic to a destination goes through pods, or nowhere.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A destination that every node reaches through the selected pods only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipGateway",
    plural = "vipgateways",
    shortname = "vipgw",
    category = "netwrangler",
    status = "VipGatewayStatus",
    derive = "PartialEq",
    doc = "A destination that every node reaches through the selected pods only.",
    printcolumn(name = "Destination", type_ = "string", json_path = ".spec.destinationCIDR"),
    printcolumn(name = "Table", type_ = "integer", json_path = ".spec.routeTable"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.routingPriority"),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.pods"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes",
        description = "nodes that apply it, of all"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VipGatewaySpec {
    /// The destination network, IPv4 or IPv6, no host bits.
    #[serde(rename = "destinationCIDR")]
    #[schemars(schema_with = "destination")]
    pub destination_cidr: String,
    /// The route table of the gateway on every node: 1 to 4294967295, not 253 to 255.
    #[schemars(schema_with = "schema::gateway_table")]
    pub route_table: i64,
    /// The priority of the gateway's policy rule: 1 to 32765.
    #[schemars(schema_with = "schema::priority")]
    pub routing_priority: i64,
    /// The pods that lead there. They carry the label `netwrangler.dev/gateway: enabled` as well.
    pub pod_selector: PodSelector,
}

/// Selects pods by their labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Labels a pod must carry, at least one.
    #[schemars(extend("minProperties" = 1))]
    pub match_labels: BTreeMap<String, String>,
}

/// What became of a VipGateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipGatewayStatus {
    /// The metadata.generation that was judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted` and `Ready` (at least one pod leads there).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many pods lead there.
    #[serde(default)]
    pub pods: i64,
    /// How many nodes apply it, of all: `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
}

fn destination(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = schema::cidr(generator);
    if let Some(rules) = schema.get_mut("x-kubernetes-validations").and_then(serde_json::Value::as_array_mut)
    {
        rules.push(serde_json::json!({
            "rule": "!isCIDR(self) || cidr(self).prefixLength() > 0",
            "message": "a gateway cannot be the way to everywhere; a destination of prefix length 0 is refused on every node",
        }));
    }
    schema
}
