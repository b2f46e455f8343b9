//! The part of a backend's OpenAPI v2 document that its APIService is for, and such parts put into another document.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The paths at and below `path`, with the definitions they use.
pub(super) fn part_of(document: &Value, path: &str) -> Option<Value> {
    let below = format!("{path}/");
    let paths: Map<String, Value> = document["paths"]
        .as_object()?
        .iter()
        .filter(|(at, _)| at.trim_end_matches('/') == path || at.starts_with(&below))
        .map(|(at, what)| (at.clone(), what.clone()))
        .collect();
    let mut definitions = Map::new();
    let mut wanted = BTreeSet::new();
    paths.values().for_each(|path| references(path, &mut wanted));
    while let Some(name) = wanted.pop_first() {
        let Some(definition) = document["definitions"].get(&name) else { continue };
        if !definitions.contains_key(&name) {
            references(definition, &mut wanted);
            definitions.insert(name, definition.clone());
        }
    }
    Some(json!({"paths": paths, "definitions": definitions}))
}

fn references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().and_then(|target| target.strip_prefix("#/definitions/")) {
                    Some(name) if key == "$ref" => drop(names.insert(name.to_owned())),
                    _ => references(value, names),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds a part; a definition of a name that is there already is the same type of the same Go package, and stays.
pub(super) fn merge(document: &mut Value, part: &Value) {
    for section in ["paths", "definitions"] {
        let (Some(into), Some(from)) = (document[section].as_object_mut(), part[section].as_object()) else {
            continue;
        };
        for (name, value) in from {
            into.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_version_uses_is_taken() {
        let document = json!({
            "paths": {"/apis/g/v1/": {"get": 1}, "/apis/g/v1/a": {"$ref": "#/definitions/A"}, "/apis/g/v10/b": {}},
            "definitions": {"A": {"items": [{"$ref": "#/definitions/B"}]}, "B": {"$ref": "#/definitions/A"}, "C": {}},
        });
        let part = part_of(&document, "/apis/g/v1").unwrap();
        let names = |section: &str| part[section].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names("paths"), ["/apis/g/v1/", "/apis/g/v1/a"]);
        assert_eq!(names("definitions"), ["A", "B"]);
        let mut other = json!({"paths": {}, "definitions": {"A": "ours"}});
        merge(&mut other, &part);
        assert_eq!(
            (&other["definitions"]["A"], other["paths"].as_object().unwrap().len()),
            (&json!("ours"), 2)
        );
    }
}
