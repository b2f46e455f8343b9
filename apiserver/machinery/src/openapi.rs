//! OpenAPI documents, version 3 for one group and version each and version 2 for everything: schemas with the
//! extensions that kubectl and others read, and paths with their actions. Deterministic.

mod dialect;
mod gnostic;
mod names;
mod operations;
mod paths;
mod schemas;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::gvk::GroupVersion;
use crate::resource::Resource;
use dialect::Dialect;
use schemas::Schemas;

pub use gnostic::v2_protobuf;
pub use names::{list_name, model_name};

/// The version of the API that these documents describe.
const VERSION: &str = "v1.37.0";

/// `/openapi/v3/…`: the document of one group and version.
pub fn v3(version: &GroupVersion, resources: &[Arc<Resource>]) -> Value {
    let mut schemas = Schemas::new(Dialect::V3);
    let mut paths = Map::new();
    let of_version = |one: &&Arc<Resource>| one.group == version.group && one.version == version.version;
    for resource in resources.iter().filter(of_version) {
        describe(resource, Dialect::V3, &mut schemas, &mut paths);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas.finish(), "securitySchemes": {"BearerToken": bearer()}},
    })
}

/// `/openapi/v3`: where the documents are; `hash` gives what changes with a document.
pub fn v3_index<'a>(versions: impl IntoIterator<Item = (&'a GroupVersion, String)>) -> Value {
    let path = |version: &GroupVersion| {
        if version.group.is_empty() { format!("api/{version}") } else { format!("apis/{version}") }
    };
    let one = |(version, hash): (&GroupVersion, String)| {
        let path = path(version);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path, json!({"serverRelativeURL": url}))
    };
    json!({"paths": versions.into_iter().map(one).collect::<Map<_, _>>()})
}

/// `/openapi/v2`: one document of everything.
pub fn v2(resources: &[Arc<Resource>]) -> Value {
    let mut schemas = Schemas::new(Dialect::V2);
    let mut paths = Map::new();
    for resource in resources {
        describe(resource, Dialect::V2, &mut schemas, &mut paths);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "definitions": schemas.finish(),
        "securityDefinitions": {"BearerToken": bearer()},
        "security": [{"BearerToken": []}],
    })
}

fn bearer() -> Value {
    json!({"type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication"})
}

fn describe(resource: &Resource, dialect: Dialect, schemas: &mut Schemas, paths: &mut Map<String, Value>) {
    schemas.add_resource(resource);
    for (path, item) in paths::of(resource, dialect) {
        paths.insert(path, item);
    }
}

#[cfg(test)]
mod tests;
