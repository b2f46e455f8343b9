//! VipGuard: pods of a node that reach the world outside with a VIP as source, or not at all.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::VipEndpoint;

/// The pods of one node that never leave with the node's address. Made by the controller; its name is the node's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "netwrangler.dev",
    version = "v1",
    kind = "VipGuard",
    plural = "vipguards",
    shortname = "vipgd",
    category = "netwrangler",
    derive = "PartialEq",
    doc = "The pods of the node of the same name that never leave with the node's address. Made by the controller.",
    printcolumn(name = "Pods", type_ = "integer", json_path = ".spec.count"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VipGuardSpec {
    /// How many pods these are.
    #[schemars(range(min = 0))]
    pub count: i64,
    /// The endpoints on the node of Services with the label `netwrangler.dev/egress: required`.
    #[schemars(length(max = 4096))]
    pub pods: Vec<VipEndpoint>,
}
