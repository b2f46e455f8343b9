//! HorizontalPodAutoscalers in two versions: `autoscaling/v2` is stored, and `autoscaling/v1` knows one metric, the CPU.
//! What v1 has no field for is shown in annotations, and read from them when it comes back.

use serde_json::{Map, Value, json};

use super::Strategy;
use crate::endpoints::metadata;
use crate::response::Failure;

/// The version that is stored.
const STORED: &str = "autoscaling/v2";
/// The CPU utilization of an autoscaler that names no metric in v1, in percent.
const DEFAULT_UTILIZATION: u64 = 80;
/// The annotations of v1, and the place in v2 that each stands for.
const KEPT: [(&str, &str, &str); 4] = [
    ("autoscaling.alpha.kubernetes.io/metrics", "spec", "metrics"),
    ("autoscaling.alpha.kubernetes.io/behavior", "spec", "behavior"),
    ("autoscaling.alpha.kubernetes.io/current-metrics", "status", "currentMetrics"),
    ("autoscaling.alpha.kubernetes.io/conditions", "status", "conditions"),
];

/// The behaviour of both versions.
pub(super) struct Autoscaler;

impl Strategy for Autoscaler {
    fn convert(&self, objects: &[&Value], to: &str) -> Option<Result<Vec<Value>, Failure>> {
        let turn = if to == STORED { into_v2 } else { into_v1 };
        Some(Ok(objects.iter().map(|object| turn(object, to)).collect()))
    }
}

fn into_v1(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = Value::from(to);
    let metrics = object["spec"]["metrics"].as_array().cloned().unwrap_or_default();
    let (cpu, others): (Vec<Value>, Vec<Value>) =
        metrics.into_iter().partition(|metric| !utilization(metric, "target").is_null());
    let measured = object["status"]["currentMetrics"].as_array().into_iter().flatten();
    let measured =
        measured.map(|metric| utilization(metric, "current")).find(|percent| !percent.is_null()).cloned();
    if let Some(spec) = object["spec"].as_object_mut() {
        if others.is_empty() {
            spec.remove("metrics")
        } else {
            spec.insert("metrics".to_owned(), others.into())
        };
        if let Some(cpu) = cpu.first() {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), utilization(cpu, "target").clone());
        }
    }
    if let Some(percent) = measured {
        object["status"]["currentCPUUtilizationPercentage"] = percent;
    }
    let mut annotations = annotations(&object);
    for (annotation, part, field) in KEPT {
        annotations.remove(annotation);
        let value = object.get_mut(part).and_then(Value::as_object_mut).and_then(|part| part.remove(field));
        if let Some(value) = value.filter(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            annotations.insert(annotation.to_owned(), Value::from(value.to_string()));
        }
    }
    set_annotations(&mut object, annotations);
    object
}

fn into_v2(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = Value::from(to);
    let mut annotations = annotations(&object);
    for (annotation, part, field) in KEPT {
        let text = annotations.remove(annotation);
        let value = text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        if let Some(value) = value.filter(|value| is_of_v2(field, value)) {
            metadata::object(&mut object, part)[field] = value;
        }
    }
    set_annotations(&mut object, annotations);
    let take = |object: &mut Value, part: &str, field: &str| {
        object.get_mut(part).and_then(Value::as_object_mut).and_then(|part| part.remove(field))
    };
    let target = take(&mut object, "spec", "targetCPUUtilizationPercentage");
    let measured = take(&mut object, "status", "currentCPUUtilizationPercentage");
    let mut metrics = object["spec"]["metrics"].as_array().cloned().unwrap_or_default();
    if target.is_some() || metrics.is_empty() {
        let percent = target.unwrap_or_else(|| DEFAULT_UTILIZATION.into());
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    object["spec"]["metrics"] = Value::Array(metrics);
    if let Some(percent) = measured.filter(|_| object["status"]["currentMetrics"].is_null()) {
        let current = json!({"averageUtilization": percent});
        object["status"]["currentMetrics"] =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    }
    object
}

/// The CPU utilization in percent that a metric wants or measures, or null.
fn utilization<'a>(metric: &'a Value, which: &str) -> &'a Value {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    if is_cpu { &metric["resource"][which]["averageUtilization"] } else { &Value::Null }
}

/// Whether an annotation holds what this server writes there; others are dropped, as unreadable ones are upstream.
fn is_of_v2(field: &str, value: &Value) -> bool {
    let wanted = match field {
        "metrics" => "target",
        "currentMetrics" => "current",
        "conditions" => {
            return value.as_array().is_some_and(|list| list.iter().all(|one| one["type"].is_string()));
        }
        _ => return value.is_object(),
    };
    let whole = |metric: &Value| {
        let ty = metric["type"].as_str().unwrap_or_default();
        let mut letters = ty.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        let field: String = first.into_iter().chain(letters).collect();
        metric[field.as_str()][wanted].is_object()
    };
    value.as_array().is_some_and(|list| list.iter().all(whole))
}

fn annotations(object: &Value) -> Map<String, Value> {
    object["metadata"]["annotations"].as_object().cloned().unwrap_or_default()
}

fn set_annotations(object: &mut Value, annotations: Map<String, Value>) {
    metadata::set(object, "annotations", (!annotations.is_empty()).then_some(Value::Object(annotations)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::tests::Server;

    const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

    fn autoscaler(more: Value) -> Value {
        let mut spec = json!({"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    #[tokio::test]
    async fn the_cpu_is_a_field_in_one_version_and_a_metric_in_the_other() {
        let server = Server::start().await;
        let made = server.post(V1, autoscaler(json!({"targetCPUUtilizationPercentage": 55}))).await;
        assert_eq!((made.code, &made.body["spec"]["targetCPUUtilizationPercentage"]), (201, &json!(55)));
        assert_eq!(made.body["apiVersion"], "autoscaling/v1", "{}", made.text);
        let shown = server.get(&format!("{V2}/web")).await;
        let target = json!({"type": "Utilization", "averageUtilization": 55});
        assert_eq!(
            shown.body["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
        );
        let list = server.get(V1).await;
        assert_eq!(list.body["items"][0]["spec"]["targetCPUUtilizationPercentage"], 55, "{}", list.text);
    }

    #[tokio::test]
    async fn what_the_older_version_has_no_field_for_survives_an_update_through_it() {
        let server = Server::start().await;
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 7}});
        let made = server.post(V2, autoscaler(json!({"metrics": [memory], "behavior": behavior}))).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let mut old = server.get(&format!("{V1}/web")).await.body;
        assert!(old["spec"].get("metrics").is_none() && old["spec"].get("behavior").is_none(), "{old}");
        old["spec"]["maxReplicas"] = json!(5);
        let changed = server.put(&format!("{V1}/web"), old).await;
        assert_eq!(changed.code, 200, "{}", changed.text);
        let shown = server.get(&format!("{V2}/web")).await.body;
        assert_eq!((&shown["spec"]["metrics"], &shown["spec"]["maxReplicas"]), (&json!([memory]), &json!(5)));
        assert_eq!(shown["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 7);
        assert!(shown["metadata"].get("annotations").is_none(), "{shown}");
    }
}
