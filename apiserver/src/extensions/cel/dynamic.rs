//! Expressions over named values that have no schema, as admission has them, with variables that are evaluated when they
//! are first used, once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, SelectExpr};
use kube_cel::cel::extractors::Identifier;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::{Program, SMALL_DEPTH, budget, functions, literal, on_large_stack};

/// The function that `variables.NAME` becomes.
pub(super) const VARIABLE: &str = "@variable";
/// What `authorizer.requestResource` becomes.
pub(crate) const REQUEST_RESOURCE: &str = "@requestResource";

/// What may be null: a field of it is looked up under the name with a mark, which does not exist then, because the
/// interpreter takes a field of null for false.
const NULLABLE: [(&str, &str); 4] = [
    ("object", "@object"),
    ("oldObject", "@oldObject"),
    ("params", "@params"),
    ("namespaceObject", "@namespaceObject"),
];

/// The variables of a policy, by name.
pub(crate) type Variables = BTreeMap<String, Program>;

struct Frame {
    programs: Arc<Variables>,
    known: BTreeMap<String, Result<Value, String>>,
}

thread_local! {
    static FRAME: RefCell<Option<Frame>> = const { RefCell::new(None) };
}

/// Runs `act` with these values in scope and a budget of its own; `None` when there is no stack for it.
///
/// `depth` is the nesting of the deepest expression that `act` evaluates.
pub(crate) fn evaluate<T: Send>(
    bindings: Vec<(&'static str, Value)>,
    variables: Arc<Variables>,
    depth: usize,
    act: impl FnOnce(&Context<'_>) -> T + Send,
) -> Option<T> {
    let depth = depth + variables.values().map(Program::depth).sum::<usize>();
    let run = || {
        budget::open();
        FRAME.set(Some(Frame { programs: variables, known: BTreeMap::new() }));
        let answer = functions::with_scope(|scope| {
            for (name, value) in bindings {
                let marked = NULLABLE.iter().find(|(nullable, _)| *nullable == name);
                if let Some((_, marked)) = marked.filter(|_| value != Value::Null) {
                    scope.add_variable_from_value(*marked, value.clone());
                }
                scope.add_variable_from_value(name, value);
            }
            act(scope)
        });
        FRAME.set(None);
        answer
    };
    if depth <= SMALL_DEPTH { Some(run()) } else { on_large_stack(run) }
}

/// Whether the budget of this evaluation is spent.
pub(crate) fn exhausted() -> bool {
    budget::exhausted()
}

/// The error in the words of other interpreters, where clients may know them.
pub(crate) fn describe(error: &ExecutionError) -> String {
    if let ExecutionError::NoSuchKey(key) = error {
        return format!("no such key: {key}");
    }
    if let ExecutionError::FunctionError { message, .. } = error {
        return message.clone();
    }
    let of_null = matches!(error, ExecutionError::UndeclaredReference(name) if name.starts_with('@'));
    if of_null || *error == ExecutionError::NoSuchOverload {
        return "no such overload".to_owned();
    }
    error.to_string()
}

/// The value of a variable.
pub(super) fn variable(
    context: &FunctionContext<'_, '_>,
    Identifier(name): Identifier,
) -> Result<Value, ExecutionError> {
    let (known, programs) = FRAME.with_borrow(|frame| {
        let frame = frame.as_ref();
        (frame.and_then(|f| f.known.get(name.as_str()).cloned()), frame.map(|f| f.programs.clone()))
    });
    let value = known.unwrap_or_else(|| {
        let program = programs.as_ref().and_then(|programs| programs.get(name.as_str()));
        let value = program.map_or_else(
            || Err(format!("undefined field '{name}'")),
            |program| program.run(context.ptx).map_err(|error| describe(&error)),
        );
        FRAME.with_borrow_mut(|frame| {
            if let Some(frame) = frame {
                frame.known.insert(name.to_string(), value.clone());
            }
        });
        value
    });
    value.map_err(|error| {
        let message = format!("composited variable {name:?} fails to evaluate: {error}");
        ExecutionError::function_error("variables", message)
    })
}

/// Whether this is `variables.NAME`.
pub(super) fn is_variable(select: &SelectExpr) -> bool {
    matches!(&select.operand.expr, Expr::Ident(name) if name == "variables")
}

/// Turns what only looks like a field into what it means.
pub(super) fn lower(expression: &mut IdedExpr, bound: &mut Vec<String>) {
    if let Expr::Struct(written) = &mut expression.expr {
        expression.expr = literal::as_map(std::mem::take(written));
    }
    if let Expr::Select(select) = &expression.expr {
        if is_variable(select) {
            let argument = IdedExpr { id: expression.id, expr: Expr::Ident(select.field.clone()) };
            let call = CallExpr { func_name: VARIABLE.to_owned(), target: None, args: vec![argument] };
            expression.expr = Expr::Call(call);
            return;
        }
        let of_authorizer = matches!(&select.operand.expr, Expr::Ident(name) if name == "authorizer");
        if of_authorizer && select.field == "requestResource" {
            expression.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
            return;
        }
    }
    match &mut expression.expr {
        Expr::Select(select) => {
            if let Expr::Ident(name) = &mut select.operand.expr
                && !bound.contains(name)
                && let Some((_, marked)) = NULLABLE.iter().find(|(nullable, _)| nullable == name)
            {
                *name = (*marked).to_owned();
            }
            lower(&mut select.operand, bound);
        }
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| lower(target, bound));
            call.args.iter_mut().for_each(|argument| lower(argument, bound));
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| lower(element, bound)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    lower(&mut entry.key, bound);
                    lower(&mut entry.value, bound);
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            for part in [&mut comprehension.iter_range, &mut comprehension.accu_init] {
                lower(part, bound);
            }
            let before = bound.len();
            bound.push(comprehension.iter_var.clone());
            bound.extend(comprehension.iter_var2.clone());
            let parts =
                [&mut comprehension.loop_cond, &mut comprehension.loop_step, &mut comprehension.result];
            parts.into_iter().for_each(|part| lower(part, bound));
            bound.truncate(before);
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}
