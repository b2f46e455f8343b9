//! The names of the sets, maps and chains of each family. Other programs may rely on them.

use crate::Family;

/// What is in the table once for each family.
pub(crate) struct Names {
    pub(crate) cluster_networks: &'static str,
    pub(crate) gateway_destinations: &'static str,
    pub(crate) ingress_marks: &'static str,
    pub(crate) ingress_marks_default: &'static str,
    pub(crate) egress_marks: &'static str,
    pub(crate) egress_marks_default: &'static str,
    pub(crate) snat_addresses: &'static str,
    pub(crate) vip_exits: &'static str,
    pub(crate) guarded_pods: &'static str,
    /// The chains, each with the one lookup of a map.
    pub(crate) ingress: &'static str,
    pub(crate) ingress_default: &'static str,
    pub(crate) egress: &'static str,
    pub(crate) egress_default: &'static str,
    pub(crate) reply: &'static str,
    pub(crate) reply_default: &'static str,
}

/// The marks in use, of both families.
pub(crate) const VIP_MARKS: &str = "vip-marks";

const V4: Names = Names {
    cluster_networks: "cluster-networks",
    gateway_destinations: "gateway-destinations",
    ingress_marks: "ingress-marks-ipv4",
    ingress_marks_default: "ingress-marks-default-ipv4",
    egress_marks: "egress-marks-ipv4",
    egress_marks_default: "egress-marks-default-ipv4",
    snat_addresses: "snat-addresses",
    vip_exits: "vip-exits",
    guarded_pods: "guarded-pods",
    ingress: "ingress",
    ingress_default: "ingress-default",
    egress: "egress",
    egress_default: "egress-default",
    reply: "reply",
    reply_default: "reply-default",
};

const V6: Names = Names {
    cluster_networks: "cluster-networks-ipv6",
    gateway_destinations: "gateway-destinations-ipv6",
    ingress_marks: "ingress-marks-ipv6",
    ingress_marks_default: "ingress-marks-default-ipv6",
    egress_marks: "egress-marks-ipv6",
    egress_marks_default: "egress-marks-default-ipv6",
    snat_addresses: "snat-addresses-ipv6",
    vip_exits: "vip-exits-ipv6",
    guarded_pods: "guarded-pods-ipv6",
    ingress: "ingress-ipv6",
    ingress_default: "ingress-default-ipv6",
    egress: "egress-ipv6",
    egress_default: "egress-default-ipv6",
    reply: "reply-ipv6",
    reply_default: "reply-default-ipv6",
};

/// The names of a family.
pub(crate) fn names(family: Family) -> &'static Names {
    match family {
        Family::V4 => &V4,
        Family::V6 => &V6,
    }
}

/// The names of both.
pub(crate) fn both() -> [&'static Names; 2] {
    [&V4, &V6]
}
