//! Which objects a quota with scopes is about; only pods have any.

use litek8s_store::GroupResource;
use serde_json::Value;

use super::super::amount;

/// Whether the quota counts the object.
pub(super) fn covers(spec: &Value, resource: &GroupResource, object: &Value) -> bool {
    let scopes = spec["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let scopes = scopes.map(|scope| (scope, "Exists", &Value::Null));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().map(|term| {
        let text = |field: &str| term[field].as_str().unwrap_or_default();
        (text("scopeName"), text("operator"), &term["values"])
    });
    let is_pod = resource.group.is_empty() && *resource.resource == *"pods";
    scopes.chain(selected).all(|(scope, operator, values)| is_pod && has(scope, operator, values, object))
}

fn has(scope: &str, operator: &str, values: &Value, pod: &Value) -> bool {
    let spec = &pod["spec"];
    match scope {
        "Terminating" => spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0),
        "NotTerminating" => spec["activeDeadlineSeconds"].as_i64().is_none_or(|seconds| seconds < 0),
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().unwrap_or_default();
            let named = || values.as_array().into_iter().flatten().any(|value| value == class);
            match operator {
                "In" => named(),
                "NotIn" => !named(),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn is_best_effort(spec: &Value) -> bool {
    amount::containers(spec).all(|(_, container)| {
        let given = |field: &str| {
            let amounts = amount::all(&container["resources"][field]);
            ["cpu", "memory"].iter().any(|name| amounts.get(*name).is_some_and(|amount| *amount != 0))
        };
        !given("requests") && !given("limits")
    })
}

fn crosses_namespaces(spec: &Value) -> bool {
    let affinity = &spec["affinity"];
    let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| {
        let list = |field: &str| affinity[kind][field].as_array().into_iter().flatten();
        let preferred =
            list("preferredDuringSchedulingIgnoredDuringExecution").map(|term| &term["podAffinityTerm"]);
        list("requiredDuringSchedulingIgnoredDuringExecution").chain(preferred).collect::<Vec<_>>()
    });
    terms.into_iter().any(|term| {
        term["namespaces"].as_array().is_some_and(|list| !list.is_empty())
            || term["namespaceSelector"].is_object()
    })
}
