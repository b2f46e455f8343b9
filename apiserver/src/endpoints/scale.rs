//! The `scale` subresource: `autoscaling/v1` `Scale` over the replica counts of another kind.

use bytes::Bytes;
use http::StatusCode;
use litek8s_machinery::patch as machinery;
use litek8s_machinery::resource::{Resource, ScalePaths};
use litek8s_machinery::selector::LabelSelector;
use litek8s_machinery::status::Status;
use litek8s_machinery::{field::FieldError, gvk::GroupKind};
use serde_json::{Value, json};

use super::input::{self, Coding};
use super::options::WriteOptions;
use super::patch::Kind;
use super::pod_subresources::admit;
use super::update::{Proposal, change};
use super::write::{ATTEMPTS, Writing, Written};
use super::{Call, answer, metadata, options, reads};
use crate::admission::Operation;
use crate::response::{Failure, Response};

/// What a request makes of a `Scale`.
type Change = Box<dyn Fn(&Value) -> Result<Value, Failure> + Send + Sync>;

/// Answers `GET`, `PUT` and `PATCH` of a scale.
pub(crate) async fn scale(call: &Call<'_>, verb: &str, body: &Bytes) -> Result<Response, Failure> {
    let paths = paths(call)?;
    let query = &call.ctx.info.query;
    let change_of: Change = match verb {
        "get" => {
            let revision = options::revision(query.get("resourceVersion").unwrap_or_default())?;
            let view = reads::not_older_than(&call.api.replica, revision).await?;
            let object = view
                .get(&call.served.object_key(call.namespace(), call.name()))
                .ok_or_else(|| call.not_found())?;
            return Ok(answer::plain(call, StatusCode::OK, &show(&call.served.value(object)?, &paths)));
        }
        "update" => {
            let wanted = input::raw(Coding::of(call.headers)?, body).map_err(Status::bad_request)?.value;
            Box::new(move |_| Ok(wanted.clone()))
        }
        _ => {
            let kind = Kind::of(call)?;
            let coding = if kind == Kind::Apply { Coding::Yaml } else { Coding::Json };
            let patch = input::raw(coding, body).map_err(Status::bad_request)?.value;
            Box::new(move |current: &Value| match kind {
                Kind::Json => machinery::json(current, &patch),
                Kind::Merge | Kind::Strategic | Kind::Apply => machinery::merge(current, &patch),
            })
        }
    };
    let (name, apply) = if verb == "update" {
        ("UpdateOptions", false)
    } else {
        ("PatchOptions", Kind::of(call)? == Kind::Apply)
    };
    let writing = Writing::new(call, WriteOptions::parse(query, name, apply)?);
    for _ in 0..ATTEMPTS {
        let view = reads::newest(&call.api.replica).await?;
        let current = view.get(&call.served.object_key(call.namespace(), call.name()));
        let shown = show(&call.served.value(current.ok_or_else(|| call.not_found())?)?, &paths);
        let mut wanted = change_of(&shown)?;
        admit(&writing, Operation::Update, Some(&shown), &mut wanted).await?;
        if let Some(written) = set_scale(&writing, &paths, &shown, &wanted).await? {
            let object = match written {
                Written::Stored { object, .. } => call.served.value(&object)?,
                Written::Shown { value, .. } => value,
            };
            return Ok(answer::plain(call, StatusCode::OK, &show(&object, &paths)));
        }
    }
    Err(Status::modified(&call.group_resource(), call.name()))
}

/// Writes what was `wanted` of the state that was `shown`; `None` when another write came between.
async fn set_scale(
    writing: &Writing<'_>,
    paths: &ScalePaths,
    shown: &Value,
    wanted: &Value,
) -> Result<Option<Written>, Failure> {
    let call = writing.call;
    let mut overtaken = false;
    let written = change(writing, false, |current| {
        let mut object = current.cloned().ok_or_else(|| call.not_found())?;
        let version = |object: &Value| metadata::text(object, "resourceVersion").to_owned();
        overtaken = version(&object) != version(shown);
        if overtaken {
            return Err(Status::modified(&call.group_resource(), call.name()));
        }
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let detail = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", replicas, detail);
            return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), call.name(), &[error]));
        }
        set(&mut object, &paths.spec_replicas, Value::from(replicas));
        for field in ["resourceVersion", "uid"] {
            metadata::set(&mut object, field, metadata::field(wanted, field).cloned());
        }
        Ok(Proposal { object, owned: false })
    })
    .await;
    if overtaken { Ok(None) } else { written.map(Some) }
}

fn paths(call: &Call<'_>) -> Result<ScalePaths, Failure> {
    if let Some(paths) = &call.served.resource.scale {
        return Ok(paths.clone());
    }
    if call.served.resource.custom {
        return Err(Status::unknown_resource());
    }
    Ok(ScalePaths {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: None,
    })
}

/// How many replicas an object is to have; `None` for a kind that cannot be scaled.
pub(crate) fn replicas(resource: &Resource, object: &Value) -> Option<i64> {
    let path = match &resource.scale {
        Some(paths) => &*paths.spec_replicas,
        None if resource.subresources.iter().any(|sub| *sub.name == *"scale") => ".spec.replicas",
        None => return None,
    };
    Some(get(object, path).and_then(Value::as_i64).unwrap_or(0))
}

/// The object as a `Scale`.
fn show(object: &Value, paths: &ScalePaths) -> Value {
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let entries = kept.iter().filter_map(|f| Some(((*f).to_owned(), metadata::field(object, f)?.clone())));
    let fields: serde_json::Map<String, Value> = entries.collect();
    let number = |path: &str| get(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = match &paths.label_selector {
        Some(path) => get(object, path).and_then(Value::as_str).map(str::to_owned),
        None => LabelSelector::from_json(&object["spec"]["selector"]).ok().map(|s| s.to_string()),
    };
    if let Some(selector) = selector.filter(|s| !s.is_empty()) {
        status["selector"] = Value::from(selector);
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": fields,
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": status,
    })
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

fn get<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).try_fold(object, |at, step| at.get(step))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for step in steps(path) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = value;
}
