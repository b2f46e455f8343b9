//! The set that has the Deployment's template: found, named, numbered and created.

use serde_json::json;

use super::super::action::{Action, Note};
use super::super::condition::{self, Condition};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::set::{HASH, Set};
use super::{Deployment, annotation, status};
use crate::reconcile::hash;

/// Brings the newest set's revision and annotations up to date, and tells the Deployment's.
pub(super) fn settle(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Vec<Action> {
    let Some(set) = deployment.new_set() else { return Vec::new() };
    let mut changed = set.value.clone();
    let mut news = annotation::hand_on(&mut changed, &deployment.value, next_revision(deployment));
    let seconds = &deployment.spec()["minReadySeconds"];
    if !read::same(seconds, &changed["spec"]["minReadySeconds"]) {
        changed["spec"]["minReadySeconds"] = json!(seconds.as_i64().unwrap_or(0));
        news = true;
    }
    if news {
        return vec![Action::update(Kind::ReplicaSet, changed)];
    }
    let mut owner = deployment.value.clone();
    let mut news = annotation::tell_revision(&mut owner, set.object);
    if deployment.progress_deadline().is_some()
        && condition::find(&owner["status"], status::PROGRESSING).is_none()
    {
        let message = format!("Found new replica set \"{}\"", set.object.key.name);
        let found = Condition {
            ty: status::PROGRESSING,
            status: "True",
            reason: "FoundNewReplicaSet",
            message: &message,
        };
        status::set(&mut owner["status"], &found, facts.now);
        news = true;
    }
    if news { vec![Action::status(Kind::Deployment, owner)] } else { Vec::new() }
}

/// One more than the highest revision of the other sets.
fn next_revision(deployment: &Deployment<'_>) -> i64 {
    deployment.old_sets().map(|set| annotation::revision(&set.value)).max().unwrap_or(0) + 1
}

/// Creates the set; when another one has its name, the next try has another.
pub(super) fn create(facts: &Facts<'_>, deployment: &Deployment<'_>) -> Vec<Action> {
    let collisions = deployment.value["status"]["collisionCount"].as_i64();
    let mut template = deployment.spec()["template"].clone();
    let hash = hash::of(&template, collisions);
    let name = format!("{}-{hash}", deployment.object.key.name);
    if facts.view.get(&Kind::ReplicaSet.key(&deployment.object.key.namespace, &name)).is_some() {
        let mut changed = deployment.value.clone();
        changed["status"]["collisionCount"] = json!(collisions.unwrap_or(0) + 1);
        return vec![Action::status(Kind::Deployment, changed)];
    }
    template["metadata"]["labels"][HASH] = json!(hash);
    let mut selector = deployment.spec()["selector"].clone();
    selector["matchLabels"][HASH] = json!(hash);
    let replicas = replicas(deployment, None);
    let mut set = json!({
        "metadata": {
            "name": name, "namespace": &*deployment.object.key.namespace,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [Kind::Deployment.controls(deployment.object)],
        },
        "spec": {
            "replicas": replicas, "selector": selector, "template": template,
            "minReadySeconds": deployment.spec()["minReadySeconds"].as_i64().unwrap_or(0),
        },
    });
    annotation::hand_on(&mut set, &deployment.value, next_revision(deployment));
    annotation::set_replicas(&mut set, deployment);
    let mut create = Action::create(Kind::ReplicaSet, set);
    if replicas > 0 {
        let text = format!("Scaled up replica set {{}} from 0 to {replicas}");
        create = create.noted(Note::new("ScalingReplicaSet", text));
    }
    let mut actions = vec![create];
    if deployment.progress_deadline().is_some() {
        let mut changed = deployment.value.clone();
        let message = format!("Created new replica set \"{name}\"");
        let created = Condition {
            ty: status::PROGRESSING,
            status: "True",
            reason: "NewReplicaSetCreated",
            message: &message,
        };
        status::set(&mut changed["status"], &created, facts.now);
        actions.push(Action::status(Kind::Deployment, changed));
    }
    actions
}

/// How many pods the newest set may have now.
pub(super) fn replicas(deployment: &Deployment<'_>, set: Option<&Set<'_>>) -> i64 {
    let (wanted, has) = (deployment.replicas(), set.map_or(0, Set::replicas));
    if !deployment.is_rolling() {
        return wanted;
    }
    let room = wanted + deployment.max_surge() - deployment.total();
    if room <= 0 { has } else { has + room.min(wanted - has) }
}
