//! Functions whose results, or whose work, can be far more than what they are given: paid for before they run.
//!
//! `budget::charge` sees a value when it is there already. For most functions that is early enough, because what they
//! make is not much larger than their arguments, which were paid for. These here could fill the memory in one call.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, Value};

use super::budget::{MAX_MADE, reserve};

/// The most that a call makes, in bytes, or the number of comparisons it needs; of the target (for methods) and the
/// arguments.
type Size = fn(&[Value]) -> u64;

/// The methods.
const METHODS: [(&str, Size); 8] = [
    ("replace", replace),
    ("join", join),
    ("split", split),
    ("findAll", find_all),
    ("format", format),
    ("flatten", flatten),
    ("distinct", |values| length(values, 0).saturating_mul(length(values, 0))),
    ("indexOf", pairs),
];

/// The functions with a namespace.
const FUNCTIONS: [(&str, Size); 4] = [
    ("lists.range", range),
    ("sets.contains", pairs),
    ("sets.equivalent", |values| pairs(values).saturating_mul(2)),
    ("sets.intersects", pairs),
];

/// Bytes of an element of a list that is a text of its own.
const ELEMENT: u64 = 64;

thread_local! {
    /// The functions as they are without a budget.
    static UNGUARDED: Context<'static> = Context::default().with_all();
}

/// Puts the guarded functions in the place of those they call.
pub(super) fn register(base: &mut Context<'_>) {
    for (name, size) in METHODS {
        base.add_function(name, move |This(target): This<Value>, Arguments(args): Arguments| {
            let values: Vec<Value> = std::iter::once(target).chain(args.iter().cloned()).collect();
            reserve(size(&values))?;
            run(name, true, values)
        });
    }
    for (name, size) in FUNCTIONS {
        base.add_function(name, move |Arguments(args): Arguments| {
            reserve(size(&args))?;
            run(name, false, args.to_vec())
        });
    }
}

/// Calls the unguarded function.
fn run(name: &str, is_method: bool, values: Vec<Value>) -> kube_cel::cel::ResolveResult {
    UNGUARDED.with(|base| {
        let mut scope = base.new_inner_scope();
        let mut names = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            let variable = format!("@{at}");
            scope.add_variable_from_value(variable.as_str(), value);
            names.push(IdedExpr { id: 0, expr: Expr::Ident(variable) });
        }
        let target = is_method.then(|| Box::new(names.remove(0)));
        let call = CallExpr { func_name: name.to_owned(), target, args: names };
        Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope)
    })
}

fn size_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The bytes of a text, or the elements of a list; a single thing otherwise.
fn length(values: &[Value], at: usize) -> u64 {
    match values.get(at) {
        Some(Value::String(text)) => size_of(text.len()),
        Some(Value::List(items)) => size_of(items.len()),
        _ => 1,
    }
}

fn text(values: &[Value], at: usize) -> Option<&Arc<String>> {
    match values.get(at) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The number that limits how often something is done, when there is one.
fn limit(values: &[Value], at: usize) -> u64 {
    match values.get(at) {
        Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(u64::MAX),
        _ => u64::MAX,
    }
}

/// How often the text in the first argument occurs in the target.
fn occurrences(values: &[Value]) -> u64 {
    let found = text(values, 0).zip(text(values, 1));
    found.map_or(0, |(target, wanted)| size_of(target.matches(wanted.as_str()).count()))
}

fn replace(values: &[Value]) -> u64 {
    let times = occurrences(values).min(limit(values, 3));
    length(values, 0).saturating_add(times.saturating_mul(length(values, 2)))
}

fn split(values: &[Value]) -> u64 {
    let pieces = occurrences(values).saturating_add(1).min(limit(values, 2));
    length(values, 0).saturating_add(pieces.saturating_mul(ELEMENT))
}

fn find_all(values: &[Value]) -> u64 {
    let most = length(values, 0).saturating_add(1).min(limit(values, 2));
    length(values, 0).saturating_add(most.saturating_mul(ELEMENT))
}

fn join(values: &[Value]) -> u64 {
    let separators = length(values, 0).saturating_mul(text(values, 1).map_or(0, |text| size_of(text.len())));
    separators.saturating_add(shown(&values[..1]))
}

/// As long as the arguments in hexadecimal, with as many decimals as the format asks for.
fn format(values: &[Value]) -> u64 {
    let Some(format) = text(values, 0) else { return 0 };
    let precisions = format.split("%.").skip(1).map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
        digits.parse().unwrap_or(u64::MAX)
    });
    let decimals = precisions.fold(0, u64::saturating_add);
    size_of(format.len()).saturating_add(decimals).saturating_add(shown(&values[1..]).saturating_mul(2))
}

fn flatten(values: &[Value]) -> u64 {
    shown(&values[..1])
}

fn range(values: &[Value]) -> u64 {
    match values.first() {
        Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(0).saturating_mul(ELEMENT / 2),
        _ => 0,
    }
}

/// Everything of one side compared with everything of the other.
fn pairs(values: &[Value]) -> u64 {
    length(values, 0).saturating_mul(length(values, 1))
}

/// About how long values are as texts. One list may be in another many times, so that a small value may be a long text:
/// counting ends beyond the budget.
fn shown(values: &[Value]) -> u64 {
    const VALUE: u64 = 32;
    let mut total = 0_u64;
    let mut left: Vec<std::slice::Iter<'_, Value>> = vec![values.iter()];
    while let Some(items) = left.last_mut() {
        match items.next() {
            None => drop(left.pop()),
            Some(Value::String(text)) => total += size_of(text.len()) + VALUE,
            Some(Value::Bytes(bytes)) => total += size_of(bytes.len()).saturating_mul(4),
            Some(Value::List(inner)) => {
                total += VALUE;
                left.push(inner.iter());
            }
            Some(Value::Map(map)) => {
                for (key, value) in map.map.iter() {
                    let one = shown(std::slice::from_ref(value));
                    total = total.saturating_add(one).saturating_add(size_of(key.to_string().len()));
                }
            }
            Some(_) => total += VALUE,
        }
        if total > MAX_MADE {
            return u64::MAX;
        }
    }
    total
}
