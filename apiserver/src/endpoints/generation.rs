//! What counts as a change: of the desired state, and of anything at all; never makes one.

use serde_json::{Map, Value};

/// Whether what is desired differs: everything beside `metadata` and, where it is a subresource, `status`.
pub(crate) fn desired_differs(old: &Value, new: &Value, has_status: bool) -> bool {
    let ignored =
        |key: &str| matches!(key, "apiVersion" | "kind" | "metadata") || (has_status && key == "status");
    differs(old, new, ignored)
}

/// Whether an update changes nothing but times of managed fields and the resource version.
pub(crate) fn is_no_op(old: &Value, new: &Value) -> bool {
    // The version an object is stored in may differ from the one it is written through.
    if differs(old, new, |key| matches!(key, "apiVersion" | "metadata")) {
        return false;
    }
    let (old, new) = (&old["metadata"], &new["metadata"]);
    !differs(old, new, |key| matches!(key, "managedFields" | "resourceVersion"))
        && timeless(&old["managedFields"]) == timeless(&new["managedFields"])
}

fn differs(old: &Value, new: &Value, ignored: impl Fn(&str) -> bool) -> bool {
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let one_way = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.keys().filter(|key| !ignored(key)).any(|key| present(a, key) != present(b, key))
    };
    one_way(old, new) || one_way(new, old)
}

/// A null says as much as an absent field.
fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn timeless(entries: &Value) -> Vec<Value> {
    let list = entries.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|entry| {
            let mut entry = entry.clone();
            if let Some(map) = entry.as_object_mut() {
                map.remove("time");
            }
            entry
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_and_versions_alone_are_no_change() {
        let at = |time: &str, version: &str| json!({"metadata": {"resourceVersion": version, "managedFields": [{"manager": "a", "time": time}]}, "data": {"a": "b"}});
        assert!(is_no_op(&at("1", "5"), &at("2", "")));
        let mut other = at("1", "5");
        other["metadata"]["managedFields"][0]["manager"] = json!("b");
        assert!(!is_no_op(&at("1", "5"), &other));
        assert!(!is_no_op(
            &json!({"metadata": {}, "data": {}}),
            &json!({"metadata": {}, "data": {"a": "b"}})
        ));
    }

    #[test]
    fn the_desired_state_is_everything_but_metadata_and_status() {
        let old = json!({"metadata": {"labels": {}}, "spec": {"a": 1}, "status": {"b": 1}});
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"x": "y"});
        new["status"]["b"] = json!(2);
        assert!(!desired_differs(&old, &new, true));
        assert!(desired_differs(&old, &new, false));
        new["spec"]["a"] = json!(2);
        assert!(desired_differs(&old, &new, true));
    }
}
