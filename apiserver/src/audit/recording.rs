//! One request on its way: what is known of it grows, and each stage that the policy wants becomes a line.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Body;
use serde_json::{Map, Value, json};

use super::policy::{Level, Stage, Verdict};
use super::{Active, event, object};
use crate::authorization::Decision;
use crate::request::{Annotations, RequestInfo, UserInfo};
use crate::response::{self, Response};

/// Bytes of a request's body, as they were read.
pub(crate) type Copied = Arc<Mutex<Vec<u8>>>;

/// The record of one request.
pub(crate) struct Recording {
    active: Arc<Active>,
    info: RequestInfo,
    content_type: String,
    annotations: Annotations,
    body: Copied,
    state: Mutex<State>,
}

struct State {
    event: Map<String, Value>,
    verdict: Option<Verdict>,
}

impl Recording {
    /// A record that knows only the request.
    pub(super) fn new(
        active: Arc<Active>,
        info: &RequestInfo,
        content_type: String,
        event: Map<String, Value>,
        annotations: Annotations,
    ) -> Self {
        let (info, body) = (info.clone(), Copied::default());
        let state = Mutex::new(State { event, verdict: None });
        Self { active, info, content_type, annotations, body, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks: the policy decides. The copy to fill is given when the request's body is wanted.
    pub(crate) async fn asked_by(&self, user: &UserInfo) -> Option<Copied> {
        let verdict = self.active.policy.judge(user, &self.info);
        let level = verdict.level;
        {
            let mut state = self.state();
            state.event.insert("user".to_owned(), event::user(user));
            state.event.insert("level".to_owned(), json!(level.name()));
            state.verdict = Some(verdict);
        }
        self.add(Stage::RequestReceived, None, None).await;
        let names_itself = self.info.verb == "create" && self.info.name.is_empty();
        let wanted = level >= Level::Request || (level == Level::Metadata && names_itself);
        wanted.then(|| self.body.clone())
    }

    /// They act as somebody else.
    pub(crate) fn acts_as(&self, user: &UserInfo) {
        self.state().event.insert("impersonatedUser".to_owned(), event::user(user));
    }

    /// Whether they may.
    pub(crate) fn decided(&self, decision: &Decision) {
        let (word, reason) = match decision {
            Decision::Allow(reason) => ("allow", reason),
            Decision::Deny(reason) => ("forbid", reason),
        };
        self.annotations.add("authorization.k8s.io/decision", word);
        self.annotations.add("authorization.k8s.io/reason", reason.clone());
    }

    /// The answer, on its way out; a stream's end is recorded when the guard is dropped.
    pub(crate) async fn answered(
        self: &Arc<Self>,
        response: Response,
        streams: bool,
    ) -> (Response, Option<AtEnd>) {
        let known = self.state().verdict.clone();
        let verdict = match known {
            Some(verdict) => verdict,
            None => {
                // Nobody: neither a name nor a group.
                let nobody = UserInfo::default();
                self.asked_by(&nobody).await;
                self.active.policy.judge(&nobody, &self.info)
            }
        };
        if verdict.level == Level::None {
            return (response, None);
        }
        self.complete_request(&verdict);
        let code = response.status();
        let status = json!({"metadata": {}, "code": code.as_u16()});
        if code == StatusCode::SWITCHING_PROTOCOLS || (streams && code.is_success()) {
            self.add(Stage::ResponseStarted, Some(status.clone()), None).await;
            return (response, Some(AtEnd { recording: self.clone(), status }));
        }
        // What another server streams may have no end, and is not kept.
        let endless = response.body().size_hint().exact().is_none();
        let short =
            verdict.level < Level::RequestResponse && !code.is_client_error() && !code.is_server_error();
        if endless || short {
            self.add(Stage::ResponseComplete, Some(status), None).await;
            return (response, None);
        }
        let (parts, body) = response.into_parts();
        let bytes = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                self.add(Stage::ResponseComplete, Some(status), None).await;
                let failed = futures::stream::iter([Err(error)]);
                return (Response::from_parts(parts, response::streamed(failed)), None);
            }
        };
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let mut answer = object::read(content_type, &bytes);
        let status = answer.as_ref().map_or(status.clone(), |answer| shown_status(answer, status));
        if verdict.omit_managed_fields {
            answer.iter_mut().for_each(object::drop_managed_fields);
        }
        let answer = answer.filter(|_| verdict.level == Level::RequestResponse);
        self.add(Stage::ResponseComplete, Some(status), answer).await;
        (Response::from_parts(parts, response::full(bytes)), None)
    }

