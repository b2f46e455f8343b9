//! `pods/binding`, and what admission says of it and its like: writes that take another kind than the object they change.

use bytes::Bytes;
use http::StatusCode;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;
use serde_json::{Value, json};

use super::input::{self, Coding};
use super::options::WriteOptions;
use super::update::{Proposal, change};
use super::write::Writing;
use super::{Call, answer, metadata, reads};
use crate::admission::{self, Attributes, Operation};
use crate::registry::Served;
use crate::response::{Failure, Response};

/// Puts a pod on a node.
pub(crate) async fn bind(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let options = WriteOptions::parse(&call.ctx.info.query, "CreateOptions", false)?;
    let mut binding = read(call, body)?;
    let writing = Writing::new(call, options);
    admit(&writing, Operation::Create, None, &mut binding).await?;
    let target = binding.get("target").cloned().unwrap_or_default();
    let node = target.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = target.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", kind, ["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&GroupKind::new("", "Binding"), call.name(), &errors));
    }
    let annotations = metadata::field(&binding, "annotations").cloned();
    change(&writing, false, |current| {
        let mut object = current.cloned().ok_or_else(|| call.not_found())?;
        if metadata::is_deleting(&object) {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", call.name());
            return Err(Status::conflict(&binding_resource(call), call.name(), why));
        }
        let assigned = object["spec"]["nodeName"].as_str().unwrap_or_default();
        if !assigned.is_empty() {
            let why = format!("pod {} is already assigned to node {assigned:?}", call.name());
            return Err(Status::conflict(&binding_resource(call), call.name(), why));
        }
        object["spec"]["nodeName"] = Value::from(node.clone());
        if let Some(Value::Object(added)) = &annotations {
            let all = metadata::object(metadata::object(&mut object, "metadata"), "annotations");
            for (name, value) in added {
                all[name] = value.clone();
            }
        }
        set_condition(&mut object, &writing);
        Ok(Proposal { object, owned: true })
    })
    .await?;
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(answer::plain(call, StatusCode::CREATED, &done))
}

/// What policies and webhooks make of a body that is of another kind than the object in the URL.
pub(super) async fn admit(
    writing: &Writing<'_>,
    operation: Operation,
    old: Option<&Value>,
    body: &mut Value,
) -> Result<(), Failure> {
    let call = writing.call;
    let view = reads::newest(&call.api.replica).await?;
    let (cx, options) = (writing.context(&view), writing.options_object());
    let (served, name) = (&call.served, call.name());
    admission::body(&Attributes { cx: &cx, served, operation, name, old, options: &options }, body).await
}

/// Whether this is the old door to `pods/binding`, a collection of its own that holds nothing.
pub(crate) fn is_bindings(served: &Served) -> bool {
    served.resource.group.is_empty() && *served.resource.plural == *"bindings"
}

/// Puts the pod on a node that has the binding's name.
pub(crate) async fn bind_named(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let name = metadata::text(&read(call, body)?, "name").to_owned();
    let pods = call.api.registry.get("", "v1", "pods").ok_or_else(Status::unknown_resource)?;
    let mut ctx = call.ctx.clone();
    ctx.info.name = name;
    ctx.info.subresource = "binding".to_owned();
    bind(&Call { ctx: &ctx, served: pods, ..*call }, body).await
}

/// The object in the body, of whatever kind.
pub(super) fn read(call: &Call<'_>, body: &Bytes) -> Result<Value, Failure> {
    let raw = input::raw(Coding::of(call.headers)?, body).map_err(Status::bad_request)?;
    if raw.value.is_object() { Ok(raw.value) } else { Err(Status::bad_request("the body is not an object")) }
}

fn binding_resource(call: &Call<'_>) -> litek8s_machinery::gvk::GroupResource {
    litek8s_machinery::gvk::GroupResource::new(call.served.resource.group.clone(), "pods/binding")
}

/// `PodScheduled` becomes true.
fn set_condition(object: &mut Value, writing: &Writing<'_>) {
    let status = metadata::object(object, "status");
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    conditions.retain(|c| c["type"] != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": metadata::time(writing.now),
    }));
}
