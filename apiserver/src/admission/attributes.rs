//! One write as policies and webhooks see it: the operation, the object's names, and the facts of an AdmissionReview.

use std::borrow::Cow;
use std::sync::Arc;

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource as StoreResource, ObjectKey};
use serde_json::{Map, Value, json};

use crate::endpoints::metadata;
use crate::registry::Served;
use crate::response::Failure;
use crate::strategy::WriteContext;

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// Somebody opens a stream to it; what is judged are the stream's options.
    Connect,
}

impl Operation {
    /// The name in rules and reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Objects that decide about admission themselves: nothing may stand between an administrator and their repair.
const EXEMPT: [&str; 6] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// Questions that are answered and not stored, by group: a policy about them could break the cluster
/// (`exclusion.Excluded` upstream). Webhooks see them.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Subresources whose bodies are of another kind than the object they change. The body is judged; the object would be
/// judged as what it is not.
const OTHER_KINDS: [&str; 3] = ["scale", "binding", "eviction"];

/// One write.
pub(crate) struct Attributes<'a> {
    /// The write, as strategies see it.
    pub(crate) cx: &'a WriteContext<'a>,
    /// The resource as it is served.
    pub(crate) served: &'a Arc<Served>,
    /// What is done.
    pub(crate) operation: Operation,
    /// The object's name; empty while it has none.
    pub(crate) name: &'a str,
    /// What is replaced or deleted.
    pub(crate) old: Option<&'a Value>,
    /// The options of the request, as an object.
    pub(crate) options: &'a Value,
}

impl Attributes<'_> {
    /// Counts a step of the admission of this write.
    pub(super) fn step(&self, r#type: &'static str, rejected: bool, took: std::time::Duration) {
        self.cx.api.metrics.admission().step(r#type, self.operation.as_str(), rejected, took);
    }

    /// Counts what a plugin did with this write.
    pub(super) fn plugin(
        &self,
        name: &'static str,
        r#type: &'static str,
        rejected: bool,
        took: std::time::Duration,
    ) {
        self.cx.api.metrics.admission().plugin(name, r#type, self.operation.as_str(), rejected, took);
    }

    /// Whether policies and webhooks are asked at all.
    pub(super) fn is_exempt(&self) -> bool {
        let resource = self.cx.resource;
        *resource.group == *"admissionregistration.k8s.io" && EXEMPT.contains(&&*resource.plural)
    }

    /// Whether the object is of another kind than what was said.
    pub(super) fn is_of_other_kind(&self) -> bool {
        OTHER_KINDS.contains(&self.cx.subresource)
    }

    /// Whether policies are not asked, whoever else is.
    pub(super) fn is_free_of_policies(&self) -> bool {
        let resource = self.cx.resource;
        self.is_exempt() || REVIEWS.contains(&(&*resource.group, &*resource.plural))
    }

    /// Whether the object is a Namespace.
    pub(super) fn is_namespace(&self) -> bool {
        self.cx.resource.group.is_empty() && *self.cx.resource.plural == *"namespaces"
    }

    /// The labels that a namespace selector looks at; `None` for objects of the cluster.
    pub(super) fn namespace_labels(&self, object: Option<&Value>) -> Option<Map<String, Value>> {
        let labels = |object: &Value| {
            metadata::field(object, "labels").and_then(Value::as_object).cloned().unwrap_or_default()
        };
        if self.is_namespace() {
            return Some(object.or(self.old).map(labels).unwrap_or_default());
        }
        if self.cx.namespace.is_empty() {
            return None;
        }
        Some(self.namespace_object().as_ref().map(labels).unwrap_or_default())
    }

    /// The namespace the object is in.
    pub(super) fn namespace_object(&self) -> Option<Value> {
        if self.cx.namespace.is_empty() {
            return None;
        }
        let key = ObjectKey::new(StoreResource::new("", "namespaces"), "", self.cx.namespace);
        serde_json::from_slice(&self.cx.view.get(&key)?.json).ok()
    }

    /// The `request` of a review, in the version `served`, without its uid and its objects.
    pub(super) fn request(&self, served: &Served) -> Value {
        let own = &self.served.resource;
        let kind = |of: &Served| {
            let resource = &of.resource;
            match resource.subresource(self.cx.subresource).filter(|s| !s.kind.is_empty()) {
                Some(sub) if *sub.kind != *resource.kind => {
                    json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
                }
                _ => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
            }
        };
        let plural = |of: &Served| {
            let resource = &of.resource;
            json!({"group": resource.group, "version": resource.version, "resource": resource.plural})
        };
        let user = self.cx.user;
        let mut info = json!({"username": user.name, "groups": user.groups});
        if !user.uid.is_empty() {
            info["uid"] = json!(user.uid);
        }
        if !user.extra.is_empty() {
            info["extra"] = json!(user.extra);
        }
        let mut request = json!({
            "kind": kind(served),
            "resource": plural(served),
            "requestKind": kind(self.served),
            "requestResource": plural(self.served),
            "operation": self.operation.as_str(),
            "userInfo": info,
            "dryRun": self.cx.dry_run,
            "options": self.options,
        });
        let namespace = if self.is_namespace() { self.name } else { self.cx.namespace };
        for (field, text) in [
            ("subResource", self.cx.subresource),
            ("requestSubResource", self.cx.subresource),
            ("name", self.name),
            ("namespace", namespace),
        ] {
            if !text.is_empty() {
                request[field] = json!(text);
            }
        }
        debug_assert!(!own.plural.is_empty());
        request
    }

    /// 403 for the object, in the words that clients know.
    pub(super) fn forbidden(&self, why: impl AsRef<str>) -> Failure {
        let resource = self.cx.resource;
        let gr = GroupResource::new(resource.group.clone(), resource.plural.clone());
        Status::forbidden(&gr, self.name, why)
    }

    /// A fact for the audit log.
    pub(super) fn annotate(&self, key: &str, value: &str) {
        self.cx.annotations.add(key, value);
    }
}

/// The object in another version of its resource.
pub(super) fn converted<'a>(value: &'a Value, from: &Served, to: &Served) -> Result<Cow<'a, Value>, Failure> {
    if from.api_version == to.api_version {
        return Ok(Cow::Borrowed(value));
    }
    let mut value = value.clone();
    let revision = metadata::field(&value, "resourceVersion").cloned();
    from.stored(&mut value)?;
    let mut value = to.shown(value)?;
    metadata::set(&mut value, "resourceVersion", revision);
    Ok(Cow::Owned(value))
}
