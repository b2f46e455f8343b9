//! MutatingAdmissionPolicies: every policy that a binding puts in force changes the write in turn, by name; those that
//! say so see it once more when somebody changed it after them.

mod definition;
mod patch;

use std::sync::Arc;

use litek8s_machinery::status::Reason;
use litek8s_store::GroupResource;
use serde_json::Value;

use super::attributes::{Attributes, converted};
use super::compiled::Compiled;
use super::policy::binding::Binding;
use super::policy::params;
use super::rounds::Rounds;
use crate::registry::Served;
use crate::response::Failure;

use definition::Policy;
pub(crate) use definition::{MutatingBindings, MutatingPolicies};

const GROUP: &str = "admissionregistration.k8s.io";

/// Policies and bindings, compiled.
#[derive(Default)]
pub(super) struct MutationSet {
    policies: Compiled<Policy>,
    bindings: Compiled<Binding>,
}

/// The failures that count, in their order.
#[derive(Default)]
struct Failures(Vec<String>);

impl MutationSet {
    /// Lets the policies change the object; with `second` only those that must see it again.
    pub(super) fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
        second: bool,
    ) -> Result<(), Failure> {
        let view = attributes.cx.view;
        let bindings = GroupResource::new(GROUP, "mutatingadmissionpolicybindings");
        if view.count(&bindings) == 0 || attributes.is_free_of_policies() {
            return Ok(());
        }
        let parsed = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap_or_default();
        let policies = GroupResource::new(GROUP, "mutatingadmissionpolicies");
        let policies = self.policies.all(view, &policies, |object| Policy::compile(&parsed(&object.json)));
        let bindings = self.bindings.all(view, &bindings, |object| Binding::of(&parsed(&object.json)));
        let mut failures = Failures::default();
        for policy in &policies {
            for binding in bindings.iter().filter(|binding| binding.policy == policy.name) {
                if let Err(error) = policy.act(binding, attributes, object, rounds, second) {
                    failures.note(policy, error);
                }
            }
        }
        failures.settle(attributes)
    }
}

/// What stopped a policy: the binding, where it was reached, and why.
struct Stopped(Option<String>, String);

impl Policy {
    /// Changes the object as one binding has it.
    fn act(
        &self,
        binding: &Arc<Binding>,
        attributes: &Attributes<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
        second: bool,
    ) -> Result<(), Stopped> {
        let stopped = |why: String| Stopped(Some(binding.name.clone()), why);
        let configured = |what: &str, why: String| format!("failed to configure {what}: {why}");
        let matched = self.matching.matches(attributes, Some(object));
        let matched = matched.map_err(|why| Stopped(None, configured("policy", why)))?;
        let Some(served) = matched else { return Ok(()) };
        if let Some(matching) = &binding.matching {
            let matched = matching.matches(attributes, Some(object));
            if matched.map_err(|why| stopped(configured("binding", why)))?.is_none() {
                return Ok(());
            }
        }
        let params = params::collect(self.param_kind.as_ref(), binding, attributes);
        for param in params.map_err(|why| stopped(configured("binding", why)))? {
            let name = param.as_ref().map(|param| {
                let text = |field: &str| param["metadata"][field].as_str().unwrap_or_default();
                format!("{}/{}", text("namespace"), text("name"))
            });
            let id = format!("{}/{}/{}", self.name, binding.name, name.unwrap_or_default());
            if second && !rounds.is_due(&id) {
                continue;
            }
            let changed = self.change(attributes, &served, object, param.as_ref()).map_err(stopped)?;
            if let Some(changed) = changed {
                rounds.note(&id, changed, self.reinvoked);
            }
        }
        Ok(())
    }

    /// Makes all changes with one parameter; whether there were any, or nothing where a condition is false.
    fn change(
        &self,
        attributes: &Attributes<'_>,
        served: &Arc<Served>,
        object: &mut Value,
        param: Option<&Value>,
    ) -> Result<Option<bool>, String> {
        let rules = self.rules.as_ref().map_err(Clone::clone)?;
        let shown = |value| converted(value, attributes.served, served).map_err(|error| error.message);
        let old = attributes.old.map(shown).transpose()?;
        let scene = patch::Scene { attributes, served, old: old.as_deref(), param, policy: self };
        let before = shown(object)?.into_owned();
        if !scene.applies(rules, &before)? {
            return Ok(None);
        }
        let mut now = before.clone();
        for mutation in &rules.mutations {
            now = scene.mutated(rules, mutation, &now)?;
        }
        if now == before {
            return Ok(Some(false));
        }
        let mut now = converted(&now, served, attributes.served).map_err(|error| error.message)?.into_owned();
        crate::endpoints::refine(&attributes.served.resource, &mut now);
        let changed = now != *object;
        *object = now;
        Ok(Some(changed))
    }
}

impl Failures {
    /// A failure counts where the policy says so.
    fn note(&mut self, policy: &Policy, Stopped(binding, why): Stopped) {
        let name = &policy.name;
        if !policy.fails {
            tracing::warn!(policy = name, why, "a mutating policy failed and is passed over");
            return;
        }
        self.0.push(match binding {
            Some(binding) => format!("policy '{name}' with binding '{binding}' denied request: {why}"),
            None => format!("policy {name:?} denied request: {why}"),
        });
    }

    fn settle(self, attributes: &Attributes<'_>) -> Result<(), Failure> {
        let Some(first) = self.0.first().cloned() else { return Ok(()) };
        let status =
            self.0.into_iter().fold(attributes.forbidden(""), |status, why| status.with_cause("", why, ""));
        Err(Failure { message: first, reason: Reason::Invalid, ..status })
    }
}

#[cfg(test)]
mod tests;
