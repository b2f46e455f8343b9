//! One expression: parsed, checked against its schema, and rewritten so that its loops keep the budget.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};
use litek8s_machinery::schema::{Schema, Type};

use super::dynamic;
use super::functions::{self, CHARGE, STEP, TYPES};
use super::literal::{self, Returns};
use super::value::escaped;
use crate::admission::authorizer;

/// Longest expression.
const MAX_LENGTH: usize = 16 * 1024;
/// Deepest expression, within what the interpreter's recursion can bear.
const MAX_DEPTH: usize = 64;

/// An expression ready to run.
pub(crate) struct Program {
    expression: IdedExpr,
    uses_old_self: bool,
    depth: usize,
}

impl Program {
    /// Parses and checks an expression over `self` and `oldSelf` of this schema.
    pub(crate) fn compile(text: &str, schema: &Schema, is_root: bool) -> Result<Self, String> {
        let expression = parse(text)?;
        let mut check = Check {
            root: is_root.then_some(schema),
            bound: Vec::new(),
            uses_old_self: false,
            depth: 0,
            variables: None,
            literals: false,
        };
        check.bound.push(("self".to_owned(), Some(schema)));
        check.bound.push(("oldSelf".to_owned(), None));
        check.expression(&expression, 0)?;
        Ok(Program {
            uses_old_self: check.uses_old_self,
            depth: check.depth,
            expression: guarded(expression),
        })
    }

    /// Parses and checks an expression over values without a schema; `variables` are named as `variables.NAME`.
    pub(crate) fn compile_dynamic(
        text: &str,
        names: &[&str],
        variables: &BTreeMap<String, Program>,
    ) -> Result<Self, String> {
        Self::over_values(parse(text)?, names, variables, false)
    }

    /// Says which field an expression names that its values do not have: `names` with the schema of their values, where
    /// that is known. Rules about kinds are checked by this; what they compare is not.
    pub(crate) fn undefined(
        text: &str,
        names: &[(&str, Option<&Schema>)],
        variables: &BTreeMap<String, Program>,
    ) -> Result<(), String> {
        let mut check = Check {
            root: names.iter().find_map(|(_, schema)| *schema),
            bound: names.iter().map(|(name, schema)| ((*name).to_owned(), *schema)).collect(),
            uses_old_self: false,
            depth: 0,
            variables: Some(variables),
            literals: false,
        };
        check.expression(&parse(text)?, 0).map(drop)
    }

    /// The same for an expression that makes a change, which may write `Object{…}` and `JSONPatch{…}`.
    pub(crate) fn compile_patch(
        text: &str,
        names: &[&str],
        variables: &BTreeMap<String, Program>,
        returns: Returns,
    ) -> Result<Self, String> {
        let expression = parse(text)?;
        returns.check(&expression)?;
        Self::over_values(expression, names, variables, true)
    }

    fn over_values(
        mut expression: IdedExpr,
        names: &[&str],
        variables: &BTreeMap<String, Program>,
        literals: bool,
    ) -> Result<Self, String> {
        let bound = names.iter().map(|name| ((*name).to_owned(), None)).collect();
        let mut check =
            Check { root: None, bound, uses_old_self: false, depth: 0, variables: Some(variables), literals };
        check.expression(&expression, 0)?;
        dynamic::lower(&mut expression, &mut Vec::new());
        Ok(Program { uses_old_self: false, depth: check.depth, expression: guarded(expression) })
    }

    /// Whether the value must be compared with one before.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// How deep the expression is nested.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Runs the expression; the interpreter's own panics are errors here.
    pub(crate) fn run(&self, scope: &Context<'_>) -> Result<Value, ExecutionError> {
        catch_unwind(AssertUnwindSafe(|| Value::resolve(&self.expression, scope))).unwrap_or_else(|_| {
            Err(ExecutionError::function_error("rule", "the expression cannot be evaluated"))
        })
    }
}

fn parse(text: &str) -> Result<IdedExpr, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("the expression is longer than {MAX_LENGTH} bytes"));
    }
    let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
    let parsed = parsed.map_err(|_| "the expression cannot be parsed".to_owned())?;
    parsed.map_err(|errors| errors.to_string())
}

/// Finds names that do not exist, as far as the schema tells.
struct Check<'a> {
    root: Option<&'a Schema>,
    bound: Vec<(String, Option<&'a Schema>)>,
    uses_old_self: bool,
    depth: usize,
    /// The variables of a policy; none where there is no policy.
    variables: Option<&'a BTreeMap<String, Program>>,
    /// Whether the expression may write objects.
    literals: bool,
}

