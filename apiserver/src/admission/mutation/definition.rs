//! A mutating policy: compiled once per revision, refused at its own write when it cannot be compiled.

use std::sync::Arc;

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::super::expressions::{self, Condition, compiling};
use super::super::matching::Matching;
use super::super::policy::definition::{Head, ParamKind, refusal};
use crate::extensions::cel::dynamic::Variables;
use crate::extensions::cel::{Program, Returns};
use crate::strategy::{Strategy, WriteContext};

/// The operations that can be changed.
const OPERATIONS: [&str; 3] = ["*", "CREATE", "UPDATE"];

/// A MutatingAdmissionPolicy.
pub(super) struct Policy {
    pub(super) name: String,
    /// Whether what cannot be evaluated refuses the write.
    pub(super) fails: bool,
    /// Whether it sees the object again when it was changed after it.
    pub(super) reinvoked: bool,
    pub(super) matching: Matching,
    pub(super) param_kind: Option<ParamKind>,
    /// The expressions, or why they cannot be compiled.
    pub(super) rules: Result<Rules, String>,
}

/// The expressions of a policy.
pub(super) struct Rules {
    pub(super) conditions: Vec<Condition>,
    pub(super) variables: Arc<Variables>,
    pub(super) mutations: Vec<Mutation>,
    /// Nesting of the deepest expression.
    pub(super) depth: usize,
}

/// One change.
pub(super) struct Mutation {
    pub(super) text: String,
    pub(super) program: Program,
    pub(super) returns: Returns,
}

impl Policy {
    pub(super) fn compile(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            fails: spec["failurePolicy"] != "Ignore",
            reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            matching: Matching::of_policy(&spec["matchConstraints"]),
            param_kind: ParamKind::of(&spec["paramKind"]),
            rules: compiling(|| Rules::compile(spec).map_err(|error| error.body())),
        }
    }
}

impl Rules {
    fn compile(spec: &Value) -> Result<Self, FieldError> {
        let head = Head::compile(spec)?;
        let mut mutations = Vec::new();
        for (index, given) in spec["mutations"].as_array().into_iter().flatten().enumerate() {
            mutations.extend(Mutation::compile(given, &format!("spec.mutations[{index}]"), &head)?);
        }
        let depths = mutations.iter().map(|mutation| mutation.program.depth());
        let depth = depths.chain([expressions::depth(&head.conditions)]).max().unwrap_or(0);
        Ok(Self { conditions: head.conditions, variables: Arc::new(head.variables), mutations, depth })
    }
}

impl Mutation {
    /// Nothing for a type of patch that the schema refuses.
    fn compile(given: &Value, path: &str, head: &Head) -> Result<Option<Self>, FieldError> {
        let (kind, field, other, returns) = match given["patchType"].as_str() {
            Some(kind @ "JSONPatch") => (kind, "jsonPatch", "applyConfiguration", Returns::Patches),
            Some(kind @ "ApplyConfiguration") => (kind, "applyConfiguration", "jsonPatch", Returns::Object),
            _ => return Ok(None),
        };
        if !given[field].is_object() {
            let detail = format!("must be specified when patchType is {kind}");
            return Err(FieldError::required(format!("{path}.{field}"), detail));
        }
        if given[other].is_object() {
            let detail = format!("must not be specified when patchType is {kind}");
            return Err(FieldError::invalid(format!("{path}.{other}"), format!("{{{other}}}"), detail));
        }
        let path = format!("{path}.{field}.expression");
        let text = given[field]["expression"].as_str().unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            return Err(FieldError::required(path, ""));
        }
        let program =
            Program::compile_patch(&text, head.names, &head.variables, returns).map_err(|error| {
                FieldError::invalid(path, text.as_str(), format!("compilation failed: {error}"))
            })?;
        Ok(Some(Self { text, program, returns }))
    }
}

/// The behaviour of MutatingAdmissionPolicies.
pub(crate) struct MutatingPolicies;

impl Strategy for MutatingPolicies {
    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &object["spec"];
        // What is stored may stay, also after the compiler became stricter.
        if old.is_some_and(|old| old["spec"] == *spec) {
            return Vec::new();
        }
        let mut errors = Vec::new();
        let empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        let constraints = &spec["matchConstraints"];
        if constraints.is_object() && empty(&constraints["resourceRules"]) {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
        check_operations(constraints, "spec.matchConstraints", &mut errors);
        if empty(&spec["mutations"]) {
            let detail = "mutations must contain at least one item";
            errors.push(FieldError::required("spec.mutations", detail));
        }
        errors.extend(refusal(|| Rules::compile(spec).map(drop)));
        errors
    }
}

/// The behaviour of MutatingAdmissionPolicyBindings.
pub(crate) struct MutatingBindings;

impl Strategy for MutatingBindings {
    fn validate(&self, _: &WriteContext<'_>, object: &Value, _: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_operations(&object["spec"]["matchResources"], "spec.matchResources", &mut errors);
        errors
    }
}

/// Only what is written can be changed.
fn check_operations(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let rules = resources["resourceRules"].as_array().into_iter().flatten();
    let operations = rules.flat_map(|rule| rule["operations"].as_array().into_iter().flatten());
    for operation in operations.filter(|given| !given.as_str().is_some_and(|o| OPERATIONS.contains(&o))) {
        let path = format!("{path}.resourceRules.operations");
        errors.push(FieldError::not_supported(path, operation.clone(), OPERATIONS));
    }
}
