//! What becomes of one request now: approved, signed, failed, removed, or nothing until a time.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use litek8s_daemon::pki::{Authority, inspect};
use litek8s_store::View;
use serde_json::{Value, json};

use super::asked::Asked;
use super::{APPROVED, DENIED, FAILED, GROUP, RESOURCE, has_condition, signer};
use crate::authorization::{Attributes, Authorizer};
use crate::request::UserInfo;
use crate::time::after;

/// How long a request stays that is answered.
const ANSWERED: SignedDuration = SignedDuration::from_hours(1);
/// How long a request stays that nobody answers.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// What is to be done with a request.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Store this instead.
    Change(Value),
    /// Remove it.
    Remove,
    /// Nothing before this time.
    Wait(Timestamp),
}

/// What decisions are made from.
pub(super) struct Facts<'a> {
    /// The state.
    pub(super) view: &'a View,
    /// Who may what.
    pub(super) authorizer: &'a Authorizer,
    /// The cluster's CA.
    pub(super) authority: &'a Authority,
    /// The time.
    pub(super) now: Timestamp,
}

/// Decides about one request.
pub(super) fn decide(request: &Value, facts: &Facts<'_>) -> Step {
    if let Some(step) = end(request, facts.now) {
        return step;
    }
    let spec = &request["spec"];
    let denied = has_condition(request, DENIED) || has_condition(request, FAILED);
    let signed = !text(&request["status"]["certificate"]).is_empty();
    if !denied && !signed && signer::is_ours(text(&spec["signerName"])) {
        if has_condition(request, APPROVED) {
            return Step::Change(sign(request, facts));
        }
        if let Some(why) = approval(spec, facts) {
            let mut approved = request.clone();
            add_condition(&mut approved, (APPROVED, "AutoApproved", &why), facts.now);
            return Step::Change(approved);
        }
    }
    Step::Wait(due(request, facts.now))
}

/// A request whose time is over is removed.
fn end(request: &Value, now: Timestamp) -> Option<Step> {
    (due(request, now) <= now).then_some(Step::Remove)
}

/// When a request goes: an answered one an hour after the answer, another a day after it was made, and one with a
/// certificate not later than that certificate.
fn due(request: &Value, now: Timestamp) -> Timestamp {
    let time = |value: &Value| text(value).parse::<Timestamp>().ok();
    let conditions = request["status"]["conditions"].as_array();
    let answered = conditions
        .into_iter()
        .flatten()
        .filter_map(|c| time(&c["lastUpdateTime"]).or_else(|| time(&c["lastTransitionTime"])))
        .max();
    let made = time(&request["metadata"]["creationTimestamp"]).unwrap_or(now);
    let signed = !text(&request["status"]["certificate"]).is_empty();
    let denied = has_condition(request, DENIED) || has_condition(request, FAILED);
    let ours = signer::is_ours(text(&request["spec"]["signerName"]));
    match answered {
        // Somebody else's signer may take its time.
        Some(at) if signed || denied || ours => after(at, ANSWERED),
        _ => after(made, PENDING),
    }
    .min(expiry(request).unwrap_or(Timestamp::MAX))
}

fn expiry(request: &Value) -> Option<Timestamp> {
    let pem = STANDARD.decode(text(&request["status"]["certificate"])).ok()?;
    let info = inspect(std::str::from_utf8(&pem).ok()?).ok()?;
    Timestamp::try_from(info.not_after).ok()
}

/// Why a node's request for its client certificate is approved without anybody; nothing else ever is.
fn approval(spec: &Value, facts: &Facts<'_>) -> Option<String> {
    if text(&spec["signerName"]) != signer::NODE_CLIENT {
        return None;
    }
    let asked = Asked::read(text(&spec["request"])).ok()?;
    signer::leaf(spec, &asked).ok()?;
    let user = requester(spec);
    let own = (asked.common_name == user.name).then_some("selfnodeclient");
    for subresource in own.into_iter().chain(["nodeclient"]) {
        let wanted = Attributes {
            verb: "create",
            group: GROUP,
            resource: RESOURCE,
            subresource,
            is_resource: true,
            ..Attributes::default()
        };
        if facts.authorizer.authorize(&user, &wanted, facts.view).allowed() {
            return Some(format!("{} may create {RESOURCE}/{subresource}", user.name));
        }
    }
    None
}

/// Who made the request, as the server wrote it down.
fn requester(spec: &Value) -> UserInfo {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut user = UserInfo::new(text(&spec["username"]), groups);
    text(&spec["uid"]).clone_into(&mut user.uid);
    user
}

/// The request with its certificate, or with the reason why it gets none.
fn sign(request: &Value, facts: &Facts<'_>) -> Value {
    let mut changed = request.clone();
    let spec = &request["spec"];
    let signed = Asked::read(text(&spec["request"])).and_then(|asked| {
        let leaf = signer::leaf(spec, &asked)?;
        let now = SystemTime::from(facts.now);
        facts.authority.sign_request(&asked.pem, &leaf, now).map_err(|error| error.to_string())
    });
    match signed {
        Ok(certificate) => changed["status"]["certificate"] = json!(STANDARD.encode(certificate)),
        Err(why) => add_condition(&mut changed, (FAILED, "SignerValidationFailure", &why), facts.now),
    }
    changed
}

fn add_condition(request: &mut Value, (kind, reason, message): (&str, &str, &str), now: Timestamp) {
    let now = crate::endpoints::metadata::time(now);
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now});
    let mut list = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.push(condition);
    request["status"]["conditions"] = Value::Array(list);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