impl<'a> Check<'a> {
    /// Checks an expression; its schema, where it is known.
    fn expression(&mut self, expression: &IdedExpr, depth: usize) -> Result<Option<&'a Schema>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the expression is nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth = self.depth.max(depth);
        let depth = depth + 1;
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(None),
            Expr::Struct(literal) if self.literals => {
                literal::check(literal)?;
                literal.entries.iter().try_for_each(|entry| self.entry(entry, depth))?;
                Ok(None)
            }
            Expr::Struct(_) => Err("message literals are not supported".to_owned()),
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) if self.variables.is_some() && dynamic::is_variable(select) => {
                let known = self.variables.is_some_and(|all| all.contains_key(&select.field));
                match (known, select.test) {
                    (true, false) => Ok(None),
                    (true, true) => Err(format!("has(variables.{}) is always true", select.field)),
                    (false, _) => Err(format!("undefined field '{}'", select.field)),
                }
            }
            Expr::Select(select) => {
                let operand = self.expression(&select.operand, depth)?;
                self.field(operand, &select.field)
            }
            Expr::List(list) => {
                list.elements.iter().try_for_each(|element| self.expression(element, depth).map(drop))?;
                Ok(None)
            }
            Expr::Map(map) => {
                map.entries.iter().try_for_each(|entry| self.entry(entry, depth))?;
                Ok(None)
            }
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(comprehension) => {
                let range = self.expression(&comprehension.iter_range, depth)?;
                self.expression(&comprehension.accu_init, depth)?;
                let before = self.bound.len();
                let item = range.filter(|s| s.ty == Type::Array).and_then(Schema::item);
                self.bound.push((comprehension.iter_var.clone(), item));
                self.bound.push((comprehension.accu_var.clone(), None));
                if let Some(second) = &comprehension.iter_var2 {
                    self.bound.push((second.clone(), None));
                }
                let inner = [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result];
                inner.into_iter().try_for_each(|expression| self.expression(expression, depth).map(drop))?;
                self.bound.truncate(before);
                Ok(None)
            }
        }
    }

    fn identifier(&mut self, name: &str) -> Result<Option<&'a Schema>, String> {
        let known = self.bound.iter().rev().find(|(bound, _)| bound == name);
        match known {
            Some((_, schema)) => {
                self.uses_old_self |= name == "oldSelf";
                Ok(*schema)
            }
            None if TYPES.contains(&name) || name.starts_with('@') => Ok(None),
            None => Err(format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn field(&self, operand: Option<&'a Schema>, name: &str) -> Result<Option<&'a Schema>, String> {
        let Some(schema) = operand else { return Ok(None) };
        if self.root.is_some_and(|root| std::ptr::eq(root, schema)) || schema.embedded_resource {
            match name {
                "apiVersion" | "kind" | "metadata" => return Ok(None),
                _ => {}
            }
        }
        let named =
            |(field, _): &(&std::sync::Arc<str>, _)| escaped(field).is_some_and(|field| field == name);
        match schema.properties.iter().find(named) {
            Some((_, property)) => Ok(Some(property.schema.get())),
            None => match &schema.additional {
                Some(values) => Ok(Some(values.get())),
                None if schema.ty == Type::Object && !schema.preserve_unknown => {
                    Err(format!("undefined field '{name}'"))
                }
                None => Ok(None),
            },
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Result<Option<&'a Schema>, String> {
        let mut name = call.func_name.clone();
        if let Some(target) = &call.target {
            if let Expr::Ident(space) = &target.expr
                && !self.bound.iter().any(|(bound, _)| bound == space)
            {
                name = format!("{space}.{name}");
            } else {
                self.expression(target, depth)?;
            }
        }
        let word = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if self.variables.is_none() && authorizer::FUNCTIONS.contains(&&*call.func_name) {
            return Err(format!("undeclared reference to '{name}' (in container '')"));
        }
        if word && !functions::exists(&name) && !functions::exists(&call.func_name) {
            return Err(format!("undeclared reference to '{name}' (in container '')"));
        }
        let mut arguments = Vec::new();
        for argument in &call.args {
            arguments.push(self.expression(argument, depth)?);
        }
        // An element of a list is what it says.
        let first = arguments.first().copied().flatten();
        let list = first.filter(|s| call.func_name == "_[_]" && s.ty == Type::Array);
        Ok(list.and_then(Schema::item))
    }

    fn entry(&mut self, entry: &IdedEntryExpr, depth: usize) -> Result<(), String> {
        match &entry.expr {
            EntryExpr::StructField(field) => self.expression(&field.value, depth).map(drop),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key, depth)?;
                self.expression(&entry.value, depth).map(drop)
            }
        }
    }
}

/// The expression with the budget kept at every loop and at everything that makes texts and lists.
fn guarded(expression: IdedExpr) -> IdedExpr {
    let id = expression.id;
    let all = |list: Vec<IdedExpr>| list.into_iter().map(guarded).collect();
    let expr = match expression.expr {
        Expr::Call(mut call) => {
            call.target = call.target.map(|target| Box::new(guarded(*target)));
            call.args = all(call.args);
            let makes =
                call.func_name == "_+_" || call.func_name.starts_with(|c: char| c.is_ascii_alphabetic());
            let call = Expr::Call(call);
            if makes { wrapped(CHARGE, IdedExpr { id, expr: call }) } else { call }
        }
        Expr::Comprehension(mut comprehension) => {
            for part in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                *part = guarded(std::mem::take(part));
            }
            let condition = std::mem::take(&mut comprehension.loop_cond);
            comprehension.loop_cond = IdedExpr { id, expr: wrapped(STEP, condition) };
            Expr::Comprehension(comprehension)
        }
        Expr::List(mut list) => {
            list.elements = all(list.elements);
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = guarded(std::mem::take(&mut entry.key));
                    entry.value = guarded(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(guarded(*select.operand));
            Expr::Select(select)
        }
        leaf @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => leaf,
    };
    IdedExpr { id, expr }
}

fn wrapped(function: &str, argument: IdedExpr) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args: vec![argument] })
}
