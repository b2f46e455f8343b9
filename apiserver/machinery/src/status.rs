//! The Status an API server answers when it does not answer an object: codes, reasons and texts that clients match.

use serde_json::{Value, json};

use crate::field::{self, FieldError, quote};
use crate::gvk::{GroupKind, GroupResource};

/// The most causes that the Status of an invalid object lists.
const MAX_CAUSES: usize = 100;

/// Why a request failed, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the reason string of meta/v1 of the same name")]
pub enum Reason {
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// The string of meta/v1; empty for an unknown reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }
}

/// One cause of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    /// A machine-readable reason, as in `FieldValueRequired` or `FieldManagerConflict`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field, where there is one.
    pub field: String,
}

/// What a Status says beyond its message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The group of the resource or kind.
    pub group: String,
    /// The resource, or the kind for invalid objects.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// What exactly was wrong.
    pub causes: Vec<Cause>,
    /// When to try again, in seconds; 0 says nothing.
    pub retry_after_seconds: u32,
}

/// A failure as the API answers it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The reason.
    pub reason: Reason,
    /// For people and for string matching.
    pub message: String,
    /// More, where there is more.
    pub details: Option<Box<Details>>,
    /// The `metadata.continue` of an expired list: a token that goes on from the next key at the newest revision.
    pub continue_token: Option<Box<str>>,
}

impl Status {
    /// A failure with a message and no details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    fn on(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group = resource.group.to_string();
        details.kind = resource.resource.to_string();
        details.name = name.to_owned();
        self
    }

    /// The same with a time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// The same with one more cause.
    #[must_use]
    pub fn with_cause(
        mut self,
        reason: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        let cause = Cause { reason: reason.into(), message: message.into(), field: field.into() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// 404: no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{resource} {} not found", quote(name))).on(resource, name)
    }

    /// 404: no such path or resource.
    pub fn unknown_resource() -> Self {
        let mut status = Self::new(404, Reason::NotFound, "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, Reason::AlreadyExists, format!("{resource} {} already exists", quote(name)))
            .on(resource, name)
    }

    /// 409: no free name was found for a `generateName`.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Self::new(409, Reason::AlreadyExists, message).on(resource, name).retry_after(retry_after)
    }

    /// 409: the object is not as the request expects it.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl AsRef<str>) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {resource} {}: {}", quote(name), why.as_ref());
        Self::new(409, Reason::Conflict, message).on(resource, name)
    }

    /// 409: the object was changed since the client read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, OBJECT_MODIFIED)
    }

    /// 409 of server-side apply; the causes are `FieldManagerConflict`s.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        let mut status = Self::new(409, Reason::Conflict, message);
        status.details = Some(Box::new(Details { causes, ..Details::default() }));
        status
    }

    /// 422: the object breaks rules; `name` may be empty.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        // Everybody can read a hundred; nobody a hundred thousand.
        let shown = errors.get(..MAX_CAUSES).unwrap_or(errors);
        let mut texts = field::aggregate(shown);
        if shown.len() < errors.len() {
            texts.push_str(" and more");
        }
        let message = if texts.is_empty() {
            format!("{kind} {} is invalid", quote(name))
        } else {
            format!("{kind} {} is invalid: {texts}", quote(name))
        };
        let mut causes: Vec<Cause> = Vec::with_capacity(shown.len());
        for error in shown {
            let reason = error.kind.reason().to_owned();
            let cause = Cause { reason, message: error.body(), field: error.path.clone() };
            // Two rules may say the same of one field.
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        let details = Details {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            name: name.to_owned(),
            causes,
            ..Details::default()
        };
        let mut status = Self::new(422, Reason::Invalid, message);
        status.details = Some(Box::new(details));
        status
    }

    /// 403: not allowed; an empty name speaks of the whole resource.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let message = if resource.resource.is_empty() && resource.group.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::new(403, Reason::Forbidden, message).on(resource, name)
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    /// 401: nobody known.
    pub fn unauthorized(reason: &str) -> Self {
        Self::new(401, Reason::Unauthorized, if reason.is_empty() { "not authorized" } else { reason })
    }

    /// 405: the resource has no such verb.
    pub fn method_not_allowed(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::new(405, Reason::MethodNotAllowed, message).on(resource, "")
    }

    /// 406: no media type that the client accepts.
    pub fn not_acceptable<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!("only the following media types are accepted: {}", join(accepted));
        Self::new(406, Reason::NotAcceptable, message)
    }

    /// 415: a body of a type that the resource does not take.
    pub fn unsupported_media_type<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            join(accepted)
        );
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    /// 410: gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Gone, message)
    }

    /// 410: the resource version or continue token is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// 429: come back later.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, Reason::TooManyRequests, message).retry_after(retry_after)
    }

    /// 500: the operation may be tried again.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::new(500, Reason::ServerTimeout, message).on(resource, operation).retry_after(retry_after)
    }

    /// 504: the outcome is unknown; without a time to retry, so that no client repeats it blindly.
    pub fn timeout(message: impl AsRef<str>) -> Self {
        Self::new(504, Reason::Timeout, format!("Timeout: {}", message.as_ref()))
    }

    /// 504 of a read at a revision that this server has not reached.
    pub fn resource_version_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self::timeout(&message).retry_after(1).with_cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        )
    }

    /// 503: nothing was done.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(503, Reason::ServiceUnavailable, message)
    }

    /// 500: our own fault.
    pub fn internal(error: impl ToString) -> Self {
        let error = error.to_string();
        Self::new(500, Reason::InternalError, format!("Internal error occurred: {error}"))
            .with_cause("", error, "")
    }

    /// 413: a body or object beyond the limit.
    pub fn request_entity_too_large(message: impl AsRef<str>) -> Self {
        let message = format!("Request entity too large: {}", message.as_ref());
        Self::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// The Status object of API version v1.
    pub fn to_json(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut out = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "code": self.code,
        });
        set(&mut out, "message", &self.message);
        set(&mut out, "reason", self.reason.as_str());
        if let Some(details) = &self.details {
            out["details"] = details.to_json();
        }
        out
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut out = json!({});
        for (field, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            set(&mut out, field, text);
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut out = json!({});
                for (field, text) in
                    [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)]
                {
                    set(&mut out, field, text);
                }
                out
            });
            out["causes"] = causes.collect();
        }
        if self.retry_after_seconds > 0 {
            out["retryAfterSeconds"] = json!(self.retry_after_seconds);
        }
        out
    }
}

