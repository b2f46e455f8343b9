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

/// How early a group stands in lists, so that a short name means the expected kind.
pub fn group_priority(group: &str) -> u32 {
    const ORDER: [&str; 16] = [
        "",
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
    ];
    let place = ORDER.iter().position(|known| *known == group);
    match place.map(u32::try_from) {
        Some(Ok(place)) => 18_000 - 50 * place,
        _ if group.ends_with(".k8s.io") => 17_000,
        _ => 1_000,
    }
}
