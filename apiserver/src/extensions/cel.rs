//! `x-kubernetes-validations`: CEL rules of custom resources, compiled once per schema and evaluated within a budget.
//!
//! A rule may cost only so many steps, so much memory and so much time; beyond that the object is refused, as
//! kube-apiserver refuses it.

mod budget;
pub(crate) mod dynamic;
mod evaluate;
pub(crate) mod functions;
mod literal;
mod program;
mod sizes;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use litek8s_machinery::field::{FieldError, Path};
use litek8s_machinery::schema::{Rule, Schema, SchemaRef};
use serde_json::Value;

pub(crate) use budget::OUT_OF_BUDGET;
pub(crate) use literal::Returns;
pub(crate) use program::Program;
pub(crate) use value::{to_cel, to_json};

/// Stack for parsing and for deep expressions, in bytes; only what is used is ever mapped.
const LARGE_STACK: usize = 64 * 1024 * 1024;
/// Expressions up to this nesting are evaluated on the stack of the request.
const SMALL_DEPTH: usize = 20;

/// The compiled rules of one schema, with the way to them; parts of the schema without rules are not here.
#[derive(Default)]
pub(crate) struct Rules {
    root: Option<Node>,
    /// Nesting of the deepest expression.
    depth: usize,
}

/// A place in the schema that has rules, or leads to some.
#[derive(Default)]
struct Node {
    rules: Vec<CompiledRule>,
    schema: Option<SchemaRef>,
    fields: BTreeMap<Arc<str>, Node>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
    /// Keys by which an element of the old list is found again.
    keys: Arc<[Arc<str>]>,
}

struct CompiledRule {
    rule: Rule,
    program: Program,
    message: Option<Program>,
    /// Blamed field below the place of the rule, empty for the place itself.
    field: String,
}

impl Rules {
    /// Compiles all rules of a schema. `path` is where the schema stands in its definition; the errors name the rules
    /// that are none.
    pub(crate) fn compile(schema: &SchemaRef, path: &str) -> (Self, Vec<FieldError>) {
        if !has_rules(schema.get()) {
            return (Self::default(), Vec::new());
        }
        // The parser of expressions recurses deeply, deeper than the stacks of request handlers bear.
        let compile = || {
            let mut errors = Vec::new();
            let root = Node::compile(schema, path, true, &mut errors);
            let depth = root.as_ref().map_or(0, Node::depth);
            (Rules { root, depth }, errors)
        };
        on_large_stack(compile).unwrap_or_else(|| {
            let error = FieldError::invalid(path, Value::Null, "the rules cannot be compiled");
            (Self::default(), vec![error])
        })
    }

    /// What the rules say against `object`, which replaces `old`.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match &self.root {
            None => Vec::new(),
            Some(root) if self.depth <= SMALL_DEPTH => evaluate::evaluate(root, object, old),
            Some(root) => on_large_stack(|| evaluate::evaluate(root, object, old)).unwrap_or_else(|| {
                vec![FieldError::invalid(Path::root(), "object", "the rules cannot be evaluated")]
            }),
        }
    }
}

/// Does something that recurses deeper than the threads of the runtime have room for.
pub(crate) fn on_large_stack<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("deep".to_owned()).stack_size(LARGE_STACK);
        thread.spawn_scoped(scope, act).ok()?.join().ok()
    })
}

fn has_rules(schema: &Schema) -> bool {
    let inner = schema.properties.values().map(|p| &p.schema).chain(&schema.items).chain(&schema.additional);
    let in_place =
        |reference: &SchemaRef| matches!(reference, SchemaRef::Inline(schema) if has_rules(schema));
    !schema.rules.is_empty() || inner.into_iter().any(in_place)
}

impl Node {
    fn compile(
        reference: &SchemaRef,
        path: &str,
        is_root: bool,
        errors: &mut Vec<FieldError>,
    ) -> Option<Self> {
        // Built-in types have no rules, and some contain themselves.
        let SchemaRef::Inline(schema) = reference else { return None };
        let mut node = Node::default();
        for (index, rule) in schema.rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            match CompiledRule::compile(rule, schema, is_root, &path) {
                Ok(rule) => node.rules.push(rule),
                Err(error) => errors.push(error),
            }
        }
        if !node.rules.is_empty() {
            node.schema = Some(reference.clone());
        }
        for (name, property) in &schema.properties {
            let path = format!("{path}.properties[{name}]");
            if let Some(child) = Node::compile(&property.schema, &path, false, errors) {
                node.fields.insert(name.clone(), child);
            }
        }
        if let Some(items) = &schema.items {
            node.items = Node::compile(items, &format!("{path}.items"), false, errors).map(Box::new);
            if let litek8s_machinery::schema::ListType::Map { keys } = &schema.list {
                node.keys = keys.clone();
            }
        }
        if let Some(values) = &schema.additional {
            node.values =
                Node::compile(values, &format!("{path}.additionalProperties"), false, errors).map(Box::new);
        }
        let empty =
            node.rules.is_empty() && node.fields.is_empty() && node.items.is_none() && node.values.is_none();
        (!empty).then_some(node)
    }
}

impl Node {
    fn depth(&self) -> usize {
        let own =
            self.rules.iter().flat_map(|r| std::iter::once(&r.program).chain(&r.message)).map(Program::depth);
        let inner = self.fields.values().chain(self.items.as_deref()).chain(self.values.as_deref());
        own.chain(inner.map(Node::depth)).max().unwrap_or(0)
    }
}

impl CompiledRule {
    fn compile(rule: &Rule, schema: &Schema, is_root: bool, path: &str) -> Result<Self, FieldError> {
        let compiled = |text: &str, field: &str| {
            Program::compile(text, schema, is_root).map_err(|e| {
                FieldError::invalid(format!("{path}.{field}"), text, format!("compilation failed: {e}"))
            })
        };
        if rule.rule.trim().is_empty() {
            return Err(FieldError::required(format!("{path}.rule"), "rule is not specified"));
        }
        let program = compiled(&rule.rule, "rule")?;
        let message = match &rule.message_expression {
            Some(text) => Some(compiled(text, "messageExpression")?),
            None => None,
        };
        if rule.optional_old_self && !program.uses_old_self() {
            return Err(FieldError::invalid(
                format!("{path}.optionalOldSelf"),
                true,
                "may not be set to true if `oldSelf` is not used in rule",
            ));
        }
        let field = blamed(rule.field_path.as_deref().unwrap_or_default());
        Ok(CompiledRule { rule: rule.clone(), program, message, field })
    }

    /// What to say when the rule is false and no expression says it.
    fn fixed_message(&self) -> String {
        match self.rule.message.as_deref().map(str::trim).filter(|m| !m.is_empty()) {
            Some(message) => message.to_owned(),
            None => format!("failed rule: {}", self.rule.rule.trim()),
        }
    }
}

/// `.spec['a-b'].c` as `spec[a-b].c`.
fn blamed(path: &str) -> String {
    path.trim().trim_start_matches('.').replace("['", "[").replace("']", "]")
}

#[cfg(test)]
mod tests;
