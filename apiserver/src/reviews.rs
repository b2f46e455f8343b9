//! Questions in the form of objects: who am I, may I, is this token good, and a token on request; nothing is stored.

mod access;
mod token;
mod token_request;

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};
use litek8s_machinery::decode;
use litek8s_machinery::resource::type_of;
use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde_json::{Value, json};

use crate::admission::{self, Attributes, Operation};
use crate::api::Api;
use crate::endpoints::{Call, MAX_BODY, WriteOptions, Writing, check_path, from_yaml};
use crate::filters::failure;
use crate::request::{RequestContext, RequestInfo, UserInfo};
use crate::response::{self, BoxError, Failure, Offer, Output, Response};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whether a request is for one of these.
pub(crate) fn handles(info: &RequestInfo) -> bool {
    info.is_resource_request && info.verb == "create" && kind_of(info).is_some()
}

/// What is asked, with its API version and kind.
fn kind_of(info: &RequestInfo) -> Option<(Question, &'static str, &'static str)> {
    let scope = (
        info.api_group.as_str(),
        info.api_version.as_str(),
        info.resource.as_str(),
        info.subresource.as_str(),
    );
    Some(match scope {
        (AUTHORIZATION, "v1", "selfsubjectaccessreviews", "") => {
            (Question::SelfAccess, "authorization.k8s.io/v1", "SelfSubjectAccessReview")
        }
        (AUTHORIZATION, "v1", "subjectaccessreviews", "") => {
            (Question::Access, "authorization.k8s.io/v1", "SubjectAccessReview")
        }
        (AUTHORIZATION, "v1", "localsubjectaccessreviews", "") => {
            (Question::LocalAccess, "authorization.k8s.io/v1", "LocalSubjectAccessReview")
        }
        (AUTHORIZATION, "v1", "selfsubjectrulesreviews", "") => {
            (Question::Rules, "authorization.k8s.io/v1", "SelfSubjectRulesReview")
        }
        (AUTHENTICATION, "v1", "selfsubjectreviews", "") => {
            (Question::Myself, "authentication.k8s.io/v1", "SelfSubjectReview")
        }
        (AUTHENTICATION, "v1", "tokenreviews", "") => {
            (Question::Token, "authentication.k8s.io/v1", "TokenReview")
        }
        ("", "v1", "serviceaccounts", "token") => {
            (Question::TokenRequest, "authentication.k8s.io/v1", "TokenRequest")
        }
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Question {
    SelfAccess,
    Access,
    LocalAccess,
    Rules,
    Myself,
    Token,
    TokenRequest,
}

/// Answers one.
pub(crate) async fn serve<B>(api: &Arc<Api>, ctx: &RequestContext, request: http::Request<B>) -> Response
where
    B: hyper::body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return failure(&Status::request_entity_too_large(format!("limit is {MAX_BODY}"))),
    };
    // A review has no table: who accepts nothing else is refused before anything is decided.
    let offer = Offer { streaming: false, convertible: false, protobuf: true };
    let output = match Output::negotiate(&parts.headers, &ctx.info.query, offer) {
        Ok(output) => output,
        Err(status) => return failure(&status),
    };
    let Some(served) = api.registry.get(&ctx.info.api_group, &ctx.info.api_version, &ctx.info.resource)
    else {
        return response::status(&Status::unknown_resource(), output);
    };
    let call = Call { api, ctx, headers: &parts.headers, served, output };
    match answer(&call, &body).await {
        Ok(object) => response::value(StatusCode::CREATED, output, &object),
        Err(status) => response::status(&status, output),
    }
}

async fn answer(call: &Call<'_>, body: &Bytes) -> Result<Value, Failure> {
    let (api, ctx) = (call.api, call.ctx);
    let (question, version, kind) = kind_of(&ctx.info).ok_or_else(Status::unknown_resource)?;
    check_path(&call.served, &ctx.info)?;
    let options = WriteOptions::parse(&ctx.info.query, "CreateOptions", false)?;
    let mut object = read(call.headers, body, version, kind)?;
    let view = api.replica.view();
    admit(&Writing::new(call, options), &view, &mut object).await?;
    let status = match question {
        Question::SelfAccess => access::decide(api, &view, &ctx.user, &object["spec"]),
        Question::Access => access::decide_for_other(api, &view, &object["spec"], None),
        Question::LocalAccess => {
            access::decide_for_other(api, &view, &object["spec"], Some(&ctx.info.namespace))
        }
        Question::Rules => access::rules(api, &view, &ctx.user, &object["spec"]),
        Question::Myself => Ok(json!({"userInfo": user_info(&ctx.user)})),
        Question::Token => token::review(api, &view, &object["spec"]),
        Question::TokenRequest => token_request::issue(api, &view, &ctx.info, &mut object),
    }?;
    object["status"] = status;
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["creationTimestamp"] = match question {
        Question::TokenRequest | Question::Myself => Value::from(seconds(api.clock.now())),
        Question::SelfAccess
        | Question::Access
        | Question::LocalAccess
        | Question::Rules
        | Question::Token => Value::Null,
    };
    Ok(object)
}

/// A question is admitted like an object that is created, although nothing of it is stored.
async fn admit(writing: &Writing<'_>, view: &View, object: &mut Value) -> Result<(), Failure> {
    let cx = writing.context(view);
    let options = writing.options_object();
    let attributes = Attributes {
        cx: &cx,
        served: &writing.call.served,
        operation: Operation::Create,
        name: writing.call.name(),
        old: None,
        options: &options,
    };
    admission::mutate(&attributes, object).await?;
    admission::judge(&attributes, Some(object)).await
}

/// The body as JSON, YAML or protobuf; its type must be the path's when it says one.
fn read(headers: &HeaderMap, body: &Bytes, version: &str, kind: &str) -> Result<Value, Status> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let limits = decode::Limits { bytes: MAX_BODY, ..decode::Limits::default() };
    let decoded = match media.as_str() {
        "" | "application/json" => {
            decode::from_json(body, &limits).map(|d| d.value).map_err(|e| e.to_string())
        }
        "application/yaml" => from_yaml(body, &limits).map(|d| d.value).map_err(|e| e.to_string()),
        "application/vnd.kubernetes.protobuf" => {
            decode::from_protobuf(body, &type_of).map_err(|e| e.to_string())
        }
        _ => {
            let accepted = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
            return Err(Status::unsupported_media_type(&accepted));
        }
    };
    let unrecognized = |why: &str| {
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let mut object = decoded.map_err(|error: String| unrecognized(&error))?;
    if !object.is_object() {
        return Err(unrecognized("not an object"));
    }
    for (field, expected) in [("apiVersion", version), ("kind", kind)] {
        let given = object[field].as_str().unwrap_or_default();
        if !given.is_empty() && given != expected {
            return Err(Status::bad_request(format!(
                "{field} {given:?} does not match the path, expected {expected:?}"
            )));
        }
        object[field] = Value::from(expected);
    }
    Ok(object)
}

/// authentication.k8s.io/v1 UserInfo.
fn user_info(user: &UserInfo) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = Value::from(user.uid.as_str());
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// RFC 3339 in whole seconds, as metav1.Time.
fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
