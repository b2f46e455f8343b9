//! The functions that rules may call: CEL's own, those of Kubernetes, and the two that keep the budget.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::budget::{charge, step};
use super::dynamic::{VARIABLE, variable};
use super::sizes;
use crate::admission::authorizer;

pub(crate) const STEP: &str = "@step";
pub(crate) const CHARGE: &str = "@charge";

/// Names that stand for types.
pub(crate) const TYPES: [&str; 11] =
    ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "timestamp", "duration"];

/// A type as a value: only good for comparing.
fn type_value(name: &str) -> Value {
    Value::String(Arc::new(format!("type {name}")))
}

fn type_of(value: Value) -> Result<Value, ExecutionError> {
    Ok(type_value(match value {
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::Timestamp(_) => "timestamp",
        Value::Duration(_) => "duration",
        Value::Function(..) | Value::Opaque(_) => "optional_type",
    }))
}

/// A key as a part of a JSON pointer.
fn escape_key(key: Arc<String>) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

thread_local! {
    /// Registering some hundred functions is dear: each thread does it once.
    static BASE: Context<'static> = {
        let mut base = Context::default().with_all();
        base.add_function(STEP, step);
        base.add_function(CHARGE, charge);
        base.add_function("type", type_of);
        base.add_function("jsonpatch.escapeKey", escape_key);
        base.add_function(VARIABLE, variable);
        authorizer::register(&mut base);
        sizes::register(&mut base);
        for name in TYPES {
            base.add_variable_from_value(name, type_value(name));
        }
        base
    };
}

/// Runs `act` with a scope that knows all functions and no variable.
pub(crate) fn with_scope<T>(act: impl FnOnce(&mut Context<'_>) -> T) -> T {
    BASE.with(|base| act(&mut base.new_inner_scope()))
}

/// Whether a function of this name exists.
pub(crate) fn exists(name: &str) -> bool {
    // A call without arguments fails in one way when there is no such function, and in another when there is.
    let call = CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() };
    let probe = IdedExpr { id: 0, expr: Expr::Call(call) };
    with_scope(|scope| !matches!(Value::resolve(&probe, scope), Err(ExecutionError::UndeclaredReference(_))))
}
