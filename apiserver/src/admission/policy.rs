//! ValidatingAdmissionPolicies: every policy that a binding puts in force for a write is asked; the first refusal counts.

pub(in crate::admission) mod binding;
pub(in crate::admission) mod definition;
pub(in crate::admission) mod params;
mod type_check;
mod verdict;

use std::sync::Arc;

use litek8s_machinery::status::Reason;
use litek8s_store::GroupResource;
use serde_json::{Value, json};

use super::attributes::{Attributes, converted};
use super::compiled::Compiled;
use crate::response::Failure;

use binding::Binding;
pub(crate) use definition::Policies;
use definition::Policy;
use verdict::Finding;

const GROUP: &str = "admissionregistration.k8s.io";
/// The longest value of an audit annotation, in bytes.
const MAX_ANNOTATION: usize = 10 * 1024;
/// How many failures one audit annotation lists.
const MAX_FAILURES: usize = 50;

/// Policies and bindings, compiled.
#[derive(Default)]
pub(super) struct PolicySet {
    policies: Compiled<Policy>,
    bindings: Compiled<Binding>,
}

/// What came together while the policies were asked.
#[derive(Default)]
struct Tally {
    /// The first refusal: its message and reason.
    denied: Option<(String, Option<String>)>,
    failures: Vec<Value>,
}

impl PolicySet {
    /// Refuses the write when a policy in force does.
    pub(super) fn check(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Failure> {
        let view = attributes.cx.view;
        let bindings = GroupResource::new(GROUP, "validatingadmissionpolicybindings");
        if view.count(&bindings) == 0 || attributes.is_free_of_policies() {
            return Ok(());
        }
        let policies = GroupResource::new(GROUP, "validatingadmissionpolicies");
        let policies = self.policies.all(view, &policies, |object| Policy::compile(&parsed(&object.json)));
        let bindings = self.bindings.all(view, &bindings, |object| Binding::of(&parsed(&object.json)));
        let mut tally = Tally::default();
        for policy in &policies {
            let bound: Vec<_> = bindings.iter().filter(|b| b.policy == policy.name).collect();
            if !bound.is_empty() {
                ask(policy, &bound, attributes, object, &mut tally);
            }
        }
        tally.settle(attributes)
    }
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

fn ask(
    policy: &Policy,
    bindings: &[&Arc<Binding>],
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    tally: &mut Tally,
) {
    let misconfigured = |tally: &mut Tally, what: &str, error: &str, binding: Option<&Binding>| {
        if policy.fails {
            tally.deny(policy, binding, &format!("failed to configure {what}: {error}"), None);
        }
    };
    let served = match policy.matching.matches(attributes, object) {
        Ok(Some(served)) => served,
        Ok(None) => return,
        Err(error) => return misconfigured(tally, "policy", &error, None),
    };
    let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
    for binding in bindings {
        match binding.matching.as_ref().map(|matching| matching.matches(attributes, object)) {
            None | Some(Ok(Some(_))) => {}
            Some(Ok(None)) => continue,
            Some(Err(error)) => {
                misconfigured(tally, "binding", &error, Some(binding));
                continue;
            }
        }
        let params = match params::collect(policy.param_kind.as_ref(), binding, attributes) {
            Ok(params) => params,
            Err(error) => {
                misconfigured(tally, "binding", &error, Some(binding));
                continue;
            }
        };
        let shown = |value| converted(value, attributes.served, &served);
        let versions =
            object.map(shown).transpose().and_then(|new| Ok((new, attributes.old.map(shown).transpose()?)));
        let (new, old) = match versions {
            Ok(versions) => versions,
            Err(error) => {
                let error = format!("failed to convert object version: {}", error.message);
                misconfigured(tally, "binding", &error, Some(binding));
                continue;
            }
        };
        for param in params {
            let findings = policy.judge(attributes, &served, new.as_deref(), old.as_deref(), param.as_ref());
            for finding in findings {
                match finding {
                    Finding::Refused { index, message, reason } => {
                        tally.act(policy, binding, attributes, index, &message, reason);
                    }
                    Finding::BadAnnotation(message) => tally.deny(policy, Some(binding), &message, None),
                    Finding::Annotation(key, value) => {
                        let known = annotations.iter_mut().find(|(known, _)| *known == key);
                        match known {
                            Some((_, values)) if values.contains(&value) => {}
                            Some((_, values)) => values.push(value),
                            None => annotations.push((key, vec![value])),
                        }
                    }
                }
            }
        }
    }
    for (key, values) in annotations {
        attributes.annotate(&format!("{}/{key}", policy.name), &values.join(", "));
    }
}

impl Tally {
    /// Does with a failed validation what the binding says.
    fn act(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        attributes: &Attributes<'_>,
        index: usize,
        message: &str,
        reason: Option<String>,
    ) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy, Some(binding), message, reason.clone()),
                "Warn" => attributes.cx.warnings.add(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                "Audit" => self.failures.push(json!({
                    "message": message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": index,
                    "validationActions": binding.actions,
                })),
                _ => {}
            }
        }
    }

    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: Option<String>) {
        if self.denied.is_some() {
            return;
        }
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {message}",
                binding.name
            ),
            None => format!("ValidatingAdmissionPolicy '{name}' denied request: {message}"),
        };
        self.denied = Some((message, reason));
    }

    fn settle(mut self, attributes: &Attributes<'_>) -> Result<(), Failure> {
        if !self.failures.is_empty() {
            self.failures.truncate(MAX_FAILURES);
            let list = Value::Array(self.failures).to_string();
            attributes.annotate("validation.policy.admission.k8s.io/validation_failure", &list);
        }
        let Some((message, reason)) = self.denied else { return Ok(()) };
        let mut status = attributes.forbidden(&message).with_cause("", message, "");
        (status.code, status.reason) = match reason.as_deref() {
            Some("Forbidden") => (403, Reason::Forbidden),
            Some("Unauthorized") => (401, Reason::Unauthorized),
            Some("RequestEntityTooLarge") => (413, Reason::RequestEntityTooLarge),
            Some(_) | None => (422, Reason::Invalid),
        };
        Err(status)
    }
}

#[cfg(test)]
mod tests;
