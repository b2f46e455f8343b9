//! What an agent says of a VipGateway: an entry of the annotation [`ANNOTATION_GATEWAYS`](crate::names::ANNOTATION_GATEWAYS).

use serde::{Deserialize, Serialize};

/// How a VipGateway stands on one node. Not applied and not refused: the agent does not know it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayOnNode {
    /// The destination that goes through the gateway's table on that node, or is refused there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// Why nothing of it is on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Pods that should lead there and cannot from that node, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
}
