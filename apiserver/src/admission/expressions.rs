//! The values that admission expressions see, and the conditions that say whether a policy or a webhook is asked.

use std::sync::Arc;

use kube_cel::cel::{Context, Value as Cel};
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::authorizer::Question;
use crate::authorization;
use crate::extensions::cel::dynamic::{REQUEST_RESOURCE, Variables, describe, exhausted};
use crate::extensions::cel::{OUT_OF_BUDGET, Program, on_large_stack, to_cel};
use crate::registry::Served;

/// The names in scope of a webhook's conditions.
pub(super) const NAMES: [&str; 5] = ["object", "oldObject", "request", "authorizer", "namespaceObject"];
/// The same for policies with parameters.
pub(super) const NAMES_AND_PARAMS: [&str; 6] =
    ["object", "oldObject", "request", "authorizer", "namespaceObject", "params"];

/// A named condition.
pub(super) struct Condition {
    name: String,
    text: String,
    program: Program,
}

/// What the conditions say together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All are true.
    Holds,
    /// At least one is false.
    Fails,
    /// None is false, and some could not be evaluated.
    Unknown(String),
}

/// Compiles `matchConditions`; the error names what is none.
pub(super) fn conditions(
    list: &Value,
    names: &[&str],
    variables: &Variables,
) -> Result<Vec<Condition>, String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|condition| {
        let text = condition["expression"].as_str().unwrap_or_default().to_owned();
        let program = Program::compile_dynamic(&text, names, variables)
            .map_err(|error| format!("compilation failed: {error}"))?;
        Ok(Condition { name: condition["name"].as_str().unwrap_or_default().to_owned(), text, program })
    })
    .collect()
}

/// Runs something that compiles expressions where the parser has room for it.
pub(super) fn compiling<T: Send>(act: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    on_large_stack(act).unwrap_or_else(|| Err("the expressions cannot be compiled".to_owned()))
}

/// The nesting of the deepest condition.
pub(super) fn depth(conditions: &[Condition]) -> usize {
    conditions.iter().map(|c| c.program.depth()).max().unwrap_or(0)
}

/// Asks the conditions in order, until one is false.
pub(super) fn ask(conditions: &[Condition], scope: &Context<'_>) -> Verdict {
    let mut errors = Vec::new();
    for condition in conditions {
        match run(&condition.program, &condition.text, scope) {
            Ok(Cel::Bool(false)) => {
                tracing::debug!(condition = condition.name, "a match condition is false");
                return Verdict::Fails;
            }
            Ok(Cel::Bool(true)) => {}
            Ok(_) => errors.push(format!("cel expression '{}' did not return a boolean", condition.text)),
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Verdict::Holds,
        [one] => Verdict::Unknown(one.clone()),
        many => Verdict::Unknown(format!("[{}]", many.join(", "))),
    }
}

/// Runs one expression; the error is what a client is told.
pub(super) fn run(program: &Program, text: &str, scope: &Context<'_>) -> Result<Cel, String> {
    let outcome = program.run(scope);
    if exhausted() {
        return Err(OUT_OF_BUDGET.to_owned());
    }
    outcome.map_err(|error| format!("expression '{text}' resulted in error: {}", describe(&error)))
}

/// The values in scope, in the version `served`.
pub(super) fn bindings(
    attributes: &Attributes<'_>,
    served: &Arc<Served>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Vec<(&'static str, Cel)> {
    let cx = attributes.cx;
    let question = Question::about(cx.api, cx.view, cx.user);
    let wanted = authorization::Attributes {
        group: &cx.resource.group,
        resource: &cx.resource.plural,
        subresource: cx.subresource,
        namespace: if attributes.is_namespace() { attributes.name } else { cx.namespace },
        name: attributes.name,
        ..authorization::Attributes::default()
    };
    let value = |object: Option<&Value>| object.map_or(Cel::Null, |object| to_cel(object, None));
    vec![
        ("object", value(object)),
        ("oldObject", value(old)),
        ("request", to_cel(&attributes.request(served), None)),
        ("namespaceObject", value(attributes.namespace_object().map(shown).as_ref())),
        (REQUEST_RESOURCE, question.clone().of_resource(&wanted).into_value()),
        ("authorizer", question.into_value()),
    ]
}

/// What expressions see of a namespace.
fn shown(namespace: Value) -> Value {
    let kept = [
        "name",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let metadata: serde_json::Map<String, Value> = kept
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), namespace["metadata"].get(field)?.clone())))
        .collect();
    json!({"metadata": metadata, "spec": namespace["spec"], "status": namespace["status"]})
}
