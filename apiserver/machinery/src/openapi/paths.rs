//! The paths of a resource and what can be done at each.

use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use super::operations::{Body, Operation};
use crate::resource::{Resource, Subresource};

/// Every path of a resource with its operations.
pub(super) fn of(resource: &Resource, dialect: Dialect) -> Vec<(String, Value)> {
    let root = match &*resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let plural = &resource.plural;
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    let mut out = Vec::new();
    let mut push = |path: String, item: Map<String, Value>| {
        if !item.is_empty() {
            let mut item = item;
            item.insert("parameters".into(), path_parameters(&path, dialect));
            out.push((path, Value::Object(item)));
        }
    };
    push(collection.clone(), collection_item(resource, dialect));
    push(format!("{collection}/{{name}}"), object_item(resource, dialect));
    for sub in &resource.subresources {
        push(format!("{collection}/{{name}}/{}", sub.name), subresource_item(resource, sub, dialect));
    }
    if resource.namespaced && resource.has_verb("list") {
        let mut item = Map::new();
        let list = Operation::new(resource, "list", "get").everywhere();
        item.insert("get".into(), list.write(dialect));
        push(format!("{root}/{plural}"), item);
    }
    out
}

fn path_parameters(path: &str, dialect: Dialect) -> Value {
    let mut parameters = Vec::new();
    for (name, description) in [("name", "name of the object"), ("namespace", "namespace of the object")] {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(dialect.parameter(name, "path", "string", description));
        }
    }
    parameters.push(dialect.parameter("pretty", "query", "string", "If 'true', the output is indented."));
    Value::Array(parameters)
}

fn collection_item(resource: &Resource, dialect: Dialect) -> Map<String, Value> {
    let mut item = Map::new();
    for (verb, method) in [("list", "get"), ("create", "post"), ("deletecollection", "delete")] {
        if resource.has_verb(verb) {
            item.insert(method.into(), Operation::new(resource, verb, method).write(dialect));
        }
    }
    item
}

fn object_item(resource: &Resource, dialect: Dialect) -> Map<String, Value> {
    let mut item = Map::new();
    for (verb, method) in [("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")] {
        if resource.has_verb(verb) {
            item.insert(method.into(), Operation::new(resource, verb, method).write(dialect));
        }
    }
    item
}

fn subresource_item(resource: &Resource, sub: &Subresource, dialect: Dialect) -> Map<String, Value> {
    let streams = matches!(&*sub.name, "exec" | "attach" | "portforward" | "proxy" | "log");
    let mut item = Map::new();
    let methods =
        [("get", "get"), ("update", "put"), ("patch", "patch"), ("create", "post"), ("delete", "delete")];
    for (verb, method) in methods {
        if sub.verbs.iter().any(|known| &**known == verb) {
            let mut operation = Operation::new(resource, verb, method).subresource(sub);
            if streams {
                operation.body = Body::None;
                operation.action = Some("connect");
            }
            item.insert(method.into(), operation.write(dialect));
        }
    }
    item
}

/// The marker of the kind that an operation is about.
pub(super) fn kind_marker(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
