//! The claims of a StatefulSet's pods: made before the pod, mounted by it, and owned so that they go when the policy says.

use litek8s_store::{Object, OwnerReference};
use serde_json::{Value, json};

use super::super::action::{Action, Note};
use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::Set;
use super::member::Member;
use crate::endpoints::metadata;

/// The names of a pod's claims beside their templates.
fn named<'s>(set: &'s Set<'_>, ordinal: i64) -> impl Iterator<Item = (String, &'s Value)> {
    let name =
        move |claim: &Value| format!("{}-{}-{ordinal}", metadata::text(claim, "name"), set.object.key.name);
    set.claim_templates().iter().map(move |claim| (name(claim), claim))
}

/// Has a pod's spec mount its claims in the place of volumes of their names.
pub(super) fn mount(set: &Set<'_>, spec: &mut Value, ordinal: i64) {
    let mut volumes: Vec<Value> = named(set, ordinal)
        .map(|(name, claim)| {
            json!({"name": metadata::text(claim, "name"), "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    if volumes.is_empty() {
        return;
    }
    let own = read::list(&spec["volumes"]).iter();
    let kept: Vec<Value> =
        own.filter(|volume| volumes.iter().all(|claim| claim["name"] != volume["name"])).cloned().collect();
    volumes.extend(kept);
    spec["volumes"] = Value::Array(volumes);
}

/// Whether a pod can have its claims.
pub(super) enum Claims {
    /// They are all there.
    There,
    /// These are missing.
    Missing(Vec<Action>),
    /// One of an earlier pod still goes.
    Going,
}

/// Looks for the claims of a pod.
pub(super) fn claims(facts: &Facts<'_>, set: &Set<'_>, ordinal: i64) -> Claims {
    let mut missing = Vec::new();
    let pod = format!("{}-{ordinal}", set.object.key.name);
    for (name, template) in named(set, ordinal) {
        match facts.view.get(&Kind::PersistentVolumeClaim.key(&set.object.key.namespace, &name)) {
            Some(claim) if claim.meta.is_terminating() => return Claims::Going,
            Some(_) => {}
            None => missing.push(create(set, &pod, name, template)),
        }
    }
    if missing.is_empty() { Claims::There } else { Claims::Missing(missing) }
}

/// Whether a claim of a pod that is to be created belongs to the pod of that name that was there before.
pub(super) fn is_stale(facts: &Facts<'_>, set: &Set<'_>, ordinal: i64) -> bool {
    let pod = format!("{}-{ordinal}", set.object.key.name);
    when(set, "whenScaled")
        && named(set, ordinal).any(|(name, _)| {
            let claim = facts.view.get(&Kind::PersistentVolumeClaim.key(&set.object.key.namespace, &name));
            claim.is_some_and(|claim| claim.meta.owners.iter().any(|owner| names(owner, Kind::Pod, &pod)))
        })
}

fn create(set: &Set<'_>, pod: &str, name: String, template: &Value) -> Action {
    let mut claim = template.clone();
    let text = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.object.key.name);
    metadata::set(&mut claim, "name", Some(json!(name)));
    metadata::set(&mut claim, "namespace", Some(json!(&*set.object.key.namespace)));
    metadata::set(&mut claim, "creationTimestamp", None);
    let labels = metadata::object(&mut claim["metadata"], "labels");
    for (key, value) in read::texts(&set.spec()["selector"]["matchLabels"]) {
        labels[key] = json!(value);
    }
    if let Some(fields) = claim.as_object_mut() {
        fields.remove("status");
    }
    Action::create(Kind::PersistentVolumeClaim, claim).noted(Note::new("SuccessfulCreate", text))
}

/// Whether claims are deleted then.
fn when(set: &Set<'_>, moment: &str) -> bool {
    set.spec()["persistentVolumeClaimRetentionPolicy"][moment] == "Delete"
}

fn names(owner: &OwnerReference, kind: Kind, name: &str) -> bool {
    owner.kind == kind.name() && owner.api_version == kind.api_version() && owner.name == name
}

/// Makes the owners of a pod's claims those of the retention policy. The set owns them while the pod is wanted and they
/// are to go with the set; the pod owns them once it is not wanted any more and they are to go with it.
pub(super) fn retain(facts: &Facts<'_>, set: &Set<'_>, member: &Member<'_>) -> Vec<Action> {
    let wanted = set.is_in_range(member.ordinal);
    let (scaled, deleted) = (when(set, "whenScaled"), when(set, "whenDeleted"));
    let by_set = deleted && (wanted || !scaled);
    let by_pod = scaled && !wanted;
    let claims = named(set, member.ordinal).filter_map(|(name, _)| {
        facts.view.get(&Kind::PersistentVolumeClaim.key(&set.object.key.namespace, &name))
    });
    claims.filter_map(|claim| owned(claim, (set, by_set), (member, by_pod), scaled || deleted)).collect()
}

/// The claim with the owners that it is to have; nothing when it has them, or when somebody else rules over it.
fn owned(
    claim: &Object,
    (set, by_set): (&Set<'_>, bool),
    (member, by_pod): (&Member<'_>, bool),
    by_policy: bool,
) -> Option<Action> {
    let (set, pod) = (set.object, member.pod.object);
    let of_set = |owner: &OwnerReference| names(owner, Kind::StatefulSet, &set.key.name);
    let of_pod = |owner: &OwnerReference| names(owner, Kind::Pod, &pod.key.name);
    let owners = &claim.meta.owners;
    // What an earlier set or pod of the name left goes with the garbage.
    let stale = |owner: &OwnerReference| {
        (of_set(owner) && owner.uid != set.meta.uid) || (of_pod(owner) && owner.uid != pod.meta.uid)
    };
    if owners.iter().any(stale) {
        return None;
    }
    let foreign = owners.iter().any(|owner| owner.controller && !of_set(owner) && !of_pod(owner));
    let conflict = by_policy && foreign;
    let is = |uid: &str| owners.iter().any(|owner| owner.uid == uid && owner.controller);
    let loose = |uid: &str| owners.iter().any(|owner| owner.uid == uid && !owner.controller);
    let wanted = (by_set && !conflict, by_pod && !conflict);
    let settled = (is(&set.meta.uid), is(&pod.meta.uid)) == wanted;
    if settled && !loose(&set.meta.uid) && !loose(&pod.meta.uid) {
        return None;
    }
    let mut changed = read::value(claim)?;
    let mut references = read::list(&changed["metadata"]["ownerReferences"]).to_vec();
    references.retain(|owner| owner["uid"] != set.meta.uid.as_str() && owner["uid"] != pod.meta.uid.as_str());
    if wanted.0 {
        references.push(Kind::StatefulSet.controls(set));
    }
    if wanted.1 {
        references.push(Kind::Pod.controls(pod));
    }
    metadata::set(&mut changed, "ownerReferences", (!references.is_empty()).then(|| json!(references)));
    Some(Action::update(Kind::PersistentVolumeClaim, changed))
}
