//! `AdmissionReview` of `admission.k8s.io/v1`: the request as bytes, and the answer checked.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_machinery::status::{Reason, Status};
use serde_json::{Value, json};

use super::super::attributes::Attributes;
use crate::registry::Served;

/// The body of a review.
pub(super) fn request(
    attributes: &Attributes<'_>,
    served: &Served,
    uid: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Vec<u8> {
    let mut request = attributes.request(served);
    request["uid"] = json!(uid);
    request["object"] = object.cloned().unwrap_or_default();
    request["oldObject"] = old.cloned().unwrap_or_default();
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
    review.to_string().into_bytes()
}

/// What a webhook answered.
pub(super) struct Answer {
    allowed: bool,
    status: Value,
    /// The JSON patch of a mutating webhook.
    pub(super) patch: Option<Value>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
}

/// Reads an answer; the error says why it is none.
pub(super) fn answer(uid: &str, body: &[u8], mutating: bool) -> Result<Answer, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let kind = |review: &Value| {
        let text = |field: &str| review[field].as_str().unwrap_or_default().to_owned();
        (text("apiVersion"), text("kind"))
    };
    let (version, kind) = kind(&review);
    if (version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let given = response["uid"].as_str().unwrap_or_default();
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let patch = response["patch"].as_str().filter(|patch| !patch.is_empty());
    let ty = response["patchType"].as_str();
    let patch = match (mutating, patch, ty) {
        (false, Some(_), _) => return Err("validating webhook may not return response.patch".to_owned()),
        (false, None, Some(_)) => {
            return Err("validating webhook may not return response.patchType".to_owned());
        }
        (_, None, None) => None,
        (true, Some(_), None) => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, None, Some(_)) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, Some(_), Some("")) => {
            return Err("webhook returned invalid response.patchType of \"\"".to_owned());
        }
        (true, Some(patch), Some("JSONPatch")) => {
            let bytes = STANDARD.decode(patch).map_err(|error| error.to_string())?;
            let patch = serde_json::from_slice(&bytes);
            Some(patch.map_err(|error| format!("received undecodable patch in webhook response: {error}"))?)
        }
        (true, Some(_), Some(other)) => return Err(format!("unsupported patch type {other:?}")),
    };
    let texts = response["auditAnnotations"].as_object().into_iter().flatten();
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(Answer {
        allowed: response["allowed"] == true,
        status: response["status"].clone(),
        patch,
        annotations: texts
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        warnings: warnings.filter_map(|warning| warning.as_str().map(str::to_owned)).collect(),
    })
}

impl Answer {
    /// What the client is told when the webhook refuses.
    pub(super) fn refusal(&self, hook: &str) -> Option<Status> {
        if self.allowed {
            return None;
        }
        let denied = format!("admission webhook {hook:?} denied the request");
        let text = |field: &str| self.status[field].as_str().filter(|text| !text.is_empty());
        let message = match (text("message"), text("reason")) {
            (Some(said), _) | (None, Some(said)) => format!("{denied}: {said}"),
            (None, None) => format!("{denied} without explanation"),
        };
        let code = self.status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
        let code = if (400..600).contains(&code) { code } else { 400 };
        let reasons = [
            Reason::BadRequest,
            Reason::Unauthorized,
            Reason::Forbidden,
            Reason::NotFound,
            Reason::AlreadyExists,
            Reason::Conflict,
            Reason::Invalid,
            Reason::TooManyRequests,
            Reason::InternalError,
        ];
        let reason = reasons.into_iter().find(|reason| Some(reason.as_str()) == text("reason"));
        Some(Status::new(code, reason.unwrap_or(Reason::Unknown), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_be_for_the_question_and_of_its_kind() {
        let body = |response: Value| {
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
                .to_string()
        };
        let read =
            |response: Value, mutating| answer("u", body(response).as_bytes(), mutating).map(|a| a.allowed);
        assert_eq!(read(json!({"uid": "u", "allowed": true}), true), Ok(true));
        assert_eq!(
            read(json!({"uid": "v", "allowed": true}), true),
            Err("expected response.uid=\"u\", got \"v\"".into())
        );
        let patch =
            json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode("[]")});
        assert_eq!(read(patch.clone(), true), Ok(true));
        assert_eq!(read(patch, false), Err("validating webhook may not return response.patch".into()));
        let bare = json!({"uid": "u", "allowed": true, "patch": "W10="});
        assert_eq!(
            read(bare, true),
            Err("webhook returned response.patch but not response.patchType".into())
        );
        assert!(answer("u", b"{}", true).is_err());
    }
}
