//! Method and URL to verb, group, resource, name and subresource, by the rules of kube-apiserver's requestinfo.

use http::{Method, Uri};
use litek8s_machinery::selector::FieldSelector;

use super::query::{Query, decode};

/// What a request asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names a resource (`/api/v1/…`, `/apis/GROUP/VERSION/…`).
    pub is_resource_request: bool,
    /// The decoded path.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, `proxy`;
    /// for other requests the method in lower case.
    pub verb: String,
    /// `api` or `apis`, without slashes; empty for other requests.
    pub api_prefix: String,
    /// The API group, empty for the core group.
    pub api_group: String,
    /// The API version.
    pub api_version: String,
    /// The namespace; for the Namespace resource itself, the name of the namespace.
    pub namespace: String,
    /// The resource's plural name.
    pub resource: String,
    /// The subresource, empty for the resource itself.
    pub subresource: String,
    /// The object's name; for list and watch also the name a field selector demands.
    pub name: String,
    /// The path from the resource on.
    pub parts: Vec<String>,
    /// The field selector of list, watch and deletecollection.
    pub field_selector: String,
    /// The label selector of list, watch and deletecollection.
    pub label_selector: String,
    /// The query parameters.
    pub query: Query,
}

/// A path that names no resource although it starts like one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url, {path}")]
pub struct RequestInfoError {
    /// The path.
    pub path: String,
}

impl RequestInfo {
    /// Parses method and URL.
    pub fn parse(method: &Method, uri: &Uri) -> Result<Self, RequestInfoError> {
        let path = decode(uri.path(), false);
        let mut info = Self {
            verb: method.as_str().to_ascii_lowercase(),
            query: Query::parse(uri.query()),
            path: path.clone(),
            ..Self::default()
        };
        let trimmed = path.trim_matches('/');
        let all: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let (prefix, group, version, rest) = match all.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("api", "", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => ("apis", *group, *version, rest),
            _ => return Ok(info),
        };
        info.is_resource_request = true;
        info.api_prefix = prefix.to_owned();
        info.api_group = group.to_owned();
        info.api_version = version.to_owned();
        info.verb = verb_of(method).to_owned();
        let mut parts = rest;
        let special = matches!(parts[0], "watch" | "proxy");
        if special {
            let [verb, tail @ ..] = parts else { return Ok(info) };
            if tail.is_empty() {
                return Err(RequestInfoError { path });
            }
            info.verb = (*verb).to_owned();
            parts = tail;
        }
        if let ["namespaces", namespace, tail @ ..] = parts {
            info.namespace = (*namespace).to_owned();
            // `status` and `finalize` belong to the namespace itself; anything else is a resource in it.
            if tail.first().is_some_and(|first| !matches!(*first, "status" | "finalize")) {
                parts = tail;
            }
        }
        info.parts = parts.iter().map(|p| (*p).to_owned()).collect();
        let part = |at: usize| parts.get(at).map_or_else(String::new, |p| (*p).to_owned());
        info.resource = part(0);
        info.name = part(1);
        if info.verb != "proxy" {
            info.subresource = part(2);
        }
        info.settle_collection_verbs();
        if !special && matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.field_selector = info.query.get("fieldSelector").unwrap_or_default().to_owned();
            info.label_selector = info.query.get("labelSelector").unwrap_or_default().to_owned();
        }
        Ok(info)
    }

    /// A get without a name is a list or a watch, a delete without a name a deletecollection.
    fn settle_collection_verbs(&mut self) {
        if !self.name.is_empty() {
            return;
        }
        if self.verb == "get" {
            self.verb = if self.query.flag("watch") { "watch" } else { "list" }.to_owned();
            if let Some(name) = self.query.get("fieldSelector").and_then(exact_name) {
                self.name = name;
            }
        } else if self.verb == "delete" {
            self.verb = "deletecollection".to_owned();
        }
    }

    /// Whether the request stays open: watches, and the streams of pods.
    pub fn is_long_running(&self) -> bool {
        self.is_resource_request
            && (matches!(self.verb.as_str(), "watch" | "proxy")
                || matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward"))
    }

    /// Whether the request changes nothing.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options" | "proxy")
    }
}

fn verb_of(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The name that `metadata.name=NAME` in a field selector demands, if it can be one path segment.
///
/// The selector is read as it is applied: who is allowed one name must get no other.
fn exact_name(selector: &str) -> Option<String> {
    let selector = FieldSelector::parse(selector).ok()?;
    let value = selector.exact("metadata.name")?;
    let usable = !value.is_empty() && !matches!(value, "." | "..") && !value.contains(['/', '%', '\\']);
    usable.then(|| value.to_owned())
}

#[cfg(test)]
mod tests;
