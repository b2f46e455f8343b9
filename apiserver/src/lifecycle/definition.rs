//! The end of a CustomResourceDefinition: its objects go first, then it goes, and its names are free for others.

use litek8s_store::{Command, GroupResource, Object, ObjectKey};
use serde_json::Value;

use super::decide::Facts;
use super::edit;
use super::removal::{Propagation, remove};
use crate::endpoints::metadata;
use crate::extensions::{CLEANUP_FINALIZER, Condition, is_condition_true, set_condition, settle_among};
use crate::registry::is_stored_by_builtin;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions"), "", name)
}

/// What is to be done about a definition.
pub(super) fn decide(facts: &Facts<'_>, name: &str) -> Vec<Command> {
    let Some(definition) = facts.view.get(&key(name)) else { return Vec::new() };
    let Some(mut value) = edit::value(definition) else { return Vec::new() };
    if !definition.meta.is_terminating() {
        return accept_names(facts, definition, value).into_iter().collect();
    }
    if !definition.meta.finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
        return Vec::new();
    }
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resource = GroupResource::new(text("/spec/group"), text("/spec/names/plural"));
    if is_stored_by_builtin(&resource) {
        return finish(
            definition,
            value,
            facts,
            "OverlappingBuiltInResource",
            "instances overlap with built-in resources in storage",
        );
    }
    let instances: Vec<&Object> = facts.view.list(&resource, None).map(|object| &**object).collect();
    if instances.is_empty() {
        let (reason, message) = if is_condition_true(&value, "Established") {
            ("InstanceDeletionCompleted", "removed all instances")
        } else {
            ("NeverEstablished", "resource was never established")
        };
        return finish(definition, value, facts, reason, message);
    }
    let mut commands: Vec<Command> =
        instances.into_iter().filter_map(|object| remove(facts, object, Propagation::Background)).collect();
    let condition = Condition {
        ty: "Terminating",
        holds: true,
        reason: "InstanceDeletionInProgress",
        message: "CustomResource deletion is in progress",
    };
    set_condition(&mut value, &condition, &metadata::time(facts.now));
    commands.extend(edit::update(definition, &value));
    commands
}

/// Names that were in use may be free now.
fn accept_names(facts: &Facts<'_>, definition: &Object, mut value: Value) -> Option<Command> {
    if is_condition_true(&value, "NamesAccepted") {
        return None;
    }
    settle_among(facts.view, &mut value, &metadata::time(facts.now));
    edit::update(definition, &value)
}

fn finish(
    definition: &Object,
    mut value: Value,
    facts: &Facts<'_>,
    reason: &str,
    message: &str,
) -> Vec<Command> {
    let condition = Condition { ty: "Terminating", holds: false, reason, message };
    set_condition(&mut value, &condition, &metadata::time(facts.now));
    edit::drop_finalizer(&mut value, CLEANUP_FINALIZER);
    edit::finish(definition, &value, false).into_iter().collect()
}

/// Objects that were created in the moment in which their definition went.
pub(super) fn leftovers(facts: &Facts<'_>, resource: &GroupResource) -> Vec<Command> {
    let name = format!("{}.{}", resource.resource, resource.group);
    if is_stored_by_builtin(resource) || facts.view.get(&key(&name)).is_some() {
        return Vec::new();
    }
    // Nobody can reach them any more, not even to take their finalizers away.
    facts.view.list(resource, None).map(|object| edit::delete(object)).collect()
}
