//! What a decision depends on, and nothing else does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use litek8s_crds::{VipAddressSpec, VipConfigSpec, VipConfigStatus, VipEndpoint, VipNetworkSpec, VipService};

/// Everything the allocator knows. The order of the lists means nothing.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The time of the decision.
    pub now: Timestamp,
    /// Whose VipAddresses are ours: the value of the label `netwrangler.dev/managed-by`.
    pub manager: String,
    /// The VipConfig named `default`.
    pub config: Option<ConfigFact>,
    /// All VipNetworks.
    pub networks: Vec<NetworkFact>,
    /// The route tables of all VipGateways.
    pub gateway_tables: BTreeSet<u32>,
    /// All Nodes.
    pub nodes: Vec<NodeFact>,
    /// The Services that ask for VIPs.
    pub services: Vec<ServiceFact>,
    /// What each node was told of its pods that may not leave without a VIP.
    pub guards: Vec<GuardFact>,
    /// All VipAddresses, those of others too.
    pub addresses: Vec<AddressFact>,
    /// When a node may have been silent for too long.
    pub silence: Option<Timestamp>,
}

/// The VipConfig.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFact {
    /// `metadata.generation`.
    pub generation: i64,
    /// What is asked for.
    pub spec: VipConfigSpec,
    /// What was said of it before.
    pub status: VipConfigStatus,
}

/// A VipNetwork that is not being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFact {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// `metadata.generation`.
    pub generation: i64,
    /// What is asked for.
    pub spec: VipNetworkSpec,
}

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFact {
    /// Its name.
    pub name: String,
    /// Its labels, for `nodeSelector`.
    pub labels: BTreeMap<String, String>,
    /// Why it may hold no VIP: it is not ready, out of service, excluded or drained.
    pub unfit: Option<String>,
    /// Why nothing on it can answer any more: it lets go of nothing, and nobody waits for it.
    pub dead: Option<String>,
    /// Whether it is dead by its silence alone: without another place its VIPs stay.
    pub silent: bool,
    /// Why it takes nothing new and keeps what it has: its agent is silent while its VIPs may answer, or it has none while
    /// other nodes do.
    pub mute: Option<String>,
    /// The VipNetworks that its agent says it cannot serve, and why.
    pub unserved: BTreeMap<String, String>,
    /// Its own addresses, which are never VIPs.
    pub addresses: Vec<IpAddr>,
}

/// A Service that asks for VIPs and is not being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFact {
    /// Its namespace and name.
    pub key: VipService,
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// The addresses it lists, as they are written.
    pub requested: Vec<String>,
    /// Its `ipFamilies`; none when they are not said.
    pub families: Vec<String>,
    /// Whether its endpoints leave with a VIP as source.
    pub egress: bool,
    /// Whether its endpoints have no way out but a VIP.
    pub guarded: bool,
    /// What becomes of a VIP whose node has only terminating endpoints.
    pub terminating: Terminating,
    /// The entries of its EndpointSlices.
    pub endpoints: Vec<EndpointFact>,
}

impl ServiceFact {
    /// Whether a Service proxy forwards what comes to an address of this family: it passes over the external addresses
    /// of families that the Service does not have.
    pub(crate) fn serves(&self, ip: IpAddr) -> bool {
        self.families.is_empty() || self.families.iter().any(|family| family == super::cidr::family(ip))
    }
}

/// A VipGuard of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardFact {
    /// The node.
    pub node: String,
    /// Its pods.
    pub pods: Vec<VipEndpoint>,
}

/// What becomes of a VIP whose node has only terminating endpoints that still serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Terminating {
    /// It stays until another node has had a ready endpoint for the stabilisation window.
    #[default]
    Keep,
    /// It goes to another node with a ready endpoint at once.
    Release,
}

/// One endpoint of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointFact {
    /// Its first address.
    pub address: IpAddr,
    /// The UID of its pod.
    pub uid: Option<String>,
    /// The name of its pod.
    pub pod: Option<String>,
    /// Its node; one without counts nowhere.
    pub node: Option<String>,
    /// Ready for traffic.
    pub ready: bool,
    /// Answers, perhaps while terminating.
    pub serving: bool,
    /// On its way out.
    pub terminating: bool,
}

/// A VipAddress.
#[derive(Debug, Clone, PartialEq)]
pub struct AddressFact {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers: with [`FINALIZER_RELEASE`](litek8s_crds::names::FINALIZER_RELEASE) it waits for its node.
    pub finalizers: Vec<String>,
    /// Whether its node says that everything of it is gone.
    pub released: bool,
    /// Whether it is ours.
    pub managed: bool,
    /// What it says.
    pub spec: VipAddressSpec,
    /// The pods mapped to it.
    pub endpoints: Vec<VipEndpoint>,
    /// Whether its node says it is in place.
    pub ready: bool,
    /// The UIDs of its owners.
    pub owners: BTreeSet<String>,
}

impl AddressFact {
    /// Whether it is being deleted and waits for its node to let go.
    pub(crate) fn waits(&self) -> bool {
        self.managed && self.deleting && self.held()
    }

    /// Whether it would wait for its node if it were deleted.
    pub(crate) fn held(&self) -> bool {
        self.finalizers.iter().any(|name| name == litek8s_crds::names::FINALIZER_RELEASE)
    }

    /// The VIP, if it can be read.
    pub fn ip(&self) -> Option<IpAddr> {
        super::cidr::network(&self.spec.virtual_cidr).map(|net| net.addr())
    }
}
