//! Is this token good, and whose is it: TokenReview.

use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde_json::{Value, json};

use super::user_info;
use crate::api::Api;

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
    Ok(match api.issuer.verify(token, &audiences, view, now) {
        Ok(verified) => json!({
            "authenticated": true,
            "user": user_info(&verified.user),
            "audiences": verified.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}
