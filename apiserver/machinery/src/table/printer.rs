//! The printers by name, and those that are a line or two.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{age, event, network, pod, workload};
use crate::jsonpath;

/// A cell of a built-in kind. A name that is not known prints nothing.
pub(super) fn print(name: &str, object: &Value, now: Timestamp) -> Value {
    if let Some(fields) = name.strip_prefix("count.") {
        let count: usize = fields.split('+').map(|field| at(object, field).map_or(0, length)).sum();
        return Value::from(count);
    }
    if let Some(path) = name.strip_prefix("labels.") {
        return Value::from(labels(at(object, path)));
    }
    if let Some(path) = name.strip_prefix("age.") {
        return Value::from(at(object, path).map_or("<none>".to_owned(), |time| age::since(Some(time), now)));
    }
    if let Some(path) = name.strip_prefix("join.") {
        return items(object, path).iter().map(jsonpath::text).collect::<Vec<_>>().join(",").into();
    }
    match name {
        "pod.ready" => pod::ready(object).into(),
        "pod.status" => pod::status(object).into(),
        "pod.restarts" => pod::restarts(object, now).into(),
        "pod.ip" => pod::ip(object).into(),
        "pod.readiness_gates" => pod::readiness_gates(object).into(),
        "node.status" => network::node_status(object).into(),
        "node.roles" => network::node_roles(object).into(),
        "node.internal_ip" => network::node_address(object, "InternalIP").into(),
        "node.external_ip" => network::node_address(object, "ExternalIP").into(),
        "service.cluster_ip" => network::cluster_ip(object).into(),
        "service.external_ip" => network::external_ip(object).into(),
        "service.ports" => network::service_ports(object).into(),
        "endpoints" => network::endpoints(object).into(),
        "endpointslice.ports" => network::slice_ports(object).into(),
        "endpointslice.endpoints" => network::slice_endpoints(object).into(),
        "ingress.hosts" => network::ingress_hosts(object).into(),
        "ingress.address" => network::load_balancer(object).into(),
        "ingress.ports" => if at(object, "spec.tls").is_some() { "80, 443" } else { "80" }.into(),
        "selector" => workload::selector(at(object, "spec.selector")).into(),
        "selector.podSelector" => workload::selector(at(object, "spec.podSelector")).into(),
        "ready_of_desired" => workload::ready(object).into(),
        "template.containers" => workload::containers(at(object, "spec.template.spec"), "name").into(),
        "template.images" => workload::containers(at(object, "spec.template.spec"), "image").into(),
        "podtemplate.containers" => workload::containers(at(object, "template.spec"), "name").into(),
        "podtemplate.images" => workload::containers(at(object, "template.spec"), "image").into(),
        "cronjob.containers" => workload::containers(job_template(object), "name").into(),
        "cronjob.images" => workload::containers(job_template(object), "image").into(),
        "cronjob.suspend" => python_bool(at(object, "spec.suspend")).into(),
        "job.status" => workload::job_status(object).into(),
        "job.completions" => workload::job_completions(object).into(),
        "job.duration" => workload::job_duration(object, now).into(),
        "hpa.reference" => workload::hpa_reference(object).into(),
        "hpa.targets" => workload::hpa_targets(object).into(),
        "controller" => workload::controller(object).into(),
        _ if name.starts_with("event.") => event::print(name, object, now),
        _ => other(name, object).into(),
    }
}

