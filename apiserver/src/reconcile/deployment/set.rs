//! One ReplicaSet of a Deployment.

use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::super::action::{Action, Note};
use super::super::kind::Kind;
use super::super::read;
use super::Deployment;
use super::annotation;

/// The label that tells the pods of one template from those of others.
pub(super) const HASH: &str = "pod-template-hash";

/// A ReplicaSet.
pub(super) struct Set<'a> {
    /// The object.
    pub(super) object: &'a Arc<Object>,
    /// The object, parsed.
    pub(super) value: Value,
}

impl<'a> Set<'a> {
    /// Reads a ReplicaSet.
    pub(super) fn read(object: &'a Arc<Object>) -> Option<Self> {
        Some(Self { object, value: read::value(object)? })
    }

    /// How many pods it is to have.
    pub(super) fn replicas(&self) -> i64 {
        self.value["spec"]["replicas"].as_i64().unwrap_or(1)
    }

    /// A number of its status.
    pub(super) fn counted(&self, field: &str) -> i64 {
        self.value["status"][field].as_i64().unwrap_or(0)
    }

    /// Its available pods.
    pub(super) fn available(&self) -> i64 {
        self.counted("availableReplicas")
    }

    /// Sorts sets by age, the oldest first.
    pub(super) fn age(&self) -> (Option<&str>, &str) {
        (self.object.meta.creation_timestamp.as_deref(), &self.object.key.name)
    }

    /// Whether its pods are those of a template.
    pub(super) fn has_template(&self, template: &Value) -> bool {
        read::same(&without_hash(&self.value["spec"]["template"]), &without_hash(template))
    }

    /// The set with another number of pods, and with what the Deployment wants written down; nothing when that is so.
    pub(super) fn scaled(&self, deployment: &Deployment<'_>, replicas: i64) -> Option<Action> {
        let before = self.replicas();
        let mut changed = self.value.clone();
        let noted = annotation::set_replicas(&mut changed, deployment);
        if before == replicas {
            return noted.then(|| Action::update(Kind::ReplicaSet, changed));
        }
        changed["spec"]["replicas"] = json!(replicas);
        let way = if replicas > before { "up" } else { "down" };
        let text = format!("Scaled {way} replica set {{}} from {before} to {replicas}");
        Some(Action::update(Kind::ReplicaSet, changed).noted(Note::new("ScalingReplicaSet", text)))
    }
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    template
}
