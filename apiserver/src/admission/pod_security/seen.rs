//! What the checks look at.

use serde_json::Value;

use super::at;

/// A pod's parts.
pub(super) struct Seen<'a> {
    /// The pod, or the template of pods.
    pub(super) object: &'a Value,
    /// Its spec.
    pub(super) spec: &'a Value,
    containers: Vec<(&'a str, &'a Value)>,
}

impl<'a> Seen<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        let spec = &object["spec"];
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().flat_map(|list| spec[*list].as_array().into_iter().flatten());
        let containers = containers.map(|c| (c["name"].as_str().unwrap_or_default(), c)).collect();
        Self { object, spec, containers }
    }

    /// All containers with their names, those that only start it and those that came later too.
    pub(super) fn containers(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + '_ {
        self.containers.iter().copied()
    }

    /// The names of the containers that this is true of.
    pub(super) fn that(&self, test: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|(_, container)| test(container)).map(|(name, _)| name).collect()
    }

    /// The pod's own security context.
    pub(super) fn security(&self, field: &str) -> &'a Value {
        at(&self.spec["securityContext"], field)
    }
}

/// A field of a container's security context.
pub(super) fn security<'a>(container: &'a Value, field: &str) -> &'a Value {
    at(&container["securityContext"], field)
}

/// The texts of a list.
pub(super) fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
