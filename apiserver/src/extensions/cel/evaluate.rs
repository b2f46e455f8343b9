//! Evaluating the rules of an object, from its root down.

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use litek8s_machinery::field::{FieldError, Path};
use litek8s_machinery::schema::{Schema, Type};
use serde_json::Value;
use std::sync::Arc;

use super::budget::OUT_OF_BUDGET;
use super::value::to_cel;
use super::{CompiledRule, Node, budget, functions};

/// Longest text of a `messageExpression`.
const MAX_MESSAGE: usize = 5 * 1024;

pub(super) fn evaluate(root: &Node, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    budget::open();
    let mut errors = Vec::new();
    root.visit(object, old, &Path::root(), &mut errors);
    errors
}

impl Node {
    fn visit(&self, value: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        if value.is_null() || budget::exhausted() {
            return;
        }
        if !self.rules.is_empty() {
            self.run_rules(value, old.filter(|o| !o.is_null()), path, errors);
        }
        if let Value::Object(fields) = value {
            for (name, value) in fields {
                let old = old.and_then(|o| o.get(name));
                if let Some(child) = self.fields.get(name.as_str()) {
                    child.visit(value, old, &path.child(name), errors);
                } else if let Some(values) = &self.values {
                    values.visit(value, old, &path.key(name), errors);
                }
            }
        } else if let (Value::Array(items), Some(node)) = (value, &self.items) {
            for (index, item) in items.iter().enumerate() {
                node.visit(item, self.same_element(old, item), &path.index(index), errors);
            }
        }
    }

    /// The element of the old list with the same keys; elements of other lists cannot be told apart.
    fn same_element<'a>(&self, old: Option<&'a Value>, item: &Value) -> Option<&'a Value> {
        if self.keys.is_empty() {
            return None;
        }
        old?.as_array()?.iter().find(|old| self.keys.iter().all(|key| old.get(&**key) == item.get(&**key)))
    }

    fn run_rules(&self, value: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let schema = self.schema.as_ref().map(|s| s.get());
        functions::with_scope(|scope| {
            scope.add_variable_from_value("self", to_cel(value, schema));
            let before = old.map(|old| to_cel(old, schema));
            for rule in &self.rules {
                if budget::exhausted() {
                    return;
                }
                let compares = rule.program.uses_old_self();
                if compares && old.is_none() && !rule.rule.optional_old_self {
                    continue;
                }
                // A value that was there before may stay, even when a rule of a newer schema is against it.
                if !compares && old == Some(value) {
                    continue;
                }
                let old_self = match (&before, rule.rule.optional_old_self) {
                    (Some(old), false) => Some(old.clone()),
                    (Some(old), true) => Some(Cel::Opaque(Arc::new(OptionalValue::of(old.clone())))),
                    (None, true) => Some(Cel::Opaque(Arc::new(OptionalValue::none()))),
                    (None, false) => None,
                };
                if let Some(old_self) = old_self {
                    scope.add_variable_from_value("oldSelf", old_self);
                }
                errors.extend(rule.run(scope, value, schema, path));
            }
        });
    }
}

impl CompiledRule {
    fn run(
        &self,
        scope: &Context<'_>,
        value: &Value,
        schema: Option<&Schema>,
        path: &Path<'_>,
    ) -> Option<FieldError> {
        let outcome = self.program.run(scope);
        let at = path.to_string();
        let refuse = |detail: String| Some(FieldError::invalid(at.clone(), type_name(schema), detail));
        if budget::exhausted() {
            return refuse(OUT_OF_BUDGET.to_owned());
        }
        match outcome {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => Some(self.failed(scope, value, &at)),
            Ok(_) => refuse(format!("rule did not evaluate to a boolean: {}", self.rule.rule)),
            Err(ExecutionError::NoSuchOverload) => refuse(format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature \
                 for rule: {}",
                self.quoted()
            )),
            Err(error) => refuse(format!("{error} evaluating rule: {}", self.quoted())),
        }
    }

    fn quoted(&self) -> &str {
        self.rule.message.as_deref().unwrap_or(&self.rule.rule)
    }

    /// The error of a rule that is false.
    fn failed(&self, scope: &Context<'_>, value: &Value, at: &str) -> FieldError {
        let told = self.message.as_ref().and_then(|message| match message.run(scope) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
        let told = told.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE);
        let detail = told.unwrap_or_else(|| self.fixed_message());
        let path = match (at, self.field.as_str()) {
            (at, "") => at.to_owned(),
            ("<nil>", field) => field.to_owned(),
            (at, field) if field.starts_with('[') => format!("{at}{field}"),
            (at, field) => format!("{at}.{field}"),
        };
        match self.rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
            Some("FieldValueRequired") => FieldError::required(path, detail),
            Some("FieldValueDuplicate") => FieldError::duplicate(path, value.clone()),
            _ => {
                let mut error = FieldError::invalid(path, value.clone(), detail);
                if value.is_object() || value.is_array() {
                    error.bad_value = None;
                }
                error
            }
        }
    }
}

fn type_name(schema: Option<&Schema>) -> &'static str {
    match schema.map(|s| s.ty) {
        Some(Type::Boolean) => "boolean",
        Some(Type::Integer) => "integer",
        Some(Type::Number) => "number",
        Some(Type::String) => "string",
        Some(Type::Array) => "array",
        Some(Type::Object) => "object",
        Some(Type::Any | Type::IntOrString) | None => "",
    }
}
