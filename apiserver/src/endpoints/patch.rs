//! `PATCH`: JSON patch, merge patch, strategic merge patch and server-side apply, as changes of the stored object.

use bytes::Bytes;
use litek8s_machinery::decode::strict_texts;
use litek8s_machinery::status::Status;
use litek8s_machinery::{apply, patch as machinery};
use serde_json::Value;

use super::create::match_namespace;
use super::input::{self, Coding, Raw};
use super::options::{FieldValidation, WriteOptions};
use super::update::{Proposal, change, match_name};
use super::write::Writing;
use super::{Call, metadata};
use crate::response::{Failure, Response};

/// How many operations a JSON patch may have.
const JSON_PATCH_MAX: usize = 10_000;

/// The kind of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// With merge keys; built-in types only.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl Kind {
    /// The kind by the body's media type, or 415.
    pub(crate) fn of(call: &Call<'_>) -> Result<Self, Failure> {
        let custom = call.served.resource.custom;
        match input::media_type(call.headers).as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
                if !custom {
                    accepted.push("application/strategic-merge-patch+json");
                }
                accepted.push("application/apply-patch+yaml");
                Err(Status::unsupported_media_type(&accepted))
            }
        }
    }
}

/// Patches the object in the URL; an apply creates it when it is missing.
pub(crate) async fn patch(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let kind = Kind::of(call)?;
    let options = WriteOptions::parse(&call.ctx.info.query, "PatchOptions", kind == Kind::Apply)?;
    let Patch { value: patch, problems } = read(kind, body, options.field_validation)?;
    let mut writing = Writing::new(call, options);
    if kind == Kind::Apply {
        writing.manager = writing.options.field_manager.clone();
        return apply_patch(call, &writing, patch, problems).await;
    }
    let schema = call.served.resource.schema.get();
    let proposal = |current: Option<&Value>| {
        let current = current.ok_or_else(|| call.not_found())?;
        let mut object = match kind {
            Kind::Json => machinery::json(current, &patch)?,
            Kind::Merge | Kind::Apply => machinery::merge(current, &patch)?,
            Kind::Strategic => machinery::strategic(schema, current, &patch)?,
        };
        let shown = (kind == Kind::Strategic).then_some(&patch);
        input::patched(call, &mut object, shown, problems.clone(), writing.options.field_validation)?;
        match_namespace(&mut object, call.namespace())?;
        match_name(call, &object)?;
        Ok(Proposal { object, owned: false })
    };
    change(&writing, false, proposal).await?.answer(call)
}

async fn apply_patch(
    call: &Call<'_>,
    writing: &Writing<'_>,
    mut value: Value,
    problems: Vec<String>,
) -> Result<Response, Failure> {
    let resource = &call.served.resource;
    input::settle_type(&mut value, &resource.group, &resource.version, &resource.kind)?;
    input::report(call, problems, writing.options.field_validation, |texts| {
        let why = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {texts}");
        Status::bad_request(format!("error strict decoding YAML: {why}"))
    })?;
    if metadata::text(&value, "name").is_empty() {
        metadata::set(&mut value, "name", Some(Value::from(call.name())));
    }
    match_name(call, &value)?;
    let namespace = call.namespace();
    match_namespace(&mut value, namespace)?;
    let schema = resource.schema.get();
    let proposal = |current: Option<&Value>| {
        let force = writing.options.force == Some(true);
        let mut object = apply::apply(schema, current, &value, &writing.writer(), force)?;
        input::refine(resource, &mut object);
        Ok(Proposal { object, owned: true })
    };
    let create = writing.subresource().is_empty();
    change(writing, create, proposal).await?.answer(call)
}

/// A patch and what is wrong with its writing.
struct Patch {
    value: Value,
    problems: Vec<String>,
}

fn read(kind: Kind, body: &Bytes, validation: FieldValidation) -> Result<Patch, Failure> {
    let coding = if kind == Kind::Apply { Coding::Yaml } else { Coding::Json };
    let Raw { value, duplicates } = input::raw(coding, body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    match (kind, &value) {
        (Kind::Json, Value::Array(operations)) if operations.len() > JSON_PATCH_MAX => {
            let count = operations.len();
            return Err(Status::request_entity_too_large(format!(
                "The allowed maximum operations in a JSON patch is {JSON_PATCH_MAX}, got {count}"
            )));
        }
        (Kind::Json, Value::Array(_)) | (Kind::Merge | Kind::Strategic | Kind::Apply, Value::Object(_)) => {}
        _ => return Err(Status::bad_request("error decoding patch: the body has the wrong JSON type")),
    }
    let line = (kind == Kind::Apply && !duplicates.is_empty()).then(|| input::yaml_duplicate(body)).flatten();
    let mut problems = line.map_or_else(|| strict_texts(&[], &duplicates), |line| vec![line]);
    if validation == FieldValidation::Ignore {
        problems.clear();
    }
    if kind == Kind::Json {
        problems.iter_mut().for_each(|problem| *problem = format!("json patch {problem}"));
    }
    Ok(Patch { value, problems })
}
