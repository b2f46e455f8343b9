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

/// The two steps, as metrics name them.
const ADMIT: &str = "admit";
const VALIDATE: &str = "validate";

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
    attributes.step(ADMIT, changed.is_err(), started.elapsed());
    changed
}

async fn change(attributes: &Attributes<'_>, object: &mut Value) -> Result<bool, Failure> {
    built_in(attributes, object)?;
    let changed = !attributes.is_of_other_kind() && ask(attributes, object, built_in).await?;
    counted(attributes, "NodeRestriction", ADMIT, || own_of_node(attributes.cx, attributes.old, object))?;
    Ok(changed)
}

/// Asks mutating policies and webhooks; once one of them changed something `again` has its say, and those that care are
/// asked a second time.
async fn ask(
    attributes: &Attributes<'_>,
    object: &mut Value,
    again: fn(&Attributes<'_>, &mut Value) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let Admission { mutations, webhooks, .. } = &attributes.cx.api.admission;
    let (mut policies, mut hooks) = (Rounds::default(), Rounds::default());
    counted(attributes, "MutatingAdmissionPolicy", ADMIT, || {
        mutations.mutate(attributes, object, &mut policies, false)
    })?;
    let seen_by_policies = policies.cares().then(|| object.clone());
    waited(
        attributes,
        "MutatingAdmissionWebhook",
        ADMIT,
        webhooks.mutate(attributes, &mut Some(object), &mut hooks, false),
    )
    .await?;
    let changed = policies.changed() || hooks.changed();
    if changed {
        let seen_by_hooks = object.clone();
        again(attributes, object)?;
        if seen_by_policies.is_some_and(|seen| seen != *object) {
            policies.repeat_all();
        }
        mutations.mutate(attributes, object, &mut policies, true)?;
        if *object != seen_by_hooks {
            hooks.repeat_all();
        }
        webhooks.mutate(attributes, &mut Some(object), &mut hooks, true).await?;
    }
    Ok(changed)
}

/// May refuse a write that is valid otherwise; `object` is what will be stored, nothing for a delete.
pub(crate) async fn judge(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
    let started = Instant::now();
    let judged = check(attributes, object).await;
    attributes.step(VALIDATE, judged.is_err(), started.elapsed());
    judged
}

async fn check(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
    let deletes = attributes.operation == Operation::Delete;
    if deletes {
        counted(attributes, "NamespaceLifecycle", ADMIT, || {
            namespace::admit_delete(attributes.cx, attributes.name)
        })?;
    }
    if deletes && !attributes.is_of_other_kind() {
        let mut rounds = Rounds::default();
        let mut nothing = None;
        let asked = attributes.cx.api.admission.webhooks.mutate(attributes, &mut nothing, &mut rounds, false);
        waited(attributes, "MutatingAdmissionWebhook", ADMIT, asked).await?;
    }
    if let Some(object) = object {
        counted(attributes, "LimitRanger", VALIDATE, || limits::check(attributes, object))?;
        counted(attributes, "PodSecurity", VALIDATE, || pod_security::check(attributes, object))?;
    }
    if attributes.is_of_other_kind() {
        return Ok(());
    }
    be_judged(attributes, object).await
}

/// Asks validating policies and webhooks.
async fn be_judged(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
    let admission = &attributes.cx.api.admission;
    counted(attributes, "ValidatingAdmissionPolicy", VALIDATE, || {
        admission.policies.check(attributes, object)
    })?;
    let asked = admission.webhooks.validate(attributes, object);
    waited(attributes, "ValidatingAdmissionWebhook", VALIDATE, asked).await
}

/// May change and refuse what is said to a subresource in another kind than its object's: the options of a stream, a Scale,
/// a Binding, an Eviction.
pub(crate) async fn body(attributes: &Attributes<'_>, body: &mut Value) -> Result<(), Failure> {
    let started = Instant::now();
    let asked = ask(attributes, body, |_, _| Ok(())).await;
    attributes.step(ADMIT, asked.is_err(), started.elapsed());
    asked?;
    let started = Instant::now();
    let judged = be_judged(attributes, Some(body)).await;
    attributes.step(VALIDATE, judged.is_err(), started.elapsed());
    judged
}

/// The work of one plugin, counted under upstream's name for it.
fn counted<T>(
    attributes: &Attributes<'_>,
    plugin: &'static str,
    step: &'static str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let started = Instant::now();
    let done = work();
    attributes.plugin(plugin, step, done.is_err(), started.elapsed());
    done
}

/// The same for one that waits for others.
async fn waited<T>(
    attributes: &Attributes<'_>,
    plugin: &'static str,
    step: &'static str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let started = Instant::now();
    let done = work.await;
    attributes.plugin(plugin, step, done.is_err(), started.elapsed());
    done
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
    let cx = attributes.cx;
    counted(attributes, "NamespaceLifecycle", ADMIT, || namespace::admit_create(cx, object))?;
    let is_pod = cx.resource.group.is_empty() && *cx.resource.plural == *"pods" && cx.subresource.is_empty();
    if is_pod {
        counted(attributes, "ServiceAccount", ADMIT, || service_account::admit_create(cx, object))?;
        counted(attributes, "DefaultTolerationSeconds", ADMIT, || {
            tolerations::admit_create(object);
            Ok(())
        })?;
    }
    counted(attributes, "Priority", ADMIT, || priority::resolve(attributes, object))?;
    counted(attributes, "RuntimeClass", ADMIT, || runtime_class::merge(attributes, object))?;
    counted(attributes, "LimitRanger", ADMIT, || {
        limits::fill(attributes, object);
        Ok(())
    })
}

/// A node writes its own objects only, and not every label of them.
fn own_of_node(cx: &WriteContext<'_>, old: Option<&Value>, object: &Value) -> Result<(), Failure> {
    cx.api.authorizer.check_node(cx.user, &cx.resource.group, &cx.resource.plural, old, object)
}
