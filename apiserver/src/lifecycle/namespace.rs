//! The end of a namespace: its content goes, pods first; the conditions say what is left; then the namespace goes.

use std::collections::BTreeMap;

use litek8s_store::{Command, Object};
use serde_json::{Value, json};

use super::decide::Facts;
use super::edit;
use super::removal::{Propagation, remove};
use super::subject::namespace_key;
use crate::aggregation::Content;
use crate::endpoints::metadata;

/// The finalizer in `spec` that stands for the content.
const FINALIZER: &str = "kubernetes";

/// What is to be done about a namespace that ends, or that is gone while something in it is not.
pub(super) fn decide(facts: &Facts<'_>, name: &str) -> Vec<Command> {
    let namespace = facts.view.get(&namespace_key(name));
    if namespace.is_some_and(|namespace| !namespace.meta.is_terminating()) {
        return Vec::new();
    }
    let content = content(facts, name);
    let Some(namespace) = namespace else {
        // Created in the moment in which the namespace went.
        return content.into_iter().filter_map(|o| remove(facts, o, Propagation::Background)).collect();
    };
    let Some(mut value) = edit::value(namespace) else { return Vec::new() };
    let finalizers = value.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.iter().any(|f| f == FINALIZER) {
        return Vec::new();
    }
    let aggregated = match facts.aggregated {
        None => Some(Content::default()),
        Some(contents) => contents.get(&namespace.meta.uid).cloned(),
    };
    if content.is_empty() {
        let Some(aggregated) = aggregated.as_ref().filter(|aggregated| !aggregated.holds()) else {
            set_conditions(&mut value, &Remaining::of(&content, aggregated.as_ref()), facts);
            return edit::update(namespace, &value).into_iter().collect();
        };
        let left: Vec<Value> = finalizers.into_iter().filter(|f| f != FINALIZER).collect();
        let held = !left.is_empty();
        metadata::object(&mut value, "spec")["finalizers"] = Value::Array(left);
        set_conditions(&mut value, &Remaining::of(&content, Some(aggregated)), facts);
        return edit::finish(namespace, &value, held).into_iter().collect();
    }
    let is_pod =
        |object: &&&Object| object.key.resource.group.is_empty() && *object.key.resource.resource == *"pods";
    let pods: Vec<&Object> = content.iter().filter(is_pod).copied().collect();
    let first = if pods.is_empty() { &content } else { &pods };
    let mut commands: Vec<Command> =
        first.iter().filter_map(|object| remove(facts, object, Propagation::Background)).collect();
    // What goes at once need not be counted: the last of it comes back here.
    if commands.is_empty() {
        set_conditions(&mut value, &Remaining::of(&content, aggregated.as_ref()), facts);
        commands.extend(edit::update(namespace, &value));
    }
    commands
}

fn content<'a>(facts: &Facts<'a>, name: &str) -> Vec<&'a Object> {
    let view = facts.view;
    let objects = view.resources().flat_map(|(resource, _)| view.list(resource, Some(name)));
    objects.map(|object| &**object).filter(|object| !object.key.namespace.is_empty()).collect()
}

/// What is left in a namespace, counted.
#[derive(Default)]
struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    /// Group versions of aggregated servers of which nothing is known.
    unknown: Vec<String>,
    /// What aggregated servers did not delete.
    failed: Vec<String>,
}

impl Remaining {
    fn of(content: &[&Object], aggregated: Option<&Content>) -> Self {
        let Content { unknown, failed, remaining } = aggregated.cloned().unwrap_or_default();
        let mut remaining = Remaining { resources: remaining, unknown, failed, ..Remaining::default() };
        for object in content {
            *remaining.resources.entry(object.key.resource.to_string()).or_default() += 1;
            for finalizer in &object.meta.finalizers {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        remaining
    }
}

fn set_conditions(namespace: &mut Value, remaining: &Remaining, facts: &Facts<'_>) {
    let counted = |counts: &BTreeMap<String, usize>, has: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, n)| format!("{name} {has} {n} resource instances")).collect();
        parts.join(", ")
    };
    let (resources, finalizers) =
        (counted(&remaining.resources, "has"), counted(&remaining.finalizers, "in"));
    let states = [
        if remaining.unknown.is_empty() {
            (
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            )
        } else {
            let (count, list) = (remaining.unknown.len(), remaining.unknown.join(", "));
            let message = format!(
                "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {list}"
            );
            ("NamespaceDeletionDiscoveryFailure", true, "DiscoveryFailed", message)
        },
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        if remaining.failed.is_empty() {
            (
                "NamespaceDeletionContentFailure",
                false,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            )
        } else {
            let (count, list) = (remaining.failed.len(), remaining.failed.join(", "));
            let message = format!("Failed to delete all resource types, {count} remaining: {list}");
            ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message)
        },
        if resources.is_empty() {
            (
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            )
        } else {
            (
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                format!("Some resources are remaining: {resources}"),
            )
        },
        if finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            (
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {finalizers}"),
            )
        },
    ];
    let status = metadata::object(namespace, "status");
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    for (ty, holds, reason, message) in states {
        let holds = if holds { "True" } else { "False" };
        let condition = json!({
            "type": ty, "status": holds, "reason": reason, "message": message,
            "lastTransitionTime": metadata::time(facts.now),
        });
        match conditions.iter_mut().find(|c| c["type"] == ty) {
            None => conditions.push(condition),
            Some(known)
                if known["status"] == holds && known["reason"] == reason && known["message"] == message => {}
            Some(known) => *known = condition,
        }
    }
}
