//! The templates that an object had, kept as ControllerRevisions so that one can go back to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::facts::Facts;
use super::hash;
use super::kind::Kind;
use super::read;
use crate::endpoints::metadata;

/// The longest part of the owner's name in a revision's name.
const NAME: usize = 223;

/// One template.
pub(super) struct Revision<'a> {
    /// The object.
    pub(super) object: &'a Arc<Object>,
    /// Its number: the higher, the newer.
    pub(super) number: i64,
    value: Value,
}

impl<'a> Revision<'a> {
    fn read(object: &'a Arc<Object>) -> Option<Self> {
        let value = read::value(object)?;
        Some(Self { object, number: value["revision"].as_i64().unwrap_or(0), value })
    }

    /// The name.
    pub(super) fn name(&self) -> &str {
        &self.object.key.name
    }

    /// The template.
    pub(super) fn template(&self) -> Value {
        let mut template = self.value["data"]["spec"]["template"].clone();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        template
    }
}

/// The revisions of an object, the oldest first.
pub(super) fn sorted<'a>(objects: Vec<&'a Arc<Object>>) -> Vec<Revision<'a>> {
    let mut revisions: Vec<Revision<'a>> = objects.into_iter().filter_map(Revision::read).collect();
    revisions.sort_by(|a, b| {
        let key = |r: &Revision<'a>| {
            (r.number, r.object.meta.creation_timestamp.clone(), r.object.key.name.clone())
        };
        key(a).cmp(&key(b))
    });
    revisions
}

/// The place of the revision that has the object's template now, or what is to be written so that one has. `label` is the
/// name of the label that tells a revision's hash.
pub(super) fn current(
    facts: &Facts<'_>,
    (kind, owner, value): (Kind, &Arc<Object>, &Value),
    revisions: &[Revision<'_>],
    label: &str,
) -> Result<usize, Decision> {
    let template = &value["spec"]["template"];
    let next = revisions.last().map_or(0, |last| last.number) + 1;
    if let Some(at) = revisions.iter().rposition(|revision| read::same(&revision.template(), template)) {
        if at + 1 == revisions.len() {
            return Ok(at);
        }
        // The object went back to it: it becomes the newest.
        let mut changed = revisions[at].value.clone();
        changed["revision"] = json!(next);
        return Err(vec![Action::update(Kind::ControllerRevision, changed)].into());
    }
    let collisions = value["status"]["collisionCount"].as_i64();
    let hash = hash::of(template, collisions);
    let prefix: String = owner.key.name.chars().take(NAME).collect();
    let name = format!("{prefix}-{hash}");
    if facts.view.get(&Kind::ControllerRevision.key(&owner.key.namespace, &name)).is_some() {
        let mut changed = value.clone();
        metadata::object(&mut changed, "status")["collisionCount"] = json!(collisions.unwrap_or(0) + 1);
        return Err(vec![Action::status(kind, changed)].into());
    }
    let mut patch = template.clone();
    metadata::object(&mut patch, "metadata");
    patch["$patch"] = json!("replace");
    let mut labels = template["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[label] = json!(hash);
    let revision = json!({
        "metadata": {
            "name": name, "namespace": &*owner.key.namespace, "labels": labels,
            "annotations": value["metadata"]["annotations"],
            "ownerReferences": [kind.controls(owner)],
        },
        "data": {"spec": {"template": patch}},
        "revision": next,
    });
    Err(vec![Action::create(Kind::ControllerRevision, revision)].into())
}

/// Deletes the oldest of those that nothing uses, beyond the `limit` that are kept.
pub(super) fn clean_up(revisions: &[Revision<'_>], used: &BTreeSet<String>, limit: i64) -> Vec<Action> {
    let unused: Vec<_> = revisions.iter().filter(|revision| !used.contains(revision.name())).collect();
    let surplus = unused.len().saturating_sub(read::size(limit));
    let gone = unused.into_iter().take(surplus);
    gone.map(|revision| Action::delete(Kind::ControllerRevision, revision.object)).collect()
}
