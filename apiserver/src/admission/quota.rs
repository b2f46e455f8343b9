//! ResourceQuotas: what a write adds to a namespace is entered into its quotas in the same step that makes it, so that
//! writes at the same time cannot exceed them together. As `ResourceQuota` upstream.

mod count;
mod scope;
mod usage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use litek8s_machinery::gvk::GroupResource as Gr;
use litek8s_machinery::status::Status;
use litek8s_store::{Command, GroupResource, Object, Precondition, View};
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::amount;
use crate::endpoints::metadata;
use crate::registry::Served;
use crate::response::Failure;

pub(crate) use count::{is_recounted, status};

/// Who writes in a namespace with quotas: one at a time, so that writers need not try again and again.
#[derive(Default)]
pub(super) struct Turns {
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to write in a namespace with quotas.
pub(crate) type Turn = Option<OwnedMutexGuard<()>>;

impl Turns {
    /// Waits for the turn, if the namespace has quotas.
    pub(super) async fn enter(&self, view: &View, namespace: &str) -> Turn {
        quotas(view, namespace).next()?;
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(namespace.to_owned()).or_default().clone()
        };
        Some(turn.lock_owned().await)
    }
}

fn quotas<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let resource = GroupResource::new("", "resourcequotas");
    let listed: Vec<_> =
        if namespace.is_empty() { Vec::new() } else { view.list(&resource, Some(namespace)).collect() };
    listed.into_iter()
}

/// What the quotas of the namespace become with this write, or 403 when one has no room for it.
///
/// `new` replaces `old`, or is new.
pub(crate) fn charge(
    view: &View,
    served: &Served,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<Command>, Failure> {
    let mut commands = Vec::new();
    for quota in quotas(view, namespace) {
        let value: Value = serde_json::from_slice(&quota.json).unwrap_or_default();
        if let Some(object) = charge_one(view, served, namespace, &value, new, old)? {
            let precondition =
                Precondition { uid: Some(quota.meta.uid.as_str().into()), revision: Some(quota.revision) };
            let claims = quota.claims.to_vec();
            commands.push(Command::Update { key: quota.key.clone(), object, precondition, claims });
        }
    }
    Ok(commands)
}

/// The quota with the write entered; nothing when it does not concern it.
fn charge_one(
    view: &View,
    served: &Served,
    namespace: &str,
    quota: &Value,
    new: &Value,
    old: Option<&Value>,
) -> Result<Option<Bytes>, Failure> {
    let spec = &quota["spec"];
    let Some(hard) = spec["hard"].as_object() else { return Ok(None) };
    let resource = &served.key;
    if !scope::covers(spec, resource, new) {
        return Ok(None);
    }
    let refuse = |why: String| {
        let gr = Gr::new(served.resource.group.clone(), served.resource.plural.clone());
        Err(Status::forbidden(&gr, metadata::text(new, "name"), why))
    };
    let name = metadata::text(quota, "name");
    if old.is_none()
        && let Some(missing) = usage::missing(resource, new, hard)
    {
        return refuse(format!("failed quota: {name}: {missing}"));
    }
    let mut added = usage::of(resource, new);
    if let Some(old) = old.filter(|old| scope::covers(spec, resource, old)) {
        for (name, amount) in usage::of(resource, old) {
            *added.entry(name).or_default() -= amount;
        }
    }
    added.retain(|name, amount| *amount > 0 && hard.contains_key(name));
    if added.is_empty() {
        return Ok(None);
    }
    // Counted anew every time: what was deleted meanwhile needs nobody to give it back.
    let used = count::of_resource(view, namespace, spec, resource);
    let text = |name: &str| hard.get(name).map(|h| h.as_str().map_or_else(|| h.to_string(), str::to_owned));
    let limit = |name: &str| hard.get(name).and_then(amount::of).unwrap_or(0);
    let now = |name: &str| used.get(name).copied().unwrap_or(0);
    let over: Vec<&String> =
        added.iter().filter(|(name, more)| now(name) + **more > limit(name)).map(|(name, _)| name).collect();
    if !over.is_empty() {
        let list = |amount: &dyn Fn(&str) -> i128| {
            let shown = |name: &&String| {
                format!("{name}={}", amount::show(amount(name), &text(name).unwrap_or_default()))
            };
            over.iter().map(shown).collect::<Vec<_>>().join(",")
        };
        return refuse(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            list(&|name| added.get(name).copied().unwrap_or(0)),
            list(&now),
            list(&limit),
        ));
    }
    let mut quota = quota.clone();
    metadata::set(&mut quota, "resourceVersion", None);
    let hard = spec["hard"].clone();
    let status = metadata::object(&mut quota, "status");
    let before = status["used"].as_object().cloned().unwrap_or_default();
    let mut shown = json!({});
    for (name, limit) in hard.as_object().into_iter().flatten() {
        let like = limit.as_str().unwrap_or_default();
        let known = used.contains_key(name) || added.contains_key(name);
        shown[name.as_str()] = match before.get(name).filter(|_| !known) {
            Some(before) => before.clone(),
            None => json!(amount::show(now(name) + added.get(name).copied().unwrap_or(0), like)),
        };
    }
    status["hard"] = hard;
    status["used"] = shown;
    Ok(Some(Bytes::from(quota.to_string())))
}

#[cfg(test)]
mod tests;
