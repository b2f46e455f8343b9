//! One webhook of a configuration: what it is asked about, how it is reached, and what its failures mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use litek8s_machinery::status::Status;
use litek8s_store::Object;
use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::expressions::{self, Condition, NAMES, Verdict, compiling};
use super::super::matching::Matching;
use super::client::MAX_ANSWER;
use super::target::Target;
use crate::extensions::cel::dynamic::{Variables, evaluate};
use crate::registry::Served;
use crate::response::Failure;

/// How long a webhook may take that does not say so.
const DEFAULT_SECONDS: u64 = 10;
/// The longest a webhook may take.
const MAX_SECONDS: u64 = 30;

/// A webhook.
pub(super) struct Hook {
    /// Unique among all webhooks.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) configuration: String,
    /// Whether it wants to see the object again after others changed it.
    pub(super) reinvoked: bool,
    matching: Matching,
    conditions: Result<Vec<Condition>, String>,
    fails: bool,
    /// Whether it may be called for a dry run.
    harmless: bool,
    timeout: Duration,
    target: Target,
}

/// Why a write does not go on.
#[derive(Debug)]
pub(super) enum Problem {
    /// The webhook could not be asked.
    Calling(String),
    /// The webhook, or the server because of it, refuses.
    Refused(Failure),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calling(why) => f.write_str(why),
            Self::Refused(status) => f.write_str(&status.message),
        }
    }
}

impl Problem {
    pub(super) fn into_failure(self, hook: &Hook) -> Failure {
        match self {
            Self::Calling(why) => Status::internal(format!("failed calling webhook {:?}: {why}", hook.name)),
            Self::Refused(status) => status,
        }
    }
}

impl Hook {
    /// The webhooks of a configuration, in their order.
    pub(super) fn of_configuration(object: &Object) -> Vec<Self> {
        let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        let hooks = value["webhooks"].as_array().into_iter().flatten().enumerate();
        hooks.map(|(index, hook)| Self::of(hook, &object.key.name, index)).collect()
    }

    fn of(value: &Value, configuration: &str, index: usize) -> Self {
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        let conditions = &value["matchConditions"];
        let conditions = if conditions.as_array().is_some_and(|list| !list.is_empty()) {
            compiling(|| expressions::conditions(conditions, &NAMES, &Variables::new()))
        } else {
            Ok(Vec::new())
        };
        let seconds = value["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS);
        Self {
            id: format!("{configuration}/{name}/{index}"),
            name,
            configuration: configuration.to_owned(),
            reinvoked: value["reinvocationPolicy"] == "IfNeeded",
            matching: Matching::of_webhook(value),
            conditions,
            fails: value["failurePolicy"] != "Ignore",
            harmless: matches!(value["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            timeout: Duration::from_secs(seconds),
            target: Target::of(&value["clientConfig"]),
        }
    }

    /// Whether a failed call lets the write go on.
    pub(super) fn ignores(&self, problem: &Problem) -> bool {
        !self.fails && matches!(problem, Problem::Calling(_))
    }

    /// The version in which the webhook is asked about the write, if it is.
    pub(super) fn wants(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<Served>>, Problem> {
        let matched = self.matching.matches(attributes, object);
        let found = matched.map_err(|error| Problem::Refused(Status::internal(error)))?;
        let Some(served) = found else { return Ok(None) };
        let conditions = match &self.conditions {
            Ok(conditions) if conditions.is_empty() => return Ok(Some(served)),
            Ok(conditions) => conditions,
            Err(error) => return self.unknown(attributes, error),
        };
        let bindings = expressions::bindings(attributes, attributes.served, object, attributes.old);
        let depth = expressions::depth(conditions);
        let verdict = evaluate(bindings, Arc::default(), depth, |scope| expressions::ask(conditions, scope));
        match verdict {
            Some(Verdict::Holds) => Ok(Some(served)),
            Some(Verdict::Fails) => Ok(None),
            Some(Verdict::Unknown(error)) => self.unknown(attributes, &error),
            None => self.unknown(attributes, "the conditions cannot be evaluated"),
        }
    }

    /// Conditions that cannot be evaluated count as the failure policy says.
    fn unknown(&self, attributes: &Attributes<'_>, error: &str) -> Result<Option<Arc<Served>>, Problem> {
        if self.fails { Err(Problem::Refused(attributes.forbidden(error))) } else { Ok(None) }
    }

    /// 400 for a dry run that the webhook would not notice.
    pub(super) fn check_dry_run(&self, attributes: &Attributes<'_>) -> Result<(), Problem> {
        if !attributes.cx.dry_run || self.harmless {
            return Ok(());
        }
        let why = format!("admission webhook {:?} does not support dry run", self.name);
        Err(Problem::Refused(Status::bad_request(why)))
    }

    /// Sends a body to the webhook and reads the answer's.
    pub(super) async fn send(&self, attributes: &Attributes<'_>, body: Vec<u8>) -> Result<Bytes, Problem> {
        let failed = |why: String| Problem::Calling(format!("failed to call webhook: {why}"));
        let url = format!("{}?timeout={}s", self.target.url(), self.timeout.as_secs());
        let post = |why: &dyn fmt::Display| format!("Post {url:?}: {why}");
        let (address, client) = self.target.reach(attributes.cx.view).map_err(|why| failed(post(&why)))?;
        match tokio::time::timeout(self.timeout, client.post(&address, &url, body, MAX_ANSWER)).await {
            Ok(Ok((code, body))) if (200..300).contains(&code) => Ok(body),
            Ok(Ok((code, body))) => {
                let said = serde_json::from_slice::<Value>(&body).ok();
                let said = said.as_ref().and_then(|status| status["message"].as_str()).map(str::to_owned);
                Err(failed(said.unwrap_or_else(|| format!("the server answered with status {code}"))))
            }
            Ok(Err(error)) => Err(failed(post(&error))),
            Err(_) => Err(failed(post(&"context deadline exceeded"))),
        }
    }
}
