//! Request bodies to objects: media types, versions and kinds, unknown fields, defaults; never what the object means.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use litek8s_machinery::decode::{DecodeError, Decoded, Limits, strict_texts};
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::{GroupKind, GroupVersion};
use litek8s_machinery::resource::{Resource, type_of};
use litek8s_machinery::status::Status;
use litek8s_machinery::{decode, defaults, validate};
use serde_json::Value;

use super::options::FieldValidation;
use super::{Call, MAX_BODY};
use crate::extensions::cel::on_large_stack;
use crate::response::Failure;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// `application/json`, also when nothing is said.
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The media types of bodies.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The media type of a body, without parameters and in lower case; empty when not said.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Coding {
    /// The coding of a body, or 415.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        match media_type(headers).as_str() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(Status::unsupported_media_type(&ACCEPTED)),
        }
    }
}

/// A body before it is checked against a schema.
pub(crate) struct Raw {
    /// The value.
    pub(crate) value: Value,
    /// Paths of the fields that stand twice.
    pub(crate) duplicates: Vec<String>,
}

/// Reads a body in its coding.
pub(crate) fn raw(coding: Coding, body: &Bytes) -> Result<Raw, String> {
    let limits = Limits { bytes: MAX_BODY, ..Limits::default() };
    let decoded = match coding {
        Coding::Json => decode::from_json(body, &limits),
        Coding::Yaml => from_yaml(body, &limits),
        Coding::Protobuf => {
            decode::from_protobuf(body, &type_of).map(|value| Decoded { value, duplicate_keys: Vec::new() })
        }
    };
    decoded.map(|d| Raw { value: d.value, duplicates: d.duplicate_keys }).map_err(|e| e.to_string())
}

/// Reads YAML: its reader takes some 20 KiB of stack for a level, so that a hundred levels need a thread of their own.
pub(crate) fn from_yaml(body: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    on_large_stack(|| decode::from_yaml(body, limits))
        .unwrap_or_else(|| Err(DecodeError::Malformed("the YAML cannot be read".to_owned())))
}

/// The first key that stands twice in YAML; see [`from_yaml`].
pub(super) fn yaml_duplicate(body: &[u8]) -> Option<String> {
    on_large_stack(|| decode::yaml_duplicate(body, &Limits::default())).flatten()
}

/// The object in a create or update body, pruned and with defaults.
pub(crate) fn object(call: &Call<'_>, body: &Bytes, validation: FieldValidation) -> Result<Value, Failure> {
    let resource = &call.served.resource;
    let coding = Coding::of(call.headers)?;
    let read = raw(coding, body).map_err(|error| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            resource.kind,
            summary(body)
        ))
    })?;
    let Raw { mut value, duplicates } = read;
    settle_type(&mut value, &resource.group, &resource.version, &resource.kind)?;
    validate::well_typed(resource, &value)?;
    let problems = strict_texts(&decode::unknown_fields(resource.schema.get(), &value), &duplicates);
    report(call, problems, validation, |texts| {
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {texts}",
            kind = resource.kind,
            version = resource.version,
        ))
    })?;
    refine(resource, &mut value);
    Ok(value)
}

/// Checks an object that a patch made, and prunes and defaults it; unknown fields are the patch's fault.
///
/// `shown` is what the failure shows in place of the whole object.
pub(crate) fn patched(
    call: &Call<'_>,
    value: &mut Value,
    shown: Option<&Value>,
    mut problems: Vec<String>,
    validation: FieldValidation,
) -> Result<(), Failure> {
    let resource = &call.served.resource;
    settle_type(value, &resource.group, &resource.version, &resource.kind)?;
    validate::well_typed(resource, value)?;
    problems.extend(strict_texts(&decode::unknown_fields(resource.schema.get(), value), &[]));
    let shown = shown.unwrap_or(value).to_string();
    report(call, problems, validation, |texts| {
        let error = FieldError::invalid("patch", shown.clone(), format!("strict decoding error: {texts}"));
        Status::invalid(&GroupKind::new("", ""), "", &[error])
    })?;
    refine(resource, value);
    Ok(())
}

/// Drops what the schema does not know and fills in defaults.
pub(crate) fn refine(resource: &Resource, value: &mut Value) {
    let schema = resource.schema.get();
    decode::prune(schema, value);
    if !resource.custom {
        decode::normalize(schema, value);
    }
    defaults::apply(schema, value);
}

/// Sets a missing `apiVersion` and `kind`; others than the path's are a bad request.
pub(crate) fn settle_type(value: &mut Value, group: &str, version: &str, kind: &str) -> Result<(), Failure> {
    let Some(map) = value.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind})"
        )));
    };
    let expected = GroupVersion::new(group, version).to_string();
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    if !given_kind.is_empty() && given_kind != kind {
        let version = if given_version.is_empty() { &expected } else { &given_version };
        return Err(Status::bad_request(format!(
            "{given_kind} in version \"{version}\" cannot be handled as a {kind}: no kind \"{given_kind}\" is served here"
        )));
    }
    if !given_version.is_empty() && given_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )));
    }
    map.insert("apiVersion".to_owned(), Value::from(expected));
    map.insert("kind".to_owned(), Value::from(kind));
    Ok(())
}

/// Does with problems what the client asked for: nothing, warnings, or a failure.
pub(crate) fn report(
    call: &Call<'_>,
    problems: Vec<String>,
    validation: FieldValidation,
    failure: impl FnOnce(String) -> Failure,
) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            problems.into_iter().for_each(|problem| call.ctx.warnings.add(problem));
            Ok(())
        }
        FieldValidation::Strict => Err(failure(problems.join(", "))),
    }
}

/// The beginning of a body, for a message.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = body.get(..SHOWN).unwrap_or(body);
    let text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().map(|b| format!("{b:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{text} ...") } else { text }
}
