//! A token for a ServiceAccount: `POST …/serviceaccounts/NAME/token`.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::{GroupKind, GroupResource};
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource as StoreResource, Object, ObjectKey, View};
use serde_json::{Value, json};

use super::{AUTHENTICATION, seconds};
use crate::api::Api;
use crate::request::RequestInfo;
use crate::service_account::{Bound, Claims, ISSUER, Reference};

/// Seconds a token lives when nobody says.
const DEFAULT_LIFE: i64 = 3_600;
/// The shortest and the longest life that may be asked for, seconds.
const LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;

/// Signs a token as the request's spec asks, completes the spec and returns the status.
pub(super) fn issue(
    api: &Api,
    view: &View,
    info: &RequestInfo,
    request: &mut Value,
) -> Result<Value, Status> {
    let account = find(view, "serviceaccounts", &info.namespace, &info.name)
        .ok_or_else(|| Status::not_found(&GroupResource::new("", "serviceaccounts"), &info.name))?;
    let spec = &request["spec"];
    let audiences: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    let life = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_LIFE);
    if !LIFE.contains(&life) {
        let detail = if life < *LIFE.start() {
            "may not specify a duration less than 10 minutes"
        } else {
            "may not specify a duration larger than 2^32 seconds"
        };
        return Err(invalid(FieldError::invalid("spec.expirationSeconds", life, detail)));
    }
    let bound = bound(view, info, &spec["boundObjectRef"])?;
    let now = api.clock.now();
    let id = uuid::Uuid::new_v4().to_string();
    let claims = Claims::new(
        (&info.namespace, reference(account)),
        bound,
        audiences.clone(),
        (now.as_second(), life),
        id,
    );
    let token = api.issuer.sign(&claims).map_err(Status::internal)?;
    let ends = jiff::Timestamp::from_second(claims.exp).map_err(Status::internal)?;
    request["spec"]["audiences"] = json!(audiences);
    request["spec"]["expirationSeconds"] = json!(life);
    request["metadata"]["name"] = json!(info.name);
    request["metadata"]["namespace"] = json!(info.namespace);
    Ok(json!({"token": token, "expirationTimestamp": seconds(ends)}))
}

/// What the token shall end with: the object must be there, with the uid if one is given.
fn bound(view: &View, info: &RequestInfo, wanted: &Value) -> Result<Bound, Status> {
    let mut bound = Bound::default();
    if wanted.is_null() {
        return Ok(bound);
    }
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let (resource, namespace) = match text("kind") {
        "Pod" => ("pods", info.namespace.as_str()),
        "Secret" => ("secrets", info.namespace.as_str()),
        "Node" => ("nodes", ""),
        other => {
            let detail = format!("cannot bind token for serviceaccount to object of type {other}");
            return Err(Status::bad_request(detail));
        }
    };
    let named = GroupResource::new("", resource);
    let object = find(view, resource, namespace, text("name"))
        .ok_or_else(|| Status::not_found(&named, text("name")))?;
    let uid = text("uid");
    if !uid.is_empty() && uid != object.meta.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&named, text("name"), why));
    }
    match resource {
        "pods" => {
            check_account(object, info)?;
            bound.node = node_of(view, object);
            bound.pod = Some(reference(object));
        }
        "secrets" => bound.secret = Some(reference(object)),
        _ => bound.node = Some(reference(object)),
    }
    Ok(bound)
}

/// A pod only gets tokens of the ServiceAccount it runs as.
fn check_account(pod: &Object, info: &RequestInfo) -> Result<(), Status> {
    let pod_value: Value = serde_json::from_slice(&pod.json).map_err(Status::internal)?;
    let account = pod_value["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if account == info.name {
        return Ok(());
    }
    let detail = format!(
        "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
        info.name
    );
    Err(Status::forbidden(&GroupResource::new("", "serviceaccounts"), &info.name, detail))
}

fn node_of(view: &View, pod: &Object) -> Option<Reference> {
    let pod: Value = serde_json::from_slice(&pod.json).ok()?;
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    find(view, "nodes", "", name).map(reference)
}

fn find<'a>(view: &'a View, resource: &str, namespace: &str, name: &str) -> Option<&'a Object> {
    let key = ObjectKey::new(StoreResource::new("", resource), namespace, name);
    view.get(&key).map(|object| &**object)
}

fn reference(object: &Object) -> Reference {
    Reference { name: object.key.name.to_string(), uid: object.meta.uid.clone() }
}

fn invalid(error: FieldError) -> Status {
    Status::invalid(&GroupKind::new(AUTHENTICATION, "TokenRequest"), "", &[error])
}