    /// The handler broke.
    pub(crate) fn panicked(&self) {
        let status = json!({"metadata": {}, "code": 500, "status": "Failure", "reason": "InternalError"});
        self.write_now(Stage::Panic, status);
        // That was the last of it.
        if let Some(verdict) = &mut self.state().verdict {
            verdict.level = Level::None;
        }
    }

    /// What the body says, now that it was read.
    fn complete_request(&self, verdict: &Verdict) {
        let body = std::mem::take(&mut *self.body.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(mut asked) = object::read(&self.content_type, &body) else { return };
        if verdict.omit_managed_fields {
            object::drop_managed_fields(&mut asked);
        }
        let mut state = self.state();
        let name = asked["metadata"]["name"].clone();
        if let Some(reference) =
            state.event.get_mut("objectRef").filter(|r| r["name"].is_null() && name.is_string())
        {
            reference["name"] = name;
        }
        if verdict.level >= Level::Request {
            state.event.insert("requestObject".to_owned(), asked);
        }
    }

    /// The line of a stage, if the policy wants it.
    fn line(&self, stage: Stage, status: Option<Value>, answer: Option<Value>) -> Option<Vec<u8>> {
        let state = self.state();
        let verdict = state.verdict.as_ref()?;
        if verdict.level == Level::None || verdict.omit_stages.contains(&stage) {
            return None;
        }
        let mut event = state.event.clone();
        drop(state);
        let annotations = self.annotations.all();
        if !annotations.is_empty() {
            event.insert("annotations".to_owned(), json!(annotations));
        }
        event.insert("stage".to_owned(), json!(stage.name()));
        event.insert("stageTimestamp".to_owned(), json!(event::time(jiff::Timestamp::now())));
        event.extend(status.map(|status| ("responseStatus".to_owned(), status)));
        event.extend(answer.map(|answer| ("responseObject".to_owned(), answer)));
        let mut line = Value::Object(event).to_string().into_bytes();
        line.push(b'\n');
        Some(line)
    }

    async fn add(&self, stage: Stage, status: Option<Value>, answer: Option<Value>) {
        if let Some(line) = self.line(stage, status, answer) {
            self.active.metrics.audited(self.active.log.add(line).await);
        }
    }

    fn write_now(&self, stage: Stage, status: Value) {
        if let Some(line) = self.line(stage, Some(status), None) {
            self.active.metrics.audited(self.active.log.try_add(line));
        }
    }
}

/// The code, and for a failure its reason and text.
fn shown_status(answer: &Value, mut status: Value) -> Value {
    if answer["kind"] == "Status" {
        for field in ["status", "reason", "message", "details"] {
            if !answer[field].is_null() {
                status[field] = answer[field].clone();
            }
        }
    }
    status
}

/// Records the end of a stream when it is dropped.
pub(crate) struct AtEnd {
    recording: Arc<Recording>,
    status: Value,
}

/// Where the end of an upgraded connection's record waits: an extension of the answer, and held by whoever carries the
/// connection. The last one who lets go of it ends the record.
#[derive(Clone, Default)]
pub(crate) struct UntilEnd(Arc<OnceLock<AtEnd>>);

impl UntilEnd {
    /// The record ends with the connection.
    pub(crate) fn set(&self, at_end: AtEnd) {
        // An answer goes out once.
        let _ = self.0.set(at_end);
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.recording.write_now(Stage::ResponseComplete, self.status.take());
    }
}
