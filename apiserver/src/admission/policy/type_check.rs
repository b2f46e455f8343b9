//! Which fields a policy's expressions name that the kinds they are about do not have: told in its status, since the
//! policy works for the kinds that have them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::expressions::{NAMES_AND_PARAMS, compiling};
use super::definition::Head;
use crate::endpoints::metadata;
use crate::extensions::cel::Program;
use crate::registry::Served;
use crate::strategy::WriteContext;

/// The most kinds that a policy is checked against, as upstream.
const MAX_KINDS: usize = 10;

/// Writes into the status what was found, and the generation that it is about.
pub(super) fn observe(cx: &WriteContext<'_>, policy: &mut Value, generation: i64) {
    let warnings = warnings(cx, &policy["spec"]);
    let status = metadata::object(policy, "status");
    status["observedGeneration"] = json!(generation);
    status["typeChecking"] =
        if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
}

fn warnings(cx: &WriteContext<'_>, spec: &Value) -> Vec<Value> {
    let kinds = kinds(cx, spec);
    let expressions = expressions(spec);
    let checked = compiling(|| {
        let head = Head::compile(spec).map_err(|error| error.body())?;
        let told = expressions.iter().map(|(path, text)| {
            let found = kinds.iter().filter_map(|kind| {
                let error = undefined(kind, text, &head)?;
                Some(format!("{}, Kind={}: {error}", kind.api_version, kind.resource.kind))
            });
            (path, found.collect::<Vec<_>>().join("\n"))
        });
        let told = told.filter(|(_, warning)| !warning.is_empty());
        Ok(told.map(|(path, warning)| json!({"fieldRef": path, "warning": warning})).collect())
    });
    // What cannot be compiled is refused by validation, which says why.
    checked.unwrap_or_default()
}

fn undefined(kind: &Served, text: &str, head: &Head) -> Option<String> {
    let schema = kind.resource.schema.get();
    let names = NAMES_AND_PARAMS.map(|name| (name, matches!(name, "object" | "oldObject").then_some(schema)));
    Program::undefined(text, &names, &head.variables).err()
}

/// The kinds that the policy names one by one.
fn kinds(cx: &WriteContext<'_>, spec: &Value) -> Vec<Arc<Served>> {
    let mut kinds: Vec<Arc<Served>> = Vec::new();
    for rule in spec["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let words = |field: &str| rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        for (group, version) in words("apiGroups").flat_map(|g| words("apiVersions").map(move |v| (g, v))) {
            for plural in words("resources") {
                let Some(served) = cx.api.registry.get(group, version, plural) else { continue };
                if kinds.len() < MAX_KINDS && !kinds.iter().any(|known| Arc::ptr_eq(known, &served)) {
                    kinds.push(served);
                }
            }
        }
    }
    kinds
}

/// The expressions that are checked, with their places.
fn expressions(spec: &Value) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = validation[field].as_str().filter(|text| !text.is_empty());
            found.extend(text.map(|text| (format!("spec.validations[{index}].{field}"), text)));
        }
    }
    found
}
