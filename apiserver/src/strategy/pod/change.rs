//! What an update may change in a pod's spec, as `ValidatePodUpdate` and `ValidatePodEphemeralContainersUpdate` upstream.

use litek8s_machinery::field::FieldError;
use serde_json::{Map, Value};

use super::list;

/// The lists of containers that a pod begins with.
pub(super) const LISTS: [&str; 2] = ["containers", "initContainers"];

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What is wrong with a plain update of the spec `old` to `new`.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    if let Some(changed) = LISTS.into_iter().find(|name| list(new, name).len() != list(old, name).len()) {
        let detail = "pod updates may not add or remove containers";
        return vec![FieldError::forbidden(format!("spec.{changed}"), detail)];
    }
    let mut masked = new.clone();
    let mut errors: Vec<FieldError> = deadline(&new["activeDeadlineSeconds"], &old["activeDeadlineSeconds"])
        .into_iter()
        .chain(tolerations(new, old))
        .chain(added_gates(new, old))
        .chain(moved(new, old))
        .collect();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
        masked[field] = old[field].clone();
    }
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        masked["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"].clone();
    }
    for name in LISTS {
        let containers = masked[name].as_array_mut().into_iter().flatten();
        containers.zip(list(old, name)).for_each(|(new, old)| new["image"] = old["image"].clone());
    }
    if !list(old, "schedulingGates").is_empty() {
        errors.extend(narrowed(new, old));
        masked["nodeSelector"] = old["nodeSelector"].clone();
        masked["affinity"]["nodeAffinity"] = old["affinity"]["nodeAffinity"].clone();
    }
    if !same(&masked, old) {
        errors.push(FieldError::forbidden("spec", UPDATABLE));
    }
    errors
}

/// What is wrong with a change of the ephemeral containers: they come and stay as they are.
pub(super) fn ephemeral(new: &Value, old: &Value) -> Vec<FieldError> {
    let refuse = |container: &Value| {
        let name = &container["name"];
        let now = list(new, "ephemeralContainers").iter().find(|other| other["name"] == *name);
        let done = match now {
            None => "removed",
            Some(now) if !same(now, container) => "changed",
            Some(_) => return None,
        };
        let detail = format!("existing ephemeral containers {name} may not be {done}");
        Some(FieldError::forbidden("spec.ephemeralContainers", detail))
    };
    list(old, "ephemeralContainers").iter().filter_map(refuse).collect()
}

/// Whether both say the same: an absent field, `null` and an empty list or object say nothing.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let covers = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null)))
            };
            covers(a, b) && covers(b, a)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A deadline is set once and then only made shorter.
fn deadline(new: &Value, old: &Value) -> Option<FieldError> {
    let detail = match (new.as_i64(), old.as_i64()) {
        (Some(new), _) if i32::try_from(new).is_ok_and(|new| new >= 0) => {
            old.as_i64().filter(|old| *old < new).map(|_| "must be less than or equal to previous value")?
        }
        (Some(_), _) => "must be between 0 and 2147483647, inclusive",
        (None, Some(_)) => "must not update from a positive integer to nil value",
        (None, None) => return None,
    };
    Some(FieldError::invalid("spec.activeDeadlineSeconds", new.clone(), detail))
}

/// Tolerations are added, and change in nothing but their time.
fn tolerations(new: &Value, old: &Value) -> Option<FieldError> {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration["tolerationSeconds"] = Value::Null;
        toleration
    };
    let now: Vec<Value> = list(new, "tolerations").iter().map(timeless).collect();
    let kept = |toleration| now.iter().any(|other| same(other, &timeless(toleration)));
    let detail = "existing toleration can not be modified except its tolerationSeconds";
    (!list(old, "tolerations").iter().all(kept)).then(|| FieldError::forbidden("spec.tolerations", detail))
}

fn added_gates<'a>(new: &'a Value, old: &'a Value) -> impl Iterator<Item = FieldError> + 'a {
    let known = |gate: &Value| list(old, "schedulingGates").iter().any(|other| other["name"] == gate["name"]);
    let added = list(new, "schedulingGates").iter().enumerate().filter(move |(_, gate)| !known(gate));
    added.map(|(at, gate)| {
        let name = gate["name"].as_str().unwrap_or_default();
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        FieldError::forbidden(format!("spec.schedulingGates[{at}].name"), detail)
    })
}

/// An update that could put a pod on a node would pass by who may bind.
fn moved(new: &Value, old: &Value) -> Option<FieldError> {
    let detail =
        "pod updates may not change `spec.nodeName`; a pod is put on a node by its binding subresource";
    (new["nodeName"] != old["nodeName"]).then(|| FieldError::forbidden("spec.nodeName", detail))
}

