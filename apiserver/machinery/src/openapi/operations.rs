//! One operation: its parameters, body, answers and the extensions that say what it does.

use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use super::names::{list_name, model_name, resource_name};
use super::paths::kind_marker;
use super::schemas::PATCH;
use crate::resource::{Resource, Subresource};

/// What an operation takes as its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Object,
    Patch,
    DeleteOptions,
}

pub(super) struct Operation<'a> {
    resource: &'a Resource,
    verb: &'static str,
    method: &'static str,
    sub: Option<&'a Subresource>,
    /// Of all namespaces.
    everywhere: bool,
    pub(super) body: Body,
    /// What `x-kubernetes-action` says, where it is not the method.
    pub(super) action: Option<&'static str>,
}

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Query parameters with their types and one line each.
const WRITE: [(&str, &str, &str); 3] = [
    ("dryRun", "string", "'All' makes a change that is checked and answered, and not kept."),
    ("fieldManager", "string", "The name of who changes the fields, 128 characters at most."),
    ("fieldValidation", "string", "What unknown and repeated fields are: Ignore, Warn or Strict."),
];
const FORCE: (&str, &str, &str) = ("force", "boolean", "Takes over fields of other managers; apply only.");
const DELETE: [(&str, &str, &str); 4] = [
    ("dryRun", "string", "'All' makes a change that is checked and answered, and not kept."),
    ("gracePeriodSeconds", "integer", "Seconds until the object goes; zero is at once."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
];
const LIST: [(&str, &str, &str); 10] = [
    ("allowWatchBookmarks", "boolean", "Lets a watch send bookmarks."),
    ("continue", "string", "Where a list of pages goes on."),
    ("fieldSelector", "string", "Limits the list by fields."),
    ("labelSelector", "string", "Limits the list by labels."),
    ("limit", "integer", "The most items of one answer."),
    ("resourceVersion", "string", "How fresh the list must be."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant."),
    ("sendInitialEvents", "boolean", "Begins a watch with the objects there are."),
    ("timeoutSeconds", "integer", "Ends a list or watch after so many seconds."),
    ("watch", "boolean", "Watches for changes instead of listing."),
];

impl<'a> Operation<'a> {
    pub(super) fn new(resource: &'a Resource, verb: &'static str, method: &'static str) -> Self {
        let body = match verb {
            "create" | "update" => Body::Object,
            "patch" => Body::Patch,
            "delete" | "deletecollection" => Body::DeleteOptions,
            _ => Body::None,
        };
        Self { resource, verb, method, sub: None, everywhere: false, body, action: None }
    }

    pub(super) fn subresource(mut self, sub: &'a Subresource) -> Self {
        self.sub = Some(sub);
        self
    }

    pub(super) fn everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    pub(super) fn write(&self, dialect: Dialect) -> Value {
        let (group, version, kind) = match self.sub {
            Some(sub) => (&sub.group, &sub.version, &sub.kind),
            None => (&self.resource.group, &self.resource.version, &self.resource.kind),
        };
        let action = self.action.unwrap_or(match self.verb {
            "list" | "deletecollection" => self.verb,
            _ => self.method,
        });
        let mut out = json!({
            "operationId": self.id(),
            "tags": [self.tag()],
            "description": self.description(),
            "parameters": self.parameters(dialect),
            "responses": self.responses(dialect),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_marker(group, version, kind),
        });
        self.request(dialect, &mut out);
        out
    }

    fn tag(&self) -> String {
        let short = self.resource.group.trim_end_matches(".k8s.io");
        let group: String = if short.is_empty() { "core".into() } else { camel(short, false) };
        format!("{group}_{}", self.resource.version)
    }

    fn id(&self) -> String {
        let verb = match self.verb {
            "get" => "read",
            "update" => "replace",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let short = self.resource.group.trim_end_matches(".k8s.io");
        let group = if short.is_empty() { "Core".to_owned() } else { camel(short, true) };
        let version = camel(&self.resource.version, true);
        let scope = if self.resource.namespaced && !self.everywhere { "Namespaced" } else { "" };
        let sub = self.sub.map(|sub| camel(&sub.name, true)).unwrap_or_default();
        let tail = if self.everywhere { "ForAllNamespaces" } else { "" };
        format!("{verb}{group}{version}{scope}{}{sub}{tail}", self.resource.kind)
    }

    fn description(&self) -> String {
        let kind = &self.resource.kind;
        let sub = self.sub.map(|sub| format!("{} of ", sub.name)).unwrap_or_default();
        match self.verb {
            "list" => format!("list or watch objects of kind {kind}"),
            "create" => format!("create {sub}a {kind}"),
            "get" => format!("read {sub}the specified {kind}"),
            "update" => format!("replace {sub}the specified {kind}"),
            "patch" => format!("partially update {sub}the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            _ => format!("delete {sub}a {kind}"),
        }
    }

    fn parameters(&self, dialect: Dialect) -> Value {
        let rows: Vec<&(&str, &str, &str)> = match self.verb {
            "list" => LIST.iter().collect(),
            "create" | "update" => WRITE.iter().collect(),
            "patch" => WRITE.iter().chain(std::iter::once(&FORCE)).collect(),
            "delete" => DELETE.iter().collect(),
            "deletecollection" => {
                DELETE.iter().chain(LIST.iter()).filter(|(name, ..)| *name != "watch").collect()
            }
            _ => Vec::new(),
        };
        rows.into_iter().map(|(name, ty, text)| dialect.parameter(name, "query", ty, text)).collect()
    }

    /// The name of the schema of the objects that this is about.
    fn model(&self) -> String {
        match self.sub {
            Some(sub) => {
                sub.schema.map_or_else(|| resource_name(self.resource), |ty| model_name(ty.as_str()))
            }
            None => resource_name(self.resource),
        }
    }

    fn request(&self, dialect: Dialect, out: &mut Value) {
        let model = match self.body {
            Body::None => return,
            Body::Object => self.model(),
            Body::Patch => PATCH.to_owned(),
            Body::DeleteOptions => DELETE_OPTIONS.to_owned(),
        };
        let types: Vec<&str> = match self.body {
            Body::Patch if self.resource.custom => {
                vec![
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ]
            }
            Body::Patch => vec![
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ],
            Body::None | Body::Object | Body::DeleteOptions => vec!["*/*"],
        };
        let required = self.body != Body::DeleteOptions;
        match dialect {
            Dialect::V3 => {
                let media = json!({"schema": dialect.reference(&model)});
                let content: Map<String, Value> =
                    types.into_iter().map(|ty| (ty.to_owned(), media.clone())).collect();
                out["requestBody"] = json!({"content": content});
                if required {
                    out["requestBody"]["required"] = json!(true);
                }
            }
            Dialect::V2 => {
                let mut body = json!({"name": "body", "in": "body", "schema": dialect.reference(&model)});
                if required {
                    body["required"] = json!(true);
                }
                if let Some(parameters) = out["parameters"].as_array_mut() {
                    parameters.insert(0, body);
                }
                out["consumes"] = json!(types);
            }
        }
        if dialect == Dialect::V2 {
            out["produces"] = json!(["application/json", "application/yaml"]);
        }
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let model = match self.verb {
            "list" => list_name(self.resource),
            "delete" | "deletecollection" => STATUS.to_owned(),
            _ => self.model(),
        };
        let answer = |description: &str| match (self.body, self.action, dialect) {
            (Body::None, Some("connect"), _) => json!({"description": description}),
            (_, _, Dialect::V2) => json!({"description": description, "schema": dialect.reference(&model)}),
            (_, _, Dialect::V3) => {
                let media = json!({"schema": dialect.reference(&model)});
                json!({"description": description, "content": {"application/json": media, "application/yaml": media}})
            }
        };
        let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
        match self.verb {
            "create" => {
                responses["201"] = answer("Created");
                responses["202"] = answer("Accepted");
            }
            "update" | "patch" => responses["201"] = answer("Created"),
            "delete" => responses["202"] = answer("Accepted"),
            _ => {}
        }
        responses
    }
}

/// `rbac.authorization` → `RbacAuthorization`.
fn camel(text: &str, first_upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut upper = first_upper;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        } else {
            upper = true;
        }
    }
    out
}
