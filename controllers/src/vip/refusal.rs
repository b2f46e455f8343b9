//! Why an address that a Service lists has no place. It concerns this address, never the Service's others.

use litek8s_crds::VipService;

use super::decision::NoteKind;

/// Why an address has no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not an address.
    #[error("it is not an address; leading zeros are not read")]
    Invalid,
    /// No VipNetwork holds it.
    #[error("no VipNetwork contains it")]
    NoNetwork,
    /// The VipNetwork that holds it is not in force.
    #[error("VipNetwork {0} is not in force")]
    NetworkDisabled(String),
    /// It is the name of a network, not an address in it.
    #[error("it is the network's own address of VipNetwork {0}")]
    NetworkAddress(String),
    /// It reaches everybody on a network.
    #[error("it is the broadcast address of VipNetwork {0}")]
    BroadcastAddress(String),
    /// It is a router's.
    #[error("it is the gateway of VipNetwork {0}")]
    GatewayAddress(String),
    /// It is a node's.
    #[error("it is an address of Node {0}")]
    NodeAddress(String),
    /// Another Service has it, or listed it first.
    #[error("Service {}/{} has it", .0.namespace, .0.name)]
    HeldByService(VipService),
    /// A VipAddress that is not ours has it.
    #[error("VipAddress {0}, which is not managed by this controller, has it")]
    HeldByOther(String),
    /// The Service does not have this family.
    #[error("the Service has no {0}: its ipFamilies do not name it")]
    FamilyNotServed(&'static str),
    /// There is no VipConfig that can be used.
    #[error("there is no accepted VipConfig named default")]
    NoConfig,
    /// No endpoint is ready on a node that may hold VIPs.
    #[error("no ready endpoint on a node that may hold VIPs{}", unlocated(.0))]
    NoReadyEndpoint(u64),
    /// The nodes with endpoints are not on the network.
    #[error("no node with a ready endpoint is on VipNetwork {network}{}", listed(.reasons))]
    NoNodeForNetwork {
        /// The VipNetwork.
        network: String,
        /// What the agents of those nodes say.
        reasons: Vec<String>,
    },
    /// Each node that could take it has as many of the Service's as it may.
    #[error("every node with a ready endpoint has {0} addresses of this Service, the limit")]
    NodeLimit(u64),
    /// Each node that could take it has no mark, table or priority left.
    #[error("no node with a ready endpoint has a free mark, route table and priority")]
    NodeFull,
}

fn unlocated(count: &u64) -> String {
    if *count == 0 {
        String::new()
    } else {
        format!(" ({count} endpoints do not say on which node they are)")
    }
}

fn listed(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

impl Refusal {
    /// One word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid => "InvalidAddress",
            Self::NoNetwork => "NoNetwork",
            Self::NetworkDisabled(_) => "NetworkDisabled",
            Self::NetworkAddress(_) => "NetworkAddress",
            Self::BroadcastAddress(_) => "BroadcastAddress",
            Self::GatewayAddress(_) => "GatewayAddress",
            Self::NodeAddress(_) => "NodeAddress",
            Self::HeldByService(_) | Self::HeldByOther(_) => "AddressInUse",
            Self::FamilyNotServed(_) => "FamilyNotServed",
            Self::NoConfig => "NoConfig",
            Self::NoReadyEndpoint(_) => "NoReadyEndpoint",
            Self::NoNodeForNetwork { .. } => "NoNodeForNetwork",
            Self::NodeLimit(_) => "NodeLimit",
            Self::NodeFull => "NodeFull",
        }
    }

    /// The Event that tells it.
    pub(crate) fn note(&self) -> NoteKind {
        match self {
            Self::HeldByService(_)
            | Self::HeldByOther(_)
            | Self::GatewayAddress(_)
            | Self::NodeAddress(_) => NoteKind::VipConflict,
            Self::NetworkDisabled(_) => NoteKind::NetworkDisabled,
            Self::Invalid
            | Self::NoNetwork
            | Self::NetworkAddress(_)
            | Self::BroadcastAddress(_)
            | Self::FamilyNotServed(_)
            | Self::NoConfig
            | Self::NoReadyEndpoint(_)
            | Self::NoNodeForNetwork { .. }
            | Self::NodeLimit(_)
            | Self::NodeFull => NoteKind::VipUnplaced,
        }
    }
}
