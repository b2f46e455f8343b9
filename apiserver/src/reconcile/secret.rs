//! Secrets that hold a key: tokens of ServiceAccounts as they were before TokenRequest, which are filled in and go with
//! their account, and bootstrap tokens, which go when their time is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use litek8s_store::{Object, View};
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::facts::Facts;
use super::kind::Kind;
use super::read;
use super::subject::{Duty, Subject};
use crate::endpoints::metadata;
use crate::service_account::{Bound, Claims, ISSUER, Reference};

/// The type of a ServiceAccount's token.
const ACCOUNT: &str = "kubernetes.io/service-account-token";
/// The annotations that name the account.
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";
/// The type of a bootstrap token, which is one only in this namespace.
const BOOTSTRAP: (&str, &str) = ("bootstrap.kubernetes.io/token", "kube-system");
/// Such a token has no end of its own: it ends with its Secret or its account. In seconds, a hundred years.
const LIFE: i64 = 100 * 365 * 24 * 3600;

/// What is to be done about a Secret.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    if object.meta.is_terminating() {
        return Decision::nothing();
    }
    let Some(value) = read::value(object) else { return Decision::nothing() };
    match read::text(&value["type"]) {
        ACCOUNT => account(facts, object, value),
        ty if ty == BOOTSTRAP.0 && *object.key.namespace == *BOOTSTRAP.1 => bootstrap(facts, object, &value),
        _ => Decision::nothing(),
    }
}

/// The tokens that the coming or going of an account concerns.
pub(super) fn of_account(view: &View, namespace: &str, due: &mut BTreeSet<Subject>) {
    let secrets = view.list(Kind::Secret.resource(), Some(namespace));
    due.extend(secrets.map(|secret| Subject::of(Duty::Secret, &secret.key)));
}

fn account(facts: &Facts<'_>, object: &Arc<Object>, mut value: Value) -> Decision {
    let said = &value["metadata"]["annotations"];
    let (name, uid) = (read::text(&said[NAME]).to_owned(), read::text(&said[UID]));
    if name.is_empty() {
        return Decision::nothing();
    }
    let account = facts.view.get(&Kind::ServiceAccount.key(&object.key.namespace, &name));
    let account = account.filter(|account| uid.is_empty() || account.meta.uid == uid);
    let Some(account) = account.filter(|account| !account.meta.is_terminating()) else {
        return vec![Action::delete(Kind::Secret, object)].into();
    };
    let ca = base64(facts.ca.as_bytes());
    let data = &value["data"];
    let lacks = |key: &str| read::text(&data[key]).is_empty();
    let needs_token = lacks("token");
    if !needs_token && !lacks("namespace") && data["ca.crt"] == ca.as_str() {
        return Decision::nothing();
    }
    let token = if needs_token { sign(facts, object, account) } else { None };
    let data = metadata::object(&mut value, "data");
    data["ca.crt"] = json!(ca);
    data["namespace"] = json!(base64(object.key.namespace.as_bytes()));
    if let Some(token) = token {
        data["token"] = json!(base64(token.as_bytes()));
    }
    let annotations = metadata::object(metadata::object(&mut value, "metadata"), "annotations");
    annotations[NAME] = json!(name);
    annotations[UID] = json!(account.meta.uid);
    vec![Action::update(Kind::Secret, value)].into()
}

/// A token of the account that is good as long as this Secret is.
fn sign(facts: &Facts<'_>, secret: &Object, account: &Object) -> Option<String> {
    let reference =
        |object: &Object| Reference { name: object.key.name.to_string(), uid: object.meta.uid.clone() };
    let bound = Bound { secret: Some(reference(secret)), ..Bound::default() };
    let times = (facts.now.as_second(), LIFE);
    let audiences = vec![ISSUER.to_owned()];
    // The Secret's uid stands for the token: it has one.
    let id = secret.meta.uid.clone();
    let claims = Claims::new((&*secret.key.namespace, reference(account)), bound, audiences, times, id);
    facts.issuer.sign(&claims).ok()
}

fn bootstrap(facts: &Facts<'_>, object: &Arc<Object>, value: &Value) -> Decision {
    let Some(end) = unbase64(read::text(&value["data"]["expiration"])) else { return Decision::nothing() };
    let Ok(end) = end.parse::<Timestamp>() else { return Decision::nothing() };
    if end <= facts.now {
        return vec![Action::delete(Kind::Secret, object)].into();
    }
    let mut decision = Decision::nothing();
    decision.wake(end);
    decision
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn unbase64(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests;