/// Where a gated pod may run is only narrowed.
fn narrowed(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (selector, before) = (&new["nodeSelector"], &old["nodeSelector"]);
    if before.as_object().into_iter().flatten().any(|(key, value)| selector[key.as_str()] != *value) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", selector.clone(), detail));
    }
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = |spec: &Value| {
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        list(required, "nodeSelectorTerms").to_vec()
    };
    let (new, old) = (terms(new), terms(old));
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(at, new, detail));
        return errors;
    }
    let replaced = new.iter().zip(&old).enumerate().filter(|(_, (new, old))| !extends(new, old));
    errors.extend(replaced.map(|(index, (new, _))| {
        let detail = "only additions are allowed (no mutations or deletions)";
        FieldError::invalid(format!("{at}[{index}]"), new.clone(), detail)
    }));
    errors
}

/// Whether a node selector term has all its requirements still, and was no term that selects nothing.
fn extends(new: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    let empty = |term: &Value| fields.iter().all(|field| list(term, field).is_empty());
    let kept = |field: &&str| list(new, field).starts_with(list(old, field));
    (!empty(old) || empty(new)) && fields.iter().all(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        json!({
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "500m"}}}],
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 9}],
            "terminationGracePeriodSeconds": 30,
        })
    }

    /// The errors of a change of `spec` at `pointer` to `value`.
    fn changed(old: &Value, field: &str, value: Value) -> String {
        let mut new = old.clone();
        match new.pointer_mut(field) {
            Some(place) => *place = value,
            None => new[&field[1..]] = value,
        }
        update(&new, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn little_of_a_pod_can_be_changed() {
        let old = spec();
        assert_eq!(changed(&old, "/containers/0/image", json!("i:2")), "");
        assert_eq!(changed(&old, "/tolerations/0/tolerationSeconds", json!(3)), "");
        assert_eq!(changed(&old, "/activeDeadlineSeconds", json!(30)), "");
        assert_eq!(changed(&old, "/volumes", json!([])), "");
        for (field, value, part) in [
            ("/containers/0/resources/requests/cpu", json!("100m"), "may not change fields other than"),
            ("/terminationGracePeriodSeconds", json!(1), "may not change fields other than"),
            ("/hostNetwork", json!(true), "may not change fields other than"),
            ("/ephemeralContainers", json!([{"name": "e"}]), "may not change fields other than"),
            ("/nodeSelector", json!({"a": "b"}), "may not change fields other than"),
            ("/containers", json!([]), "spec.containers: Forbidden: pod updates may not add or remove"),
            ("/tolerations", json!([]), "existing toleration can not be modified"),
            ("/schedulingGates", json!([{"name": "g"}]), "found new scheduling gate 'g'"),
            ("/nodeName", json!("n"), "by its binding subresource"),
            ("/activeDeadlineSeconds", json!(-1), "must be between 0 and 2147483647"),
        ] {
            let errors = changed(&old, field, value);
            assert!(errors.contains(part) && !errors.contains('\n'), "{field}: {errors}");
        }
    }

    #[test]
    fn a_deadline_only_gets_shorter() {
        let mut old = spec();
        old["activeDeadlineSeconds"] = json!(20);
        assert_eq!(changed(&old, "/activeDeadlineSeconds", json!(5)), "");
        assert!(
            changed(&old, "/activeDeadlineSeconds", json!(21)).contains("less than or equal to previous")
        );
        assert!(changed(&old, "/activeDeadlineSeconds", Value::Null).contains("must not update from"));
    }

    #[test]
    fn a_gated_pod_may_be_told_more_of_where_it_runs() {
        let terms = |keys: &[&str]| {
            let expressions: Vec<Value> =
                keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}})
        };
        let mut old = spec();
        old["schedulingGates"] = json!([{"name": "g"}]);
        old["nodeSelector"] = json!({"a": "b"});
        assert_eq!(changed(&old, "/affinity", terms(&["x"])), "");
        assert_eq!(changed(&old, "/nodeSelector", json!({"a": "b", "c": "d"})), "");
        assert!(
            changed(&old, "/nodeSelector", json!({"a": "c"})).contains("only additions to spec.nodeSelector")
        );
        old["affinity"] = terms(&["x"]);
        assert_eq!(changed(&old, "/affinity", terms(&["x", "y"])), "");
        assert!(changed(&old, "/affinity", terms(&["y"])).contains("nodeSelectorTerms[0]"));
        assert!(changed(&old, "/affinity", Value::Null).contains("no additions/deletions"));
    }

    #[test]
    fn ephemeral_containers_stay_as_they_are() {
        let pod = |containers: Value| json!({"ephemeralContainers": containers});
        let old = pod(json!([{"name": "a", "image": "i"}]));
        assert!(ephemeral(&pod(json!([{"name": "b"}, {"name": "a", "image": "i"}])), &old).is_empty());
        assert_eq!(ephemeral(&pod(json!([{"name": "a", "image": "j"}])), &old).len(), 1);
        assert_eq!(ephemeral(&pod(json!([])), &old).len(), 1);
    }
}
