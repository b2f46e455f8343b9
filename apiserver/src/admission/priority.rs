//! A pod's priority is the value of its PriorityClass; nobody sets it by hand. As `Priority` upstream.

use litek8s_store::{GroupResource, ObjectKey};
use serde_json::{Value, json};

use super::attributes::{Attributes, Operation};
use crate::endpoints::metadata;
use crate::response::Failure;

/// The classes every cluster has, also before anybody made them.
const SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Resolves the class of a new pod; on an update what was resolved stays.
pub(super) fn resolve(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    let resource = attributes.cx.resource;
    let is_pod = resource.group.is_empty() && *resource.plural == *"pods";
    if !is_pod || !attributes.cx.subresource.is_empty() || attributes.operation != Operation::Create {
        return Ok(());
    }
    let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
    let view = attributes.cx.view;
    let spec = metadata::object(object, "spec");
    let name = spec["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let parsed = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap_or_default();
    let class = if name.is_empty() {
        let defaults = view.list(&classes, None).map(|class| parsed(&class.json));
        let defaults = defaults.filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
    } else {
        let stored = view.get(&ObjectKey::new(classes, "", &name)).map(|class| parsed(&class.json));
        let system = SYSTEM.iter().find(|(system, _)| *system == name);
        let known = stored
            .or_else(|| system.map(|(name, value)| json!({"metadata": {"name": name}, "value": value})));
        match known {
            Some(class) => Some(class),
            None => return Err(attributes.forbidden(format!("no PriorityClass with name {name} was found"))),
        }
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class
        .as_ref()
        .and_then(|class| class["preemptionPolicy"].as_str())
        .unwrap_or("PreemptLowerPriority")
        .to_owned();
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        return Err(attributes.forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        )));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        return Err(attributes.forbidden(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    if let Some(class) = &class {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
    }
    spec["priority"] = json!(value);
    spec["preemptionPolicy"] = json!(policy);
    if let Some(map) = spec.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    Ok(())
}
