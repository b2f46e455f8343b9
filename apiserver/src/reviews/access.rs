//! May somebody do something: the access reviews and the list of one's own rules.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AUTHORIZATION;
use crate::api::Api;
use crate::authorization::{Attributes, Decision, PolicyRule};
use crate::request::UserInfo;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<PathAttributes>,
    user: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathAttributes {
    path: String,
    verb: String,
}

impl Spec {
    fn read(spec: &Value) -> Result<Self, Status> {
        let spec: Self = serde_json::from_value::<Option<Self>>(spec.clone())
            .map_err(|error| Status::bad_request(format!("spec: {error}")))?
            .unwrap_or_default();
        if spec.resource_attributes.is_some() == spec.non_resource_attributes.is_some() {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let field = "spec.resourceAttributes";
            let error = FieldError::invalid(field, Value::Null, detail);
            return Err(Status::invalid(&GroupKind::new(AUTHORIZATION, "SubjectAccessReview"), "", &[error]));
        }
        Ok(spec)
    }

    fn attributes(&self) -> Attributes<'_> {
        if let Some(wanted) = &self.resource_attributes {
            return Attributes {
                verb: &wanted.verb,
                namespace: &wanted.namespace,
                group: &wanted.group,
                resource: &wanted.resource,
                subresource: &wanted.subresource,
                name: &wanted.name,
                path: "",
                is_resource: true,
            };
        }
        let (verb, path) = self
            .non_resource_attributes
            .as_ref()
            .map_or(("", ""), |wanted| (wanted.verb.as_str(), wanted.path.as_str()));
        Attributes { verb, path, ..Attributes::default() }
    }
}

/// The status of a SelfSubjectAccessReview.
pub(super) fn decide(api: &Api, view: &View, user: &UserInfo, spec: &Value) -> Result<Value, Status> {
    let spec = Spec::read(spec)?;
    Ok(status(api.authorizer.authorize(user, &spec.attributes(), view)))
}

/// The status of a SubjectAccessReview, or of a LocalSubjectAccessReview in `namespace`.
pub(super) fn decide_for_other(
    api: &Api,
    view: &View,
    spec: &Value,
    namespace: Option<&str>,
) -> Result<Value, Status> {
    let spec = Spec::read(spec)?;
    let kind = if namespace.is_some() { "LocalSubjectAccessReview" } else { "SubjectAccessReview" };
    let invalid = |error: FieldError| Status::invalid(&GroupKind::new(AUTHORIZATION, kind), "", &[error]);
    let user = UserInfo {
        name: spec.user.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        return Err(invalid(FieldError::invalid(
            "spec.user",
            "",
            "at least one of user or group must be specified",
        )));
    }
    if let Some(namespace) = namespace {
        let wanted = spec.resource_attributes.as_ref().map_or("", |wanted| wanted.namespace.as_str());
        if wanted != namespace {
            let detail = "must match metadata.namespace";
            return Err(invalid(FieldError::invalid("spec.resourceAttributes.namespace", wanted, detail)));
        }
    }
    Ok(status(api.authorizer.authorize(&user, &spec.attributes(), view)))
}

fn status(decision: Decision) -> Value {
    let (allowed, reason) = match decision {
        Decision::Allow(reason) => (true, reason),
        Decision::Deny(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = Value::from(reason);
    }
    status
}

/// The status of a SelfSubjectRulesReview.
pub(super) fn rules(api: &Api, view: &View, user: &UserInfo, spec: &Value) -> Result<Value, Status> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let mut rules = api.authorizer.rules_for(user, namespace, view);
    if user.in_group(crate::request::MASTERS) {
        let all = || vec!["*".to_owned()];
        rules.push(PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() });
        rules.push(PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() });
    }
    let mut seen = Vec::new();
    rules.retain(|rule| {
        let new = !seen.contains(rule);
        seen.extend(new.then(|| rule.clone()));
        new
    });
    let (paths, resources): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| !rule.non_resource_urls.is_empty());
    Ok(json!({
        "resourceRules": resources,
        "nonResourceRules": paths,
        // The rules of the node authorizer are not rules of RBAC.
        "incomplete": user.node_name().is_some(),
    }))
}
