//! Pod Security Standards, as the labels of a namespace ask for them: enforced, warned about, or noted.

mod baseline;
mod restricted;
mod seen;

use litek8s_machinery::gvk::GroupResource;
use serde_json::{Map, Value};

use super::attributes::{Attributes, Operation};
use crate::endpoints::metadata;
use crate::response::Failure;

use seen::Seen;

const PREFIX: &str = "pod-security.kubernetes.io";
/// What the annotations start with that the levels look at.
const PROFILES: [&str; 3] = [
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
    "container.apparmor.security.beta.kubernetes.io/",
];

/// How much a pod may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Baseline,
    Restricted,
}

/// What a check says against a pod: what is forbidden, and where it is.
struct Violation {
    what: &'static str,
    detail: String,
}

/// Refuses, warns about and notes pods and templates of pods as their namespace says.
pub(super) fn check(attributes: &Attributes<'_>, object: &Value) -> Result<(), Failure> {
    let cx = attributes.cx;
    if cx.namespace.is_empty() || attributes.operation == Operation::Delete {
        return Ok(());
    }
    let Some((template, is_pod)) = template(attributes, object) else { return Ok(()) };
    let before = attributes.old.and_then(|old| self::template(attributes, old));
    if before.is_some_and(|(old, _)| !is_significant(old, template)) {
        return Ok(());
    }
    let labels = attributes.namespace_labels(Some(object)).unwrap_or_default();
    let seen = Seen::of(template);
    if let Some((level, text)) = level(&labels, "audit")
        && let Some(why) = said(&seen, level)
    {
        attributes.annotate(
            "pod-security.kubernetes.io/audit-violations",
            &format!("would violate PodSecurity {text:?}: {why}"),
        );
    }
    let enforced = level(&labels, "enforce").filter(|_| is_pod);
    if is_pod {
        let policy = enforced.as_ref().map_or("privileged:latest", |(_, text)| text);
        attributes.annotate("pod-security.kubernetes.io/enforce-policy", policy);
    }
    if let Some((level, text)) = enforced
        && let Some(why) = said(&seen, level)
    {
        return Err(attributes.forbidden(format!("violates PodSecurity {text:?}: {why}")));
    }
    if let Some((level, text)) = level(&labels, "warn")
        && let Some(why) = said(&seen, level)
    {
        cx.warnings.add(format!("would violate PodSecurity {text:?}: {why}"));
    }
    Ok(())
}

/// The pod, or the template of pods, in an object; and whether it is a pod.
fn template<'a>(attributes: &Attributes<'_>, object: &'a Value) -> Option<(&'a Value, bool)> {
    let resource = attributes.cx.resource;
    let (of, sub) =
        (GroupResource::new(resource.group.clone(), resource.plural.clone()), attributes.cx.subresource);
    match (&*of.group, &*of.resource, sub) {
        ("", "pods", "" | "ephemeralcontainers") => Some((object, true)),
        ("", "podtemplates", "") => object.get("template").map(|template| (template, false)),
        ("", "replicationcontrollers", "")
        | ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets", "")
        | ("batch", "jobs", "") => object.pointer("/spec/template").map(|template| (template, false)),
        ("batch", "cronjobs", "") => {
            object.pointer("/spec/jobTemplate/spec/template").map(|template| (template, false))
        }
        _ => None,
    }
}

/// Whether a change is one that the levels have something to say about (`isSignificantPodUpdate`): what was let in by an
/// older level may be labelled and lose its finalizers.
fn is_significant(old: &Value, new: &Value) -> bool {
    let profiles = |pod: &Value| {
        let all = annotations(pod).into_iter().flatten();
        let judged = all.filter(|(name, _)| PROFILES.iter().any(|prefix| name.starts_with(prefix)));
        judged.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>()
    };
    old["spec"] != new["spec"] || profiles(old) != profiles(new)
}

/// The level that a label asks for, with how it is written; nothing for `privileged`.
fn level(labels: &Map<String, Value>, mode: &str) -> Option<(Level, String)> {
    let text = |name: String| labels.get(&name).and_then(Value::as_str);
    let name = text(format!("{PREFIX}/{mode}"))?;
    let version =
        text(format!("{PREFIX}/{mode}-version")).filter(|version| !version.is_empty()).unwrap_or("latest");
    let level = match name {
        "privileged" => return None,
        "baseline" => Level::Baseline,
        // What is misspelt is meant to protect.
        _ => Level::Restricted,
    };
    let shown = if level == Level::Restricted { "restricted" } else { name };
    Some((level, format!("{shown}:{version}")))
}

/// Everything against the pod in one line.
fn said(seen: &Seen<'_>, level: Level) -> Option<String> {
    let mut violations = baseline::check(seen, level == Level::Restricted);
    if level == Level::Restricted {
        violations.extend(restricted::check(seen));
    }
    // The order in which clients know them.
    const ORDER: [&str; 16] = [
        "allowPrivilegeEscalation != false",
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        "non-default capabilities",
        "unrestricted capabilities",
        "host namespaces",
        "hostPath volumes",
        "hostPort",
        "privileged",
        "procMount",
        "restricted volume types",
        "runAsNonRoot != true",
        "runAsUser=0",
        "seLinuxOptions",
        "seccompProfile",
        "forbidden sysctls",
    ];
    violations.sort_by_key(|violation| {
        ORDER.iter().position(|what| *what == violation.what).unwrap_or(ORDER.len())
    });
    let texts: Vec<String> = violations
        .into_iter()
        .map(|violation| format!("{} ({})", violation.what, violation.detail))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    plural("container", names)
}

fn plural(word: &str, names: &[&str]) -> String {
    let list = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() == 1 { format!("{word} {list}") } else { format!("{word}s {list}") }
}

/// The violation, when containers do it.
fn by_containers(what: &'static str, names: &[&str], must: &str) -> Option<Violation> {
    (!names.is_empty()).then(|| Violation { what, detail: format!("{} {must}", containers(names)) })
}

/// Whether the pod runs where half of the rules have no meaning.
fn is_windows(seen: &Seen<'_>) -> bool {
    seen.spec["os"]["name"] == "windows"
}

/// A text at a place in a value.
fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    at(value, field).as_str()
}

fn at<'a>(value: &'a Value, field: &str) -> &'a Value {
    field.split('.').fold(value, |found, step| &found[step])
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    metadata::field(object, "annotations").and_then(Value::as_object)
}

#[cfg(test)]
mod tests;
