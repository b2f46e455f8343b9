//! Is this token good, and whose is it: TokenReview.

use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde_json::{Value, json};

use super::user_info;
use crate::api::Api;
use crate::authentication;
use crate::request::UserInfo;
use crate::service_account::ISSUER;

/// The status of a TokenReview.
pub(super) fn review(api: &Api, view: &View, spec: &Value) -> Result<Value, Status> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let now = api.clock.now().as_second();
    if let Some(found) = authentication::bootstrapper(token, view, now) {
        return Ok(bootstrapper(found, &audiences));
    }
    Ok(match api.issuer.verify(token, &audiences, view, now) {
        Ok(verified) => json!({
            "authenticated": true,
            "user": user_info(&verified.user),
            "audiences": verified.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}

/// A bootstrap token is for the API server and nobody else.
fn bootstrapper(found: Result<UserInfo, String>, audiences: &[String]) -> Value {
    match found {
        Ok(user) if audiences.is_empty() || audiences.iter().any(|a| a == ISSUER) => {
            json!({"authenticated": true, "user": user_info(&user), "audiences": [ISSUER]})
        }
        Ok(_) => json!({"user": {}, "error": "the token is not for this audience"}),
        Err(error) => json!({"user": {}, "error": error}),
    }
}
