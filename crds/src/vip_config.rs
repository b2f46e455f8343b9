//! VipConfig: which marks, tables and priorities VIPs may use, and how eagerly they move. One a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What VIPs may use on every node of the cluster. Without a VipConfig no VIP is placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipConfig",
    plural = "vipconfigs",
    shortname = "vipcfg",
    category = "netwrangler",
    status = "VipConfigStatus",
    derive = "PartialEq",
    doc = "What VIPs may use on every node of the cluster. Only the one named `default` counts.",
    validation = Rule::new("self.metadata.name == 'default'")
        .message("the only VipConfig of a cluster is named 'default'"),
    printcolumn(name = "Mark", type_ = "integer", json_path = ".spec.firewallMark"),
    printcolumn(name = "Mask", type_ = "integer", json_path = ".spec.firewallMarkMask"),
    printcolumn(name = "Table", type_ = "integer", json_path = ".spec.routeTable"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.routingPriority"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, \
     1048576, 2097152, 4194304, 8388608, 16777216, 33554432, 67108864, 134217728, 268435456, 536870912, 1073741824, \
     2147483648].all(b, (self.firewallMark / b) % 2 <= (self.firewallMarkMask / b) % 2)"
).message("firewallMark must lie within firewallMarkMask").field_path(".firewallMark"))]
pub struct VipConfigSpec {
    /// The packet mark of the first VIP of a node: 1 to 4294967295, only bits of `firewallMarkMask`.
    #[schemars(schema_with = "schema::mark")]
    pub firewall_mark: i64,
    /// The bits of the packet mark that belong to VIPs: 1 to 4294967295. No other bit is ever changed. A node holds at
    /// most 2^bits - 1 VIPs.
    #[schemars(schema_with = "schema::mark")]
    pub firewall_mark_mask: i64,
    /// The route table of the first VIP of a node: 1 to 4294967295. The next VIPs get the next tables; 253 to 255 and
    /// tables of VipGateways are left out.
    #[schemars(schema_with = "schema::table")]
    pub route_table: i64,
    /// The priority of the first VIP's policy rule on a node: 1 to 32765. The next VIPs get the next priorities.
    #[schemars(schema_with = "schema::priority")]
    pub routing_priority: i64,
    /// How many VIPs of one Service a node takes at most: 1 to 4294967295. The mask limits it further.
    #[schemars(schema_with = "schema::count")]
    pub max_address_count: i64,
    /// The networks of pods and Services, of both families, 1 to 64. Traffic to them never takes a VIP's way.
    #[serde(rename = "clusterCIDRs")]
    #[schemars(schema_with = "cluster_cidrs")]
    pub cluster_cidrs: Vec<String>,
    /// How eagerly VIPs move to where the endpoints are.
    #[serde(default)]
    pub rebalance: RebalanceSpec,
    /// How many seconds VIPs stay where they are when their Service has no ready endpoint at all: 0 to 86400.
    #[serde(default = "default_withdraw_delay_seconds")]
    #[schemars(schema_with = "schema::seconds")]
    pub withdraw_delay_seconds: i64,
}

/// How eagerly VIPs move to where the endpoints are. A VIP that lost its node is placed at once, whatever this says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceSpec {
    /// How many seconds a move must be wanted without a break before it is made: 0 to 86400.
    #[serde(default = "default_stabilization_seconds")]
    #[schemars(schema_with = "schema::seconds")]
    pub stabilization_seconds: i64,
    /// How many moves are made in the cluster in any minute: 1 to 4294967295. Not set, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub max_moves_per_minute: Option<i64>,
}

impl Default for RebalanceSpec {
    fn default() -> Self {
        Self { stabilization_seconds: default_stabilization_seconds(), max_moves_per_minute: None }
    }
}

/// What became of a VipConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipConfigStatus {
    /// The metadata.generation that was judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted` (False with a reason when the specification cannot be used) and `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The last specification that was accepted. It stays in force while a later one is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<VipConfigSpec>,
}

/// The default of `rebalance.stabilizationSeconds`.
pub fn default_stabilization_seconds() -> i64 {
    60
}

/// The default of `withdrawDelaySeconds`.
pub fn default_withdraw_delay_seconds() -> i64 {
    30
}

fn cluster_cidrs(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = schema::cidrs(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema
}
