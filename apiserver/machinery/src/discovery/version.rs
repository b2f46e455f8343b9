//! The order of versions and of groups.

use std::cmp::Ordering;

/// Compares versions as kube-apiserver ranks them: `v2` over `v1` over `v1beta2` over `v1alpha1` over anything else.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // Others in the reverse order of their names, so that the first name comes first.
        (None, None) => b.cmp(a),
    }
}

/// Stability, major and minor number.
fn rank(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, rest.strip_prefix("alpha")?),
    };
    Some((stability, major, minor.parse().ok()?))
}

/// A name with its priority.
type Priority = (&'static str, u32);

/// Groups by their priority in kube-apiserver, with the priorities of their versions where those are not 15.
const PRIORITIES: [(Priority, &[Priority]); 21] = [
    (("apiregistration.k8s.io", 20_000), &[]),
    (("", 18_000), &[("v1", 1)]),
    (("apps", 17_800), &[]),
    (("events.k8s.io", 17_750), &[]),
    (("authentication.k8s.io", 17_700), &[]),
    (("authorization.k8s.io", 17_600), &[]),
    (("autoscaling", 17_500), &[("v2", 30)]),
    (("batch", 17_400), &[]),
    (("certificates.k8s.io", 17_300), &[]),
    (("networking.k8s.io", 17_200), &[]),
    (("policy", 17_100), &[]),
    (("rbac.authorization.k8s.io", 17_000), &[]),
    (("storage.k8s.io", 16_800), &[]),
    (("admissionregistration.k8s.io", 16_700), &[]),
    (("apiextensions.k8s.io", 16_700), &[]),
    (("scheduling.k8s.io", 16_600), &[]),
    (("coordination.k8s.io", 16_500), &[]),
    (("node.k8s.io", 16_300), &[]),
    (("discovery.k8s.io", 16_200), &[]),
    (("flowcontrol.apiserver.k8s.io", 16_100), &[("v1", 21)]),
    (("resource.k8s.io", 15_900), &[]),
];
/// The priorities of the groups and versions of custom resources.
const CUSTOM: (u32, u32) = (1_000, 100);

/// How early a group stands in lists, so that a short name means the expected kind.
pub fn group_priority(group: &str) -> u32 {
    priorities(group, "").0
}

/// The priorities that kube-apiserver gives a group and one of its versions.
pub fn priorities(group: &str, version: &str) -> (u32, u32) {
    let Some(((_, of_group), versions)) = PRIORITIES.iter().find(|((known, _), _)| *known == group) else {
        return CUSTOM;
    };
    let of_version = versions.iter().find(|(known, _)| *known == version);
    (*of_group, of_version.map_or(15, |(_, priority)| *priority))
}
