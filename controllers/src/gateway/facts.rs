//! What a decision may know.

use std::collections::BTreeMap;
use std::net::IpAddr;

use litek8s_crds::{GatewayOnNode, VipGatewaySpec, VipRouteSpec};

/// Everything a decision depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Whose VipRoutes are ours: the value of `netwrangler.dev/managed-by`.
    pub manager: String,
    /// The VipGateways that are not being deleted.
    pub gateways: Vec<GatewayFact>,
    /// The pods that may be selected.
    pub pods: Vec<PodFact>,
    /// The VipRoutes there are.
    pub routes: Vec<RouteFact>,
    /// The agents there are.
    pub agents: Vec<AgentFact>,
}

/// A VipGateway.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayFact {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// What it asks for.
    pub spec: VipGatewaySpec,
    /// The reason of its condition `Ready`, as it was written last.
    pub said: Option<String>,
    /// The message of its condition `Degraded` while that is true, as it was written last.
    pub said_degraded: Option<String>,
}

/// A pod with the label `netwrangler.dev/gateway: enabled`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFact {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether its phase is Running.
    pub running: bool,
    /// Whether it is ready: not on a node that is not heard of either.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// A VipRoute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFact {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether it is ours.
    pub managed: bool,
    /// What it says.
    pub spec: VipRouteSpec,
}

/// What a node's agent says of the gateways it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFact {
    /// The node.
    pub node: String,
    /// By VipGateway.
    pub says: BTreeMap<String, GatewayOnNode>,
}
