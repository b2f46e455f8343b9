//! Admission webhooks: mutating ones one after the other by configuration and place, validating ones all at once.

mod client;
mod definition;
mod hook;
mod patch;
mod review;
mod target;

use std::sync::Arc;
use std::time::{Duration, Instant};

use litek8s_machinery::status::Status;
use litek8s_store::GroupResource;
use serde_json::Value;

use super::attributes::{Attributes, converted};
use super::compiled::Compiled;
use super::rounds::Rounds;
use crate::metrics::Called;
use crate::response::Failure;

pub(crate) use client::system_bundle;
pub(crate) use definition::{WebhookConfigurations, check_config};
use hook::{Hook, Problem};
pub(crate) use target::Target;

const GROUP: &str = "admissionregistration.k8s.io";

/// The hooks of all configurations, compiled, with their connections.
#[derive(Default)]
pub(super) struct Webhooks {
    mutating: Compiled<Vec<Hook>>,
    validating: Compiled<Vec<Hook>>,
}

impl Webhooks {
    /// Calls the mutating webhooks; with `second` only those that must see the object again.
    pub(super) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Option<&mut Value>,
        rounds: &mut Rounds,
        second: bool,
    ) -> Result<(), Failure> {
        let resource = GroupResource::new(GROUP, "mutatingwebhookconfigurations");
        if attributes.cx.view.count(&resource) == 0 || attributes.is_exempt() {
            return Ok(());
        }
        let configurations = self.mutating.all(attributes.cx.view, &resource, Hook::of_configuration);
        let hooks = configurations.iter().flat_map(|hooks| hooks.iter());
        for (index, hook) in hooks.enumerate() {
            if second && !rounds.is_due(&hook.id) {
                continue;
            }
            let Some(served) = hook.wants(attributes, object.as_deref()).map_err(|p| p.into_failure(hook))?
            else {
                continue;
            };
            let round = usize::from(second);
            let started = Instant::now();
            let answered = mutate_one(hook, attributes, &served, object).await;
            count(attributes, hook, "admit", &answered, started.elapsed());
            let changed = match answered {
                Ok(changed) => changed,
                Err(problem) if hook.ignores(&problem) => {
                    tracing::warn!(webhook = hook.name, %problem, "a webhook failed and is passed over");
                    let key =
                        format!("failed-open.mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
                    attributes.annotate(&key, &hook.name);
                    false
                }
                Err(problem) => return Err(problem.into_failure(hook)),
            };
            let key = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
            let said = serde_json::json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": changed});
            attributes.annotate(&key, &said.to_string());
            rounds.note(&hook.id, changed, hook.reinvoked);
        }
        Ok(())
    }

    /// Asks all validating webhooks at once; the first refusal in their order counts.
    pub(super) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Failure> {
        let resource = GroupResource::new(GROUP, "validatingwebhookconfigurations");
        if attributes.cx.view.count(&resource) == 0 || attributes.is_exempt() {
            return Ok(());
        }
        let configurations = self.validating.all(attributes.cx.view, &resource, Hook::of_configuration);
        let mut asked = Vec::new();
        for hook in configurations.iter().flat_map(|hooks| hooks.iter()) {
            if let Some(served) = hook.wants(attributes, object).map_err(|p| p.into_failure(hook))? {
                asked.push((hook, served));
            }
        }
        let calls = asked.iter().enumerate().map(|(index, (hook, served))| async move {
            let started = Instant::now();
            let answered = validate_one(hook, attributes, served, object).await;
            count(attributes, hook, "validating", &answered, started.elapsed());
            match answered {
                Err(problem) if hook.ignores(&problem) => {
                    tracing::warn!(webhook = hook.name, %problem, "a webhook failed and is passed over");
                    let key =
                        format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
                    attributes.annotate(&key, &hook.name);
                    Ok(())
                }
                other => other.map_err(|problem| problem.into_failure(hook)),
            }
        });
        futures::future::join_all(calls).await.into_iter().collect()
    }
}

/// Counts a call by its outcome.
fn count<T>(
    attributes: &Attributes<'_>,
    hook: &Hook,
    r#type: &'static str,
    answered: &Result<T, Problem>,
    took: Duration,
) {
    let called = match answered {
        Ok(_) => Called::Allowed,
        Err(problem) if hook.ignores(problem) => Called::FailedOpen,
        Err(Problem::Refused(status)) => Called::Refused(status.code),
        Err(Problem::Calling(_)) => Called::Failed,
    };
    let operation = attributes.operation.as_str();
    attributes.cx.api.metrics.admission().webhook(&hook.name, r#type, operation, called, took);
}

async fn mutate_one(
    hook: &Hook,
    attributes: &Attributes<'_>,
    served: &Arc<crate::registry::Served>,
    object: &mut Option<&mut Value>,
) -> Result<bool, Problem> {
    let answer = ask(hook, attributes, served, object.as_deref(), true).await?;
    let Some(patch) = answer.patch.filter(|patch| patch.as_array().is_none_or(|list| !list.is_empty()))
    else {
        return Ok(false);
    };
    let Some(object) = object else {
        let name = &hook.name;
        let why = format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        );
        return Err(Problem::Refused(Status::internal(why)));
    };
    patch::apply(attributes, served, object, &patch).map_err(Problem::Refused)
}

async fn validate_one(
    hook: &Hook,
    attributes: &Attributes<'_>,
    served: &Arc<crate::registry::Served>,
    object: Option<&Value>,
) -> Result<(), Problem> {
    ask(hook, attributes, served, object, false).await.map(drop)
}

/// Sends the review and reads the answer; a refusal is an error.
async fn ask(
    hook: &Hook,
    attributes: &Attributes<'_>,
    served: &Arc<crate::registry::Served>,
    object: Option<&Value>,
    mutating: bool,
) -> Result<review::Answer, Problem> {
    hook.check_dry_run(attributes)?;
    let shown = |value| converted(value, attributes.served, served);
    let new = object.map(shown).transpose().map_err(Problem::Refused)?;
    let old = attributes.old.map(shown).transpose().map_err(Problem::Refused)?;
    let uid = uuid::Uuid::new_v4().to_string();
    let body = review::request(attributes, served, &uid, new.as_deref(), old.as_deref());
    let body = hook.send(attributes, body).await?;
    let answer = review::answer(&uid, &body, mutating)
        .map_err(|why| Problem::Calling(format!("received invalid webhook response: {why}")))?;
    for (key, value) in &answer.annotations {
        attributes.annotate(&format!("{}/{key}", hook.name), value);
    }
    for warning in &answer.warnings {
        attributes.cx.warnings.add(warning.clone());
    }
    match answer.refusal(&hook.name) {
        Some(status) => Err(Problem::Refused(status)),
        None => Ok(answer),
    }
}

#[cfg(test)]
pub(crate) mod tests;
