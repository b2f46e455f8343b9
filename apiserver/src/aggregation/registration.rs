//! The APIServices of what this server itself serves: made for every group and version, gone with a definition's last.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use litek8s_machinery::discovery::priorities;
use litek8s_machinery::gvk::GroupVersion;
use litek8s_machinery::resource::builtin;
use litek8s_store::{Command, GroupResource, Object, ObjectKey, Precondition, Revision, View};
use serde_json::{Value, json};

use super::strategy::set_local;
use super::{API_SERVICES, api_services};
use crate::endpoints::metadata;
use crate::extensions::{DEFINITIONS, is_condition_true};

/// The label of what is made here; whoever takes it off keeps the object to himself.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Of built-in groups: completed when a server begins to lead.
const ON_START: &str = "onstart";
/// Of custom resources: completed always.
const ALWAYS: &str = "true";

/// The versions that definitions serve, each definition read once for every change of it.
#[derive(Default)]
pub(super) struct Registrar {
    definitions: BTreeMap<Arc<str>, (Revision, Vec<GroupVersion>)>,
}

impl Registrar {
    /// What has to be done so that the APIServices are as they should be; with `start` also those of built-in groups.
    pub(super) fn decide(&mut self, view: &View, start: bool, now: Timestamp) -> Vec<Command> {
        self.follow(view);
        let wanted = self.wanted();
        let mut commands = Vec::new();
        for (name, (spec, managed)) in &wanted {
            let key = ObjectKey::new(api_services(), "", name);
            match view.get(&key) {
                None if start || *managed == ALWAYS => commands.push(create(key, spec, managed, now)),
                None => {}
                Some(object) => commands.extend(complete(object, spec, now)),
            }
        }
        let gone = view.list(&api_services(), None).filter(|object| !wanted.contains_key(&*object.key.name));
        commands.extend(gone.filter(|object| is_managed(object)).map(|object| Command::Delete {
            key: object.key.clone(),
            precondition: Precondition::at(object.revision),
        }));
        commands
    }

    fn follow(&mut self, view: &View) {
        let mut before = std::mem::take(&mut self.definitions);
        for object in view.list(&GroupResource::new(DEFINITIONS.0, DEFINITIONS.2), None) {
            let known = before.remove(&object.key.name).filter(|(revision, _)| *revision == object.revision);
            let known = known.unwrap_or_else(|| (object.revision, served(object)));
            self.definitions.insert(object.key.name.clone(), known);
        }
    }

    /// The specification of each APIService by name, and how it is managed.
    fn wanted(&self) -> BTreeMap<String, (Value, &'static str)> {
        let mut wanted = BTreeMap::new();
        let mut add = |group: &str, version: &str, managed| {
            wanted
                .entry(format!("{version}.{group}"))
                .or_insert_with(|| (specification(group, version), managed));
        };
        // The server of APIServices is not among what it aggregates.
        for resource in builtin().iter().filter(|resource| *resource.group != *API_SERVICES.0) {
            add(&resource.group, &resource.version, ON_START);
        }
        for version in self.definitions.values().flat_map(|(_, versions)| versions) {
            add(&version.group, &version.version, ALWAYS);
        }
        wanted
    }
}

fn specification(group: &str, version: &str) -> Value {
    let (of_group, of_version) = priorities(group, version);
    let mut spec =
        json!({"version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version});
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    spec
}

/// The versions that a definition makes this server serve.
fn served(object: &Object) -> Vec<GroupVersion> {
    let definition: Value = serde_json::from_slice(&object.json).unwrap_or_default();
    if !is_condition_true(&definition, "Established") {
        return Vec::new();
    }
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served.filter_map(|version| Some(GroupVersion::new(group, version["name"].as_str()?))).collect()
}

/// Whether the object is one that is made here.
pub(super) fn is_managed(object: &Object) -> bool {
    object.meta.labels.get(MANAGED).is_some_and(|label| label == ALWAYS || label == ON_START)
}

fn create(key: ObjectKey, spec: &Value, managed: &str, now: Timestamp) -> Command {
    let mut object = json!({
        "apiVersion": format!("{}/{}", API_SERVICES.0, API_SERVICES.1),
        "kind": "APIService",
        "metadata": {
            "name": &*key.name, "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": metadata::time(now), "labels": {MANAGED: managed},
        },
        "spec": spec,
    });
    set_local(&mut object, now);
    Command::Create { key, object: Bytes::from(object.to_string()), claims: Vec::new() }
}

/// The update that makes an object as it should be: the specification if it is ours, the condition if it is local.
fn complete(object: &Object, spec: &Value, now: Timestamp) -> Option<Command> {
    let before: Value = serde_json::from_slice(&object.json).ok()?;
    let mut after = before.clone();
    if is_managed(object) {
        after["spec"] = spec.clone();
    }
    if !after["spec"]["service"].is_object() {
        set_local(&mut after, now);
    }
    update(object, &before, after)
}

/// The command that replaces an object, if that is another one.
pub(super) fn update(object: &Object, before: &Value, mut after: Value) -> Option<Command> {
    if *before == after {
        return None;
    }
    metadata::set(&mut after, "resourceVersion", None);
    Some(Command::Update {
        key: object.key.clone(),
        object: Bytes::from(after.to_string()),
        precondition: Precondition::at(object.revision),
        claims: object.claims.to_vec(),
    })
}
