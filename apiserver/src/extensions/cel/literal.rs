//! Object literals in the expressions of mutating policies, `Object{spec: Object.spec{…}}` and `JSONPatch{…}`: checked
//! against the place where they stand, then evaluated as maps, which is what the interpreter knows.

use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
};
use kube_cel::cel::common::types::CelString;

use super::value::unescaped;

const OBJECT: &str = "Object";
const PATCH: &str = "JSONPatch";
const PATCH_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// What the expression of a change has to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// `Object{…}`: the fields to set.
    Object,
    /// A list of `JSONPatch{…}`.
    Patches,
}

impl Returns {
    /// Refuses an expression that cannot return this, as far as that shows.
    pub(super) fn check(self, expression: &IdedExpr) -> Result<(), String> {
        let fits = match (self, &expression.expr) {
            (_, Expr::Call(call)) if call.func_name == "_?_:_" => {
                return call.args.iter().skip(1).try_for_each(|branch| self.check(branch));
            }
            (Self::Patches, Expr::Call(call)) if call.func_name == "_+_" => {
                return call.args.iter().try_for_each(|part| self.check(part));
            }
            (Self::Object, Expr::Struct(literal)) => literal.type_name == OBJECT,
            (Self::Patches, Expr::List(list)) => list.elements.iter().all(|element| {
                matches!(&element.expr, Expr::Struct(literal) if literal.type_name == PATCH)
                    || !is_plain(&element.expr)
            }),
            (_, other) => !is_plain(other),
        };
        let wanted = match self {
            Self::Object => OBJECT,
            Self::Patches => "list(JSONPatch)",
        };
        if fits { Ok(()) } else { Err(format!("must evaluate to {wanted}")) }
    }
}

/// Whether this can be nothing but what it is written as.
fn is_plain(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Struct(_))
}

/// Refuses types that do not exist, and objects whose type is not that of the field they stand in.
pub(super) fn check(literal: &StructExpr) -> Result<(), String> {
    let name = literal.type_name.trim_start_matches('.');
    if name == PATCH {
        let unknown = fields(literal).find(|(field, _)| !PATCH_FIELDS.contains(field));
        return unknown.map_or(Ok(()), |(field, _)| Err(format!("undefined field '{field}'")));
    }
    if name != OBJECT && !name.starts_with("Object.") {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    }
    fields(literal).try_for_each(|(field, value)| belongs(&value.expr, &format!("{name}.{field}")))
}

/// Whether the objects in a value are of the type `wanted`.
fn belongs(value: &Expr, wanted: &str) -> Result<(), String> {
    if let Expr::Struct(inner) = value {
        let name = inner.type_name.trim_start_matches('.');
        if name == wanted {
            return Ok(());
        }
        return Err(format!(
            "type mismatch: unexpected type name {name:?}, expected {wanted:?}, which matches field name path from root Object type"
        ));
    }
    if let Expr::List(list) = value {
        return list.elements.iter().try_for_each(|element| belongs(&element.expr, wanted));
    }
    if let Expr::Map(map) = value {
        return map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => belongs(&entry.value.expr, wanted),
            EntryExpr::StructField(_) => Ok(()),
        });
    }
    Ok(())
}

fn fields(literal: &StructExpr) -> impl Iterator<Item = (&str, &IdedExpr)> {
    literal.entries.iter().filter_map(|entry| match &entry.expr {
        EntryExpr::StructField(field) => Some((field.field.as_str(), &field.value)),
        EntryExpr::MapEntry(_) => None,
    })
}

/// The literal as a map from the names of its fields.
pub(super) fn as_map(literal: StructExpr) -> Expr {
    let entry = |entry: IdedEntryExpr| {
        let expr = match entry.expr {
            EntryExpr::StructField(field) => {
                let name = CelString::from(unescaped(&field.field).into_owned());
                EntryExpr::MapEntry(MapEntryExpr {
                    key: IdedExpr { id: entry.id, expr: Expr::Literal(LiteralValue::String(name)) },
                    value: field.value,
                    optional: field.optional,
                })
            }
            other @ EntryExpr::MapEntry(_) => other,
        };
        IdedEntryExpr { id: entry.id, expr }
    };
    Expr::Map(MapExpr { entries: literal.entries.into_iter().map(entry).collect() })
}
