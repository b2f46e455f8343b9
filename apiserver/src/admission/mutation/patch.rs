//! What one expression of a mutating policy makes of an object.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use litek8s_machinery::{apply, patch};
use serde_json::{Value, json};

use super::super::attributes::Attributes;
use super::super::expressions::{self, Verdict, run};
use super::definition::{Mutation, Policy, Rules};
use crate::extensions::cel::dynamic::evaluate;
use crate::extensions::cel::{Returns, to_cel, to_json};
use crate::registry::Served;

/// What stays the same while a policy changes an object.
pub(super) struct Scene<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    /// The version the policy sees.
    pub(super) served: &'a Arc<Served>,
    pub(super) old: Option<&'a Value>,
    pub(super) param: Option<&'a Value>,
    pub(super) policy: &'a Policy,
}

impl Scene<'_> {
    /// The values in scope.
    fn bindings(&self, object: &Value) -> Vec<(&'static str, Cel)> {
        let mut bindings = expressions::bindings(self.attributes, self.served, Some(object), self.old);
        if self.policy.param_kind.is_some() {
            bindings.push(("params", self.param.map_or(Cel::Null, |param| to_cel(param, None))));
        }
        bindings
    }

    /// Whether all conditions are true.
    pub(super) fn applies(&self, rules: &Rules, object: &Value) -> Result<bool, String> {
        if rules.conditions.is_empty() {
            return Ok(true);
        }
        let verdict = evaluate(self.bindings(object), rules.variables.clone(), rules.depth, |scope| {
            expressions::ask(&rules.conditions, scope)
        });
        match verdict {
            Some(Verdict::Holds) => Ok(true),
            Some(Verdict::Fails) => Ok(false),
            Some(Verdict::Unknown(error)) => Err(error),
            None => Err("the conditions cannot be evaluated".to_owned()),
        }
    }

    /// The object after one change, with its defaults.
    pub(super) fn mutated(
        &self,
        rules: &Rules,
        mutation: &Mutation,
        object: &Value,
    ) -> Result<Value, String> {
        let given = evaluate(self.bindings(object), rules.variables.clone(), rules.depth, |scope| {
            run(&mutation.program, &mutation.text, scope).and_then(|value| to_json(&value))
        });
        let given = given.unwrap_or_else(|| Err("the expression cannot be evaluated".to_owned()))?;
        let mut changed = match mutation.returns {
            Returns::Object => laid_over(self.served, object, given)?,
            Returns::Patches => match patched(object, &given)? {
                Some(changed) => changed,
                None => return Ok(object.clone()),
            },
        };
        if !changed.is_object() {
            return Err("the patch leaves no object".to_owned());
        }
        crate::endpoints::refine(&self.served.resource, &mut changed);
        Ok(changed)
    }
}

fn laid_over(served: &Served, object: &Value, mut given: Value) -> Result<Value, String> {
    if !given.is_object() {
        return Err("unsupported return type from ApplyConfiguration expression".to_owned());
    }
    for field in ["apiVersion", "kind"] {
        given[field] = object[field].clone();
    }
    apply::lay_over(served.resource.schema.get(), object, &given)
        .map_err(|error| format!("error applying patch: {error}"))
}

/// The object after the operations; nothing where a test fails, which means that it stays as it is.
fn patched(object: &Value, given: &Value) -> Result<Option<Value>, String> {
    let list = given.as_array().ok_or("type mismatch: JSONPatchType.expression should evaluate to array")?;
    if list.len() > patch::MAX_OPERATIONS {
        return Err(format!("JSON Patch: more than {} operations", patch::MAX_OPERATIONS));
    }
    let mut now = object.clone();
    for operation in list {
        if operation["op"] == "test" {
            let path = operation["path"].as_str().unwrap_or_default();
            if now.pointer(path).unwrap_or(&Value::Null) != &operation["value"] {
                return Ok(None);
            }
            continue;
        }
        now = patch::json(&now, &json!([operation]))
            .map_err(|status| format!("JSON Patch: {}", status.message))?;
    }
    Ok(Some(now))
}
