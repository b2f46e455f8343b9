//! A policy: compiled once per revision, refused at its own write when it cannot be compiled.

use std::sync::Arc;

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::super::expressions::{self, Condition, NAMES, NAMES_AND_PARAMS, compiling};
use super::super::matching::Matching;
use super::type_check;
use crate::extensions::cel::Program;
use crate::extensions::cel::dynamic::Variables;
use crate::response::Failure;
use crate::strategy::{Strategy, WriteContext};

/// A ValidatingAdmissionPolicy.
pub(super) struct Policy {
    pub(super) name: String,
    /// Whether what cannot be evaluated refuses the write.
    pub(super) fails: bool,
    pub(super) matching: Matching,
    pub(super) param_kind: Option<ParamKind>,
    /// The expressions, or why they cannot be compiled.
    pub(super) rules: Result<Rules, String>,
}

/// The kind of the parameters.
pub(in crate::admission) struct ParamKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl ParamKind {
    pub(in crate::admission) fn of(value: &Value) -> Option<Self> {
        let api_version = value["apiVersion"].as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = value["kind"].as_str()?.to_owned();
        Some(Self { group: group.to_owned(), version: version.to_owned(), kind })
    }

    pub(super) fn text(&self) -> String {
        format!("{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// The expressions of a policy.
pub(super) struct Rules {
    pub(super) conditions: Vec<Condition>,
    pub(super) variables: Arc<Variables>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Annotation>,
    /// Nesting of the deepest expression.
    pub(super) depth: usize,
}

/// One validation.
pub(super) struct Validation {
    pub(super) text: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) message_expression: Option<Program>,
    pub(super) reason: Option<String>,
}

/// One audit annotation.
pub(super) struct Annotation {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) program: Program,
}

impl Policy {
    pub(super) fn compile(object: &Value) -> Self {
        let spec = &object["spec"];
        let rules = compiling(|| Rules::compile(spec).map_err(|error| error.body()));
        Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            fails: spec["failurePolicy"] != "Ignore",
            matching: Matching::of_policy(&spec["matchConstraints"]),
            param_kind: ParamKind::of(&spec["paramKind"]),
            rules,
        }
    }
}

/// What every sort of policy begins with: the names in scope, the conditions and the variables.
pub(in crate::admission) struct Head {
    pub(in crate::admission) names: &'static [&'static str],
    pub(in crate::admission) conditions: Vec<Condition>,
    pub(in crate::admission) variables: Variables,
}

impl Head {
    pub(in crate::admission) fn compile(spec: &Value) -> Result<Self, FieldError> {
        let names: &[&str] = if spec["paramKind"].is_object() { &NAMES_AND_PARAMS } else { &NAMES };
        let conditions = expressions::conditions(&spec["matchConditions"], names, &Variables::new())
            .map_err(|error| FieldError::invalid("spec.matchConditions", Value::Null, error))?;
        let mut head = Self { names, conditions, variables: Variables::new() };
        for (index, variable) in spec["variables"].as_array().into_iter().flatten().enumerate() {
            let path = format!("spec.variables[{index}].expression");
            let program = head.program(path, &text(&variable["expression"]))?;
            head.variables.insert(text(&variable["name"]), program);
        }
        Ok(head)
    }

    fn program(&self, path: String, text: &str) -> Result<Program, FieldError> {
        if text.trim().is_empty() {
            return Err(FieldError::required(path, "expression is not specified"));
        }
        Program::compile_dynamic(text, self.names, &self.variables)
            .map_err(|error| FieldError::invalid(path, text, format!("compilation failed: {error}")))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Rules {
    fn compile(spec: &Value) -> Result<Self, FieldError> {
        let head = Head::compile(spec)?;
        let items = |field: &str| spec[field].as_array().into_iter().flatten().enumerate();
        let compiled = |path: String, text: &str| head.program(path, text);
        let mut validations = Vec::new();
        for (index, given) in items("validations") {
            let path = format!("spec.validations[{index}]");
            let expression = text(&given["expression"]);
            let program = compiled(format!("{path}.expression"), &expression)?;
            let message_expression = match given["messageExpression"].as_str() {
                Some(text) => Some(compiled(format!("{path}.messageExpression"), text)?),
                None => None,
            };
            let reason = given["reason"].as_str().map(str::to_owned);
            let message = text(&given["message"]);
            validations.push(Validation { text: expression, program, message, message_expression, reason });
        }
        let mut annotations = Vec::new();
        for (index, given) in items("auditAnnotations") {
            let path = format!("spec.auditAnnotations[{index}].valueExpression");
            let text = text(&given["valueExpression"]);
            let program = compiled(path, &text)?;
            annotations.push(Annotation {
                key: given["key"].as_str().unwrap_or_default().to_owned(),
                text,
                program,
            });
        }
        let programs = validations
            .iter()
            .flat_map(|v| std::iter::once(&v.program).chain(&v.message_expression))
            .chain(annotations.iter().map(|a| &a.program));
        let depth = programs.map(Program::depth).chain([expressions::depth(&head.conditions)]).max();
        Ok(Self {
            depth: depth.unwrap_or(0),
            conditions: head.conditions,
            variables: Arc::new(head.variables),
            validations,
            annotations,
        })
    }
}

/// The behaviour of ValidatingAdmissionPolicies.
pub(crate) struct Policies;

impl Strategy for Policies {
    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        type_check::observe(cx, object, 1);
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        if cx.subresource.is_empty() && object["spec"] != old["spec"] {
            let before = old["metadata"]["generation"].as_i64().unwrap_or(0);
            type_check::observe(cx, object, before.max(0) + 1);
        }
        Ok(())
    }

    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &object["spec"];
        // What is stored may stay, also after the compiler became stricter.
        if old.is_some_and(|old| old["spec"] == *spec) {
            return Vec::new();
        }
        let none = |field: &str| spec[field].as_array().is_none_or(Vec::is_empty);
        if none("validations") && none("auditAnnotations") {
            let detail = "validations or auditAnnotations must be specified";
            return ["validations", "auditAnnotations"]
                .map(|field| FieldError::required(format!("spec.{field}"), detail))
                .to_vec();
        }
        refusal(|| Rules::compile(spec).map(drop))
    }
}

/// What is wrong with expressions, when they are compiled where the parser has room.
pub(in crate::admission) fn refusal(
    compile: impl FnOnce() -> Result<(), FieldError> + Send,
) -> Vec<FieldError> {
    let mut failed = None;
    let compiled = compiling(|| {
        compile().map_err(|error| {
            failed = Some(error);
            String::new()
        })
    });
    match (compiled, failed) {
        (Ok(()), _) => Vec::new(),
        (Err(_), Some(error)) => vec![error],
        (Err(error), None) => vec![FieldError::invalid("spec", Value::Null, error)],
    }
}
