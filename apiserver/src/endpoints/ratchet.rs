//! Errors of a custom resource that were there before: an update need not repair what it does not touch.

use litek8s_machinery::field::{FieldError, FieldErrorKind};
use litek8s_machinery::schema::{ListType, Schema};
use serde_json::Value;

/// Whether the error is about a value that the update leaves as it was.
///
/// Elements of a list are the same by their keys, or as members of a set; those of other lists only when the whole list
/// is unchanged.
pub(crate) fn is_old(schema: &Schema, error: &FieldError, object: &Value, old: &Value) -> bool {
    let mut steps = steps(&error.path);
    // What is missing is missing in its parent.
    if error.kind == FieldErrorKind::Required {
        steps.pop();
    }
    if steps.is_empty() {
        return false;
    }
    let (mut now, mut before, mut schema) = (object, old, Some(schema));
    for step in steps {
        if let Some(items) = now.as_array() {
            let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                return false;
            };
            let Some(list) = before.as_array() else { return false };
            let kind = schema.map(|schema| &schema.list);
            let same = match kind {
                Some(ListType::Map { keys }) => {
                    list.iter().find(|other| keys.iter().all(|key| other.get(&**key) == item.get(&**key)))
                }
                Some(ListType::Set) => list.iter().find(|other| *other == item),
                Some(ListType::Unsaid | ListType::Atomic) | None => (list == items).then_some(item),
            };
            let Some(same) = same else { return false };
            (now, before, schema) = (item, same, schema.and_then(Schema::item));
        } else {
            let (Some(value), Some(was)) = (now.get(step), before.get(step)) else { return false };
            (now, before, schema) = (value, was, schema.and_then(|schema| schema.field(step)));
        }
    }
    now == before
}

/// `spec.ports[0].name` as `spec`, `ports`, `0`, `name`; keys of maps stand in brackets too.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((step, tail)) = inner.split_once(']') else { return Vec::new() };
            steps.push(step);
            rest = tail;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (step, tail) = rest.split_at(end);
            if step.is_empty() {
                return Vec::new();
            }
            steps.push(step);
            rest = tail;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use litek8s_machinery::schema::from_crd;
    use serde_json::json;

    #[test]
    fn what_an_update_does_not_touch_it_need_not_repair() {
        let schema = Schema::anything();
        let old = json!({"spec": {"list": [{"name": "BAD"}], "map": {"a.b": 1}, "n": 1}});
        let mut new = old.clone();
        new["spec"]["n"] = json!(2);
        let bad = |path: &str| FieldError::invalid(path, "x", "");
        assert!(is_old(schema, &bad("spec.list[0].name"), &new, &old));
        assert!(is_old(schema, &bad("spec.map[a.b]"), &new, &old));
        assert!(!is_old(schema, &bad("spec.n"), &new, &old));
        assert!(!is_old(schema, &bad("spec.list[1]"), &new, &old));
        assert!(is_old(schema, &FieldError::required("spec.list[0].x", ""), &new, &old));
        assert!(!is_old(schema, &FieldError::required("spec.x", ""), &new, &old));
        assert!(!is_old(schema, &bad(""), &new, &old));
    }

    #[test]
    fn elements_are_the_same_by_their_keys_and_not_by_their_place() {
        let list = |kind: Value| {
            let mut list = json!({"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "n": {"type": "integer"},
            }}});
            for (name, value) in kind.as_object().into_iter().flatten() {
                list[name.as_str()] = value.clone();
            }
            json!({"type": "object", "properties": {"list": list}})
        };
        let mut keyed =
            list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}));
        keyed["properties"]["list"]["items"]["required"] = json!(["name"]);
        let keyed = from_crd(&keyed).unwrap();
        let atomic = from_crd(&list(json!({}))).unwrap();
        let old = json!({"list": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]});
        let moved = json!({"list": [{"name": "b", "n": 2}, {"name": "a", "n": 3}]});
        let bad = |path: &str| FieldError::invalid(path, "x", "");
        assert!(is_old(&keyed, &bad("list[0].n"), &moved, &old));
        assert!(!is_old(&keyed, &bad("list[1].n"), &moved, &old));
        let changed = json!({"list": [{"name": "a", "n": 1}, {"name": "c", "n": 2}]});
        assert!(!is_old(&atomic, &bad("list[0].n"), &changed, &old));
        assert!(is_old(&atomic, &bad("list[0].n"), &old, &old));
    }
}
