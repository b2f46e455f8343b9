//! What many CustomResourceDefinitions cost: memory, once clients have read discovery and OpenAPI too.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use crate::client::Connection;
use crate::report::{Report, Target};
use crate::scenario::api::{JSON, settle};
use crate::server::{Server, resident_mib};

/// Definitions, as a cluster with a few large operators has.
const DEFINITIONS: usize = 150;
/// Properties of each of the eight objects of a schema: about 20 KiB of JSON a definition.
const PROPERTIES: usize = 20;

/// Measures a server of its own.
///
/// # Errors
/// When it refuses a definition.
pub(super) async fn definitions(report: &mut Report, binary: &Path) -> anyhow::Result<()> {
    let (server, _) = Server::start(binary).await?;
    settle(&server).await?;
    let mut connection = server.target()?.connect().await?;
    read_everything(&mut connection).await?;
    let before = resident_mib(&[server.process()])?;
    let begin = Instant::now();
    for number in 0..DEFINITIONS {
        let body = Bytes::from(definition(number).to_string());
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        connection.call(Method::POST, path, JSON, body).await?;
    }
    let last = format!("/apis/bench-{}.example.org/v1/things{}", (DEFINITIONS - 1) % 10, DEFINITIONS - 1);
    connection.get(&last).await?;
    let what = format!("{DEFINITIONS} CustomResourceDefinitions, first created to last served");
    report.add(what, begin.elapsed().as_secs_f64(), "s", Target::None, None);
    read_everything(&mut connection).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let cost = resident_mib(&[server.process()])? - before;
    let what = format!("memory of {DEFINITIONS} CustomResourceDefinitions");
    report.add(what, cost, "MiB", Target::AtMost(30.0), None);
    Ok(())
}

/// What kubectl and controllers ask for first.
async fn read_everything(connection: &mut Connection) -> anyhow::Result<()> {
    for path in ["/apis", "/openapi/v2", "/openapi/v3"] {
        connection.get(path).await?;
    }
    for group in 0..10 {
        let path = format!("/openapi/v3/apis/bench-{group}.example.org/v1");
        // Before the definitions there is no such group.
        connection.answer(Method::GET, &path, "", Bytes::new()).await?;
    }
    Ok(())
}

fn definition(number: usize) -> Value {
    let group = format!("bench-{}.example.org", number % 10);
    let (plural, singular, kind) =
        (format!("things{number}"), format!("thing{number}"), format!("Thing{number}"));
    let schema = json!({ "type": "object", "properties": { "spec": object(2), "status": object(0) } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": plural, "singular": singular, "kind": kind },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {} },
            }],
        },
    })
}

/// An object of [`PROPERTIES`] properties and, above depth 0, of two objects, with a rule of its own.
fn object(depth: usize) -> Value {
    let mut properties: Map<String, Value> = (0..PROPERTIES)
        .map(|number| {
            let description =
                "What this field does, in a sentence as long as such descriptions commonly are.";
            let schema = match number % 4 {
                0 => json!({ "type": "string", "description": description, "maxLength": 253 }),
                1 => {
                    json!({ "type": "integer", "format": "int32", "description": description, "minimum": 0 })
                }
                2 => json!({ "type": "array", "description": description, "items": { "type": "string" } }),
                _ => json!({ "type": "string", "description": description, "enum": ["On", "Off", "Auto"] }),
            };
            (format!("field{number}"), schema)
        })
        .collect();
    if depth > 0 {
        properties.insert("first".into(), object(depth - 1));
        properties.insert("second".into(), object(depth - 1));
    }
    let rule =
        json!({ "rule": "!has(self.field1) || self.field1 < 1000", "message": "field1 is below 1000" });
    json!({ "type": "object", "properties": properties, "x-kubernetes-validations": [rule] })
}
