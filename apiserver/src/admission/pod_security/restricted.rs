//! The restricted level: what current practice asks of a hardened pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::seen::{Seen, security, texts};
use super::{Violation, by_containers, containers, is_windows, text};

/// The kinds of volumes that carry nothing of the node.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// What is against the restricted level beyond the baseline.
pub(super) fn check(seen: &Seen<'_>) -> Vec<Violation> {
    let mut found = vec![volumes(seen), run_as_non_root(seen), run_as_user(seen)];
    if !is_windows(seen) {
        let escalating = seen.that(|container| security(container, "allowPrivilegeEscalation") != false);
        let must = "must set securityContext.allowPrivilegeEscalation=false";
        found.push(by_containers("allowPrivilegeEscalation != false", &escalating, must));
        found.push(capabilities(seen));
        found.push(seccomp(seen));
    }
    found.into_iter().flatten().collect()
}

fn volumes(seen: &Seen<'_>) -> Option<Violation> {
    let mut names = Vec::new();
    let mut kinds = BTreeSet::new();
    for volume in seen.spec["volumes"].as_array().into_iter().flatten() {
        let fields = volume.as_object().into_iter().flatten();
        let mut sources = fields.filter(|(field, value)| *field != "name" && !value.is_null());
        let bad = sources.find(|(field, _)| !VOLUMES.contains(&field.as_str()));
        if let Some((kind, _)) = bad {
            names.push(text(volume, "name").unwrap_or_default());
            kinds.insert(kind.as_str());
        }
    }
    if names.is_empty() {
        return None;
    }
    let list = kinds.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", ");
    let verb = if names.len() == 1 { "uses" } else { "use" };
    let word = if kinds.len() == 1 { "type" } else { "types" };
    let detail = format!("{} {verb} restricted volume {word} {list}", super::plural("volume", &names));
    Some(Violation { what: "restricted volume types", detail })
}

fn run_as_non_root(seen: &Seen<'_>) -> Option<Violation> {
    const WHAT: &str = "runAsNonRoot != true";
    let pod = seen.security("runAsNonRoot");
    let explicit = seen.that(|container| security(container, "runAsNonRoot") == false);
    if pod == false || !explicit.is_empty() {
        let mut details = Vec::new();
        if pod == false {
            details.push("pod must not set securityContext.runAsNonRoot=false".to_owned());
        }
        if !explicit.is_empty() {
            details
                .push(format!("{} must not set securityContext.runAsNonRoot=false", containers(&explicit)));
        }
        return Some(Violation { what: WHAT, detail: details.join(" and ") });
    }
    if pod == true {
        return None;
    }
    let silent = seen.that(|container| security(container, "runAsNonRoot").is_null());
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
    (!silent.is_empty()).then_some(Violation { what: WHAT, detail })
}

fn run_as_user(seen: &Seen<'_>) -> Option<Violation> {
    let root = |value: &Value| value.as_i64() == Some(0);
    let mut details = Vec::new();
    if root(seen.security("runAsUser")) {
        details.push("pod must not set runAsUser=0".to_owned());
    }
    let names = seen.that(|container| root(security(container, "runAsUser")));
    if !names.is_empty() {
        details.push(format!("{} must not set runAsUser=0", containers(&names)));
    }
    (!details.is_empty()).then(|| Violation { what: "runAsUser=0", detail: details.join(" and ") })
}

fn capabilities(seen: &Seen<'_>) -> Option<Violation> {
    let dropping =
        |container: &Value| texts(security(container, "capabilities.drop")).any(|name| name == "ALL");
    let adds = |container: &Value| {
        let added = texts(security(container, "capabilities.add")).filter(|name| *name != "NET_BIND_SERVICE");
        added.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let keeping = seen.that(|container| !dropping(container));
    let adding = seen.that(|container| !adds(container).is_empty());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details
            .push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        let all: BTreeSet<String> = seen.containers().flat_map(|(_, container)| adds(container)).collect();
        let list = all.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        details.push(format!(
            "{} must not include {list} in securityContext.capabilities.add",
            containers(&adding)
        ));
    }
    (!details.is_empty()).then(|| Violation { what: "unrestricted capabilities", detail: details.join("; ") })
}

fn seccomp(seen: &Seen<'_>) -> Option<Violation> {
    const WHAT: &str = "seccompProfile";
    const FIELD: &str = "securityContext.seccompProfile.type";
    let fine = |profile: &Value| matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost"));
    let pod = seen.security("seccompProfile.type");
    let mut details = Vec::new();
    if !pod.is_null() && !fine(pod) {
        details.push(format!("pod must not set {FIELD} to {pod}"));
    }
    let explicit = seen.that(|container| {
        let own = security(container, "seccompProfile.type");
        !own.is_null() && !fine(own)
    });
    if !explicit.is_empty() {
        details.push(format!("{} must not set {FIELD} to \"Unconfined\"", containers(&explicit)));
    }
    if details.is_empty() && pod.is_null() {
        let silent = seen.that(|container| security(container, "seccompProfile.type").is_null());
        if !silent.is_empty() {
            details.push(format!(
                "pod or {} must set {FIELD} to \"RuntimeDefault\" or \"Localhost\"",
                containers(&silent)
            ));
        }
    }
    (!details.is_empty()).then(|| Violation { what: WHAT, detail: details.join(" and ") })
}
