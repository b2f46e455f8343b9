//! Errors of a custom resource that were there before: an update need not repair what it does not touch.

use litek8s_machinery::field::{FieldError, FieldErrorKind};
use serde_json::Value;

/// Whether the error is about a value that the update leaves as it was.
pub(crate) fn is_old(error: &FieldError, object: &Value, old: &Value) -> bool {
    let mut steps = steps(&error.path);
    // What is missing is missing in its parent.
    if error.kind == FieldErrorKind::Required {
        steps.pop();
    }
    if steps.is_empty() {
        return false;
    }
    matches!((find(object, &steps), find(old, &steps)), (Some(now), Some(before)) if now == before)
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

fn find<'a>(value: &'a Value, steps: &[&str]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |at, step| match at.as_array() {
        Some(items) => items.get(step.parse::<usize>().ok()?),
        None => at.get(step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_update_does_not_touch_it_need_not_repair() {
        let old = json!({"spec": {"list": [{"name": "BAD"}], "map": {"a.b": 1}, "n": 1}});
        let mut new = old.clone();
        new["spec"]["n"] = json!(2);
        let bad = |path: &str| FieldError::invalid(path, "x", "");
        assert!(is_old(&bad("spec.list[0].name"), &new, &old));
        assert!(is_old(&bad("spec.map[a.b]"), &new, &old));
        assert!(!is_old(&bad("spec.n"), &new, &old));
        assert!(!is_old(&bad("spec.list[1]"), &new, &old));
        assert!(is_old(&FieldError::required("spec.list[0].x", ""), &new, &old));
        assert!(!is_old(&FieldError::required("spec.x", ""), &new, &old));
        assert!(!is_old(&bad(""), &new, &old));
    }
}
