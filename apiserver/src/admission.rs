//! What may be written at all, beyond who asks and what the schema says, and what pods get that they do not ask for.
//!
//! A write is first changed ([`mutate`]), then prepared and validated by its strategy, then judged ([`judge`]).

mod amount;
mod attributes;
pub(crate) mod authorizer;
mod compiled;
mod expressions;
mod limits;
mod matching;
mod mutation;
mod namespace;
mod pod_security;
mod policy;
mod priority;
pub(crate) mod quota;
mod rounds;
mod runtime_class;
mod service_account;
mod tolerations;
pub(crate) mod webhook;

use std::time::Instant;

use serde_json::Value;

use crate::response::Failure;
use crate::strategy::WriteContext;
use rounds::Rounds;

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use mutation::{MutatingBindings, MutatingPolicies};
pub(crate) use namespace::check_home;
pub(crate) use policy::Policies;
pub(crate) use webhook::WebhookConfigurations;

/// What admission keeps between requests.
#[derive(Default)]
pub struct Admission {
    mutations: mutation::MutationSet,
    policies: policy::PolicySet,
    webhooks: webhook::Webhooks,
    turns: quota::Turns,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

/// May change or refuse a write, before it is validated.
///
/// Whether something came that the system fields and the subresource must be settled for again.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<bool, Failure> {
    let started = Instant::now();
    let changed = change(attributes, object).await;
    attributes.step("admit", changed.is_err(), started.elapsed());
    changed
}

async fn change(attributes: &Attributes<'_>, object: &mut Value) -> Result<bool, Failure> {
    built_in(attributes, object)?;
    let Admission { mutations, webhooks, .. } = &attributes.cx.api.admission;
    let (mut policies, mut hooks) = (Rounds::default(), Rounds::default());
    mutations.mutate(attributes, object, &mut policies, false)?;
    let seen_by_policies = policies.cares().then(|| object.clone());
    webhooks.mutate(attributes, &mut Some(object), &mut hooks, false).await?;
    let changed = policies.changed() || hooks.changed();
    if changed {
        let seen_by_hooks = object.clone();
        built_in(attributes, object)?;
        if seen_by_policies.is_some_and(|seen| seen != *object) {
            policies.repeat_all();
        }
        mutations.mutate(attributes, object, &mut policies, true)?;
        if *object != seen_by_hooks {
            hooks.repeat_all();
        }
        webhooks.mutate(attributes, &mut Some(object), &mut hooks, true).await?;
    }
    own_of_node(attributes.cx, attributes.old, object)?;
    Ok(changed)
}

/// May refuse a write that is valid otherwise; `object` is what will be stored, nothing for a delete.
pub(crate) async fn judge(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
    let started = Instant::now();
    let judged = check(attributes, object).await;
    attributes.step("validate", judged.is_err(), started.elapsed());
    judged
}

async fn check(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
    if attributes.operation == Operation::Delete {
        namespace::admit_delete(attributes.cx, attributes.name)?;
    }
    let admission = &attributes.cx.api.admission;
    if attributes.operation == Operation::Delete {
        let mut rounds = Rounds::default();
        admission.webhooks.mutate(attributes, &mut None, &mut rounds, false).await?;
    }
    if let Some(object) = object {
        limits::check(attributes, object)?;
        pod_security::check(attributes, object)?;
    }
    admission.policies.check(attributes, object)?;
    admission.webhooks.validate(attributes, object).await
}

/// May change the options of a stream, and refuse it.
pub(crate) async fn connect(attributes: &Attributes<'_>, options: &mut Value) -> Result<(), Failure> {
    let admission = &attributes.cx.api.admission;
    let mut rounds = Rounds::default();
    admission.webhooks.mutate(attributes, &mut Some(options), &mut rounds, false).await?;
    if rounds.changed() {
        admission.webhooks.mutate(attributes, &mut Some(options), &mut rounds, true).await?;
    }
    admission.policies.check(attributes, Some(options))?;
    admission.webhooks.validate(attributes, Some(options)).await
}

/// Waits for the turn to write in a namespace with quotas.
pub(crate) async fn enter(cx: &WriteContext<'_>) -> quota::Turn {
    cx.api.admission.turns.enter(cx.view, cx.namespace).await
}

/// The mutators of the server itself; a webhook's changes bring them a second time.
fn built_in(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    if attributes.old.is_some() {
        return Ok(());
    }
    admit_create(attributes.cx, object)?;
    priority::resolve(attributes, object)?;
    runtime_class::merge(attributes, object)?;
    limits::fill(attributes, object);
    Ok(())
}

fn admit_create(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    namespace::admit_create(cx, object)?;
    let is_pod = cx.resource.group.is_empty() && *cx.resource.plural == *"pods" && cx.subresource.is_empty();
    if is_pod {
        service_account::admit_create(cx, object)?;
        tolerations::admit_create(object);
    }
    Ok(())
}

/// A node writes its own objects only, and not every label of them.
fn own_of_node(cx: &WriteContext<'_>, old: Option<&Value>, object: &Value) -> Result<(), Failure> {
    cx.api.authorizer.check_node(cx.user, &cx.resource.group, &cx.resource.plural, old, object)
}
