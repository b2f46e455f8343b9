//! Names that objects, users and programs agree on: the API group, labels, annotations, finalizers, conditions, reasons.

/// The API group of the VIP kinds.
pub const GROUP: &str = "netwrangler.dev";

/// The name of the only VipConfig that counts.
pub const CONFIG_NAME: &str = "default";

/// Label of a Service: `enabled` opts it in to VIPs.
pub const LABEL_INGRESS: &str = "netwrangler.dev/ingress";
/// Label of a Service: `enabled` lets its endpoints leave with the VIP as source; with [`REQUIRED`] they have no other way
/// out of the cluster.
pub const LABEL_EGRESS: &str = "netwrangler.dev/egress";
/// Label of a Pod: `enabled` lets a VipGateway select it.
pub const LABEL_GATEWAY: &str = "netwrangler.dev/gateway";
/// Label of what a controller made: the controller's manager name. On a VipRoute, [`LABEL_GATEWAY`] holds the gateway.
pub const LABEL_MANAGED_BY: &str = "netwrangler.dev/managed-by";
/// Label of a VipAddress: its Service's namespace.
pub const LABEL_NAMESPACE: &str = "netwrangler.dev/namespace";
/// Label of a VipAddress: its VipNetwork.
pub const LABEL_NETWORK: &str = "netwrangler.dev/network";
/// Label of a VipAddress: its Service.
pub const LABEL_SERVICE: &str = "netwrangler.dev/service";
/// Label of a VipAddress: its node.
pub const LABEL_NODE_NAME: &str = "netwrangler.dev/node-name";
/// Label of the definitions themselves.
pub const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";
/// Label of a Node: it takes no new VIP and gives up those it has, as for a cloud's load balancers.
pub const LABEL_NODE_EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The value that turns a label's feature on.
pub const ENABLED: &str = "enabled";
/// The value of [`LABEL_EGRESS`] that turns it on and leaves no other way.
pub const REQUIRED: &str = "required";

/// Annotation of a Service of type LoadBalancer: its VIPs, separated by commas.
pub const ANNOTATION_ADDRESSES: &str = "netwrangler.dev/addresses";
/// Annotation of a VipAddress or VipRoute: the full name behind a label that holds a hash of it.
/// The key is this prefix and the label's own name, such as `netwrangler.dev/full-network`.
pub const ANNOTATION_FULL_PREFIX: &str = "netwrangler.dev/full-";
/// Annotation of a Node: `true` moves its VIPs to other nodes.
pub const ANNOTATION_DRAIN: &str = "netwrangler.dev/drain";
/// Annotation of a Service: `release` gives up a VIP as soon as its node has only terminating endpoints; `keep`, the
/// default, holds it until another node has a ready one.
pub const ANNOTATION_TERMINATING: &str = "netwrangler.dev/terminating";

/// `Service.spec.loadBalancerClass` of the Services whose VIPs come from [`ANNOTATION_ADDRESSES`].
pub const LOAD_BALANCER_CLASS: &str = "netwrangler.dev/vip";

/// The namespace of the agents' own Leases. A node's own Lease, in `kube-node-lease`, belongs to its kubelet.
pub const AGENT_LEASE_NAMESPACE: &str = "kube-system";
/// What the name of an agent's own Lease begins with; its node's name follows.
pub const AGENT_LEASE_PREFIX: &str = "netwrangler-agent.";
/// Annotation of an agent's Lease: the nodes whose VIPs do not answer it, separated by commas.
pub const ANNOTATION_UNREACHABLE: &str = "netwrangler.dev/unreachable";
/// Annotation of an agent's Lease: a JSON object of the VipGateways it knows, each with how it stands on its node
/// ([`GatewayOnNode`](crate::GatewayOnNode)).
pub const ANNOTATION_GATEWAYS: &str = "netwrangler.dev/gateways";
/// Annotation of an agent's Lease: a JSON object of the VipNetworks that its node cannot serve, each with a
/// [`Finding`](crate::Finding).
pub const ANNOTATION_NETWORKS: &str = "netwrangler.dev/networks";
/// Annotation of an agent's Lease: a JSON list of [`Finding`](crate::Finding)s, what on its node somebody should look at.
pub const ANNOTATION_FINDINGS: &str = "netwrangler.dev/findings";

/// The manager name unless the environment variable `NETWRANGLER_MANAGER_NAME` sets another.
pub const DEFAULT_MANAGER: &str = "netwrangler";

/// Finalizer of every VipAddress: its name and address are free for another node only after its node let go. The agent
/// says so with [`REASON_RELEASED`]; the controller takes the finalizer off.
pub const FINALIZER_RELEASE: &str = "netwrangler.dev/release";

/// Reason of a `Programmed` that is `False`: everything of a VipAddress that is being deleted is off its node.
pub const REASON_RELEASED: &str = "Released";

/// Condition: the specification can be used.
pub const CONDITION_ACCEPTED: &str = "Accepted";
/// Condition: everything asked for is in place.
pub const CONDITION_READY: &str = "Ready";
/// Condition of a VipAddress: address, routes, rule and nftables are on the node.
pub const CONDITION_PROGRAMMED: &str = "Programmed";
/// Condition of a VipAddress: its location was announced to the network.
pub const CONDITION_ANNOUNCED: &str = "Announced";
/// Condition of a VipAddress: somebody else has the address.
pub const CONDITION_ADDRESS_CONFLICT: &str = "AddressConflict";
/// Condition: works, but not as it should.
pub const CONDITION_DEGRADED: &str = "Degraded";
/// Condition of a Service: whether each of its VIPs has a place.
pub const CONDITION_VIPS_READY: &str = "netwrangler.dev/VipsReady";