/// The Status of a success, as a delete answers it.
pub fn success(resource: &GroupResource, name: &str, uid: &str) -> Value {
    let mut details = json!({});
    for (field, text) in [
        ("name", name),
        ("group", resource.group.as_ref()),
        ("kind", resource.resource.as_ref()),
        ("uid", uid),
    ] {
        set(&mut details, field, text);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// What a conflict says when the resource version is not the current one.
pub const OBJECT_MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

fn set(out: &mut Value, field: &str, text: &str) {
    if !text.is_empty() {
        out[field] = Value::from(text);
    }
}

fn join<S: AsRef<str>>(texts: &[S]) -> String {
    texts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> GroupResource {
        GroupResource::new("", "pods")
    }

    #[test]
    fn messages_are_the_ones_clients_match() {
        let deployments = GroupResource::new("apps", "deployments");
        let cases = [
            (Status::not_found(&pods(), "x"), 404, r#"pods "x" not found"#),
            (Status::already_exists(&deployments, "x"), 409, r#"deployments.apps "x" already exists"#),
            (
                Status::modified(&pods(), "x"),
                409,
                r#"Operation cannot be fulfilled on pods "x": the object has been modified; please apply your changes to the latest version and try again"#,
            ),
            (Status::forbidden(&pods(), "", "no"), 403, "pods is forbidden: no"),
            (Status::forbidden(&pods(), "x", "no"), 403, r#"pods "x" is forbidden: no"#),
            (Status::internal("oh"), 500, "Internal error occurred: oh"),
            (
                Status::resource_version_too_large(9, 3),
                504,
                "Timeout: Too large resource version: 9, current: 3",
            ),
            (Status::request_entity_too_large("limit is 3"), 413, "Request entity too large: limit is 3"),
        ];
        for (status, code, message) in cases {
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }

    #[test]
    fn an_invalid_object_lists_its_causes() {
        let errors = [FieldError::required("spec.y", "")];
        let status = Status::invalid(&GroupKind::new("", "Pod"), "x", &errors);
        assert_eq!(status.message, r#"Pod "x" is invalid: spec.y: Required value"#);
        let json = status.to_json();
        assert_eq!(json["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(json["details"]["causes"][0]["field"], "spec.y");
        assert_eq!(json["code"], 422);
    }

    #[test]
    fn empty_fields_are_left_out() {
        let json = Status::bad_request("odd").to_json();
        assert_eq!(
            json,
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "odd", "reason": "BadRequest", "code": 400})
        );
    }
}