fn other(name: &str, object: &Value) -> String {
    match name {
        "phase" => match at(object, "metadata.deletionTimestamp") {
            Some(_) => "Terminating".to_owned(),
            None => text(object, "status.phase"),
        },
        "access_modes.spec" => access_modes(at(object, "spec.accessModes")),
        "access_modes.status" => access_modes(at(object, "status.accessModes")),
        "pv.claim" => match at(object, "spec.claimRef") {
            Some(claim) => format!("{}/{}", text(claim, "namespace"), text(claim, "name")),
            None => String::new(),
        },
        "quota.requests" => quota(object, false),
        "quota.limits" => quota(object, true),
        "param_kind" => match at(object, "spec.paramKind") {
            Some(kind) => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")),
            None => "<unset>".to_owned(),
        },
        "apiservice.service" => match at(object, "spec.service") {
            Some(service) => format!("{}/{}", text(service, "namespace"), text(service, "name")),
            None => "Local".to_owned(),
        },
        "apiservice.available" => available(object),
        "ipaddress.parent" => network::address_parent(object),
        "ingressclass.parameters" => match at(object, "spec.parameters") {
            Some(parameters) => {
                let group = match text(parameters, "apiGroup") {
                    group if group.is_empty() => String::new(),
                    group => format!(".{group}"),
                };
                format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
            }
            None => "<none>".to_owned(),
        },
        "rbac.role" => {
            format!("{}/{}", text(object, "roleRef.kind"), text(object, "roleRef.name"))
        }
        "rbac.users" => subjects(object, "User"),
        "rbac.groups" => subjects(object, "Group"),
        "rbac.service_accounts" => subjects(object, "ServiceAccount"),
        "csr.duration" => match at(object, "spec.expirationSeconds").and_then(Value::as_i64) {
            Some(seconds) => age::human_duration(seconds),
            None => "<none>".to_owned(),
        },
        "csr.condition" => csr_condition(object),
        "resourceclaim.state" => claim_state(object),
        _ => String::new(),
    }
}

/// The value at a dotted path; `null` is absent.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// The text at a dotted path, or nothing.
pub(super) fn text(object: &Value, path: &str) -> String {
    at(object, path).map(jsonpath::text).unwrap_or_default()
}

/// The items at a dotted path.
pub(super) fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The number at a dotted path, or 0.
pub(super) fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// The texts, or `<none>` when there are none.
pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: Option<&Value>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{key}={}", jsonpath::text(value));
    let empty = Map::new();
    let map = map.and_then(Value::as_object).unwrap_or(&empty);
    or_none(map.iter().map(pair).collect::<Vec<_>>().join(","))
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// What has become of a claim of devices, its states joined.
fn claim_state(claim: &Value) -> String {
    let deleted = at(claim, "metadata.deletionTimestamp").is_some();
    let allocated = at(claim, "status.allocation").is_some();
    let reserved = allocated && !items(claim, "status.reservedFor").is_empty();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let names: Vec<_> = states.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect();
    names.join(",")
}

fn job_template(object: &Value) -> Option<&Value> {
    at(object, "spec.jobTemplate.spec.template.spec")
}

fn python_bool(value: Option<&Value>) -> &'static str {
    match value.and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
}

fn access_modes(modes: Option<&Value>) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "",
    };
    modes
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(short)
        .collect::<Vec<_>>()
        .join(",")
}

fn quota(object: &Value, limits: bool) -> String {
    let empty = Map::new();
    let hard = at(object, "status.hard").and_then(Value::as_object).unwrap_or(&empty);
    let one = |(name, hard): (&String, &Value)| {
        let used = object.pointer("/status/used").and_then(|used| used.get(name));
        let used = used.map_or("0".to_owned(), jsonpath::text);
        (name.starts_with("limits.") == limits).then(|| format!("{name}: {used}/{}", jsonpath::text(hard)))
    };
    hard.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn subjects(object: &Value, kind: &str) -> String {
    let name = |subject: &Value| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name"),
    };
    let of_kind = items(object, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
    of_kind.map(name).collect::<Vec<_>>().join(", ")
}

/// The condition of a type.
pub(super) fn condition<'a>(object: &'a Value, ty: &str) -> Option<&'a Value> {
    items(object, "status.conditions").iter().find(|condition| text(condition, "type") == ty)
}

fn available(object: &Value) -> String {
    let Some(condition) = condition(object, "Available") else { return "Unknown".to_owned() };
    let status = text(condition, "status");
    if status == "True" { status } else { format!("{status} ({})", text(condition, "reason")) }
}

fn csr_condition(object: &Value) -> String {
    let has = |ty: &str| condition(object, ty).is_some();
    let mut parts = Vec::new();
    if has("Denied") {
        parts.push("Denied");
    } else if has("Approved") {
        parts.push("Approved");
    } else {
        parts.push("Pending");
    }
    if has("Failed") {
        parts.push("Failed");
    }
    if at(object, "status.certificate").is_some() {
        parts.push("Issued");
    }
    parts.join(",")
}
