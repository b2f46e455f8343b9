//! The cells of deployments, jobs and what else runs pods.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::age;
use super::printer::{at, condition, items, labels, number, or_none, text};

/// `1/3`: ready replicas of the wanted ones.
pub(super) fn ready(object: &Value) -> String {
    format!("{}/{}", number(object, "status.readyReplicas"), number(object, "spec.replicas"))
}

/// A field of every container of a pod's spec, joined by commas.
pub(super) fn containers(spec: Option<&Value>, field: &str) -> String {
    let containers = spec.map_or(&[][..], |spec| items(spec, "containers"));
    containers.iter().map(|container| text(container, field)).collect::<Vec<_>>().join(",")
}

/// A label selector as a text: `a=b,c in (d,e),!f`.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut parts = Vec::new();
    let plain = labels(at(selector, "matchLabels"));
    if plain != "<none>" {
        parts.push(plain);
    }
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        let mut values: Vec<String> = items(expression, "values").iter().map(crate::jsonpath::text).collect();
        values.sort();
        let values = values.join(",");
        parts.push(match text(expression, "operator").as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key,
            _ => format!("!{key}"),
        });
    }
    or_none(parts.join(","))
}

/// One word on a job.
pub(super) fn job_status(job: &Value) -> String {
    let holds = |ty: &str| condition(job, ty).is_some_and(|it| text(it, "status") == "True");
    let status = match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if at(job, "metadata.deletionTimestamp").is_some() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    status.to_owned()
}

/// `1/3`, or `1/1 of 3` when only the parallelism is known.
pub(super) fn job_completions(job: &Value) -> String {
    let done = number(job, "status.succeeded");
    match (at(job, "spec.completions"), number(job, "spec.parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    }
}

/// How long a job has run.
pub(super) fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |path: &str| text(job, path).parse::<Timestamp>().ok();
    match (time("status.startTime"), time("status.completionTime")) {
        (Some(start), end) => age::human_duration(age::seconds_between(start, end.unwrap_or(now))),
        (None, _) => String::new(),
    }
}

/// What an autoscaler scales.
pub(super) fn hpa_reference(object: &Value) -> String {
    format!("{}/{}", text(object, "spec.scaleTargetRef.kind"), text(object, "spec.scaleTargetRef.name"))
}

/// Current and wanted metrics of an autoscaler.
pub(super) fn hpa_targets(object: &Value) -> String {
    if let Some(target) = at(object, "spec.targetCPUUtilizationPercentage") {
        let current = at(object, "status.currentCPUUtilizationPercentage");
        let current = current.map_or("<unknown>".to_owned(), |current| format!("{current}%"));
        return format!("cpu: {current}/{target}%");
    }
    let current = items(object, "status.currentMetrics");
    let one = |(place, metric): (usize, &Value)| {
        let ty = text(metric, "type");
        let field = match ty.chars().next() {
            Some(first) => format!("{}{}", first.to_lowercase(), &ty[first.len_utf8()..]),
            None => return "<unknown>".to_owned(),
        };
        let value = |root: Option<&Value>, part: &str| {
            let values = root.and_then(|root| at(root, &format!("{field}.{part}")));
            let empty = Map::new();
            let values = values.and_then(Value::as_object).unwrap_or(&empty);
            if let Some(percent) = values.get("averageUtilization") {
                return format!("{percent}%");
            }
            let amount = values.get("averageValue").or_else(|| values.get("value"));
            amount.map_or("<unknown>".to_owned(), crate::jsonpath::text)
        };
        let name = text(metric, "resource.name");
        let prefix = if name.is_empty() { String::new() } else { format!("{name}: ") };
        format!("{prefix}{}/{}", value(current.get(place), "current"), value(Some(metric), "target"))
    };
    or_none(items(object, "spec.metrics").iter().enumerate().map(one).collect::<Vec<_>>().join(", "))
}

/// The controller among the owners, as `statefulset.apps/web`.
pub(super) fn controller(object: &Value) -> String {
    let owner = items(object, "metadata.ownerReferences").iter().find(|owner| owner["controller"] == true);
    let Some(owner) = owner else { return "<none>".to_owned() };
    let group =
        crate::gvk::GroupVersion::parse(&text(owner, "apiVersion")).map(|gv| gv.group).unwrap_or_default();
    let kind = text(owner, "kind").to_lowercase();
    let name = text(owner, "name");
    if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") }
}
