//! One APIService that names a Service: what it serves, where it is, and whether it is there.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_store::Object;
use serde_json::Value;

use super::API_SERVICES;
use super::client::Client;
use super::front_proxy::FrontProxy;
use super::registration::is_managed;
use crate::service_endpoints::ServicePort;

/// The server of a group and version.
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) service: ServicePort,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// Why it is not asked, as the condition `Available` says.
    pub(crate) unavailable: Option<String>,
    /// Changes with everything the way there depends on.
    pub(super) print: u64,
    client: Arc<Result<Client, String>>,
}

impl Backend {
    /// Of an APIService; `None` when this server itself serves it. The connections of `before` live on if they can.
    pub(super) fn of(object: &Object, before: Option<&Self>, front_proxy: &FrontProxy) -> Option<Self> {
        if is_managed(object) {
            return None;
        }
        let value: Value = serde_json::from_slice(&object.json).ok()?;
        let spec = &value["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default();
        // Whatever happens to other groups, APIServices can always be repaired.
        if !spec["service"].is_object() || text("group") == API_SERVICES.0 {
            return None;
        }
        let service = ServicePort::of(&spec["service"]);
        let insecure = spec["insecureSkipTLSVerify"] == true;
        let mut hasher = DefaultHasher::new();
        (&object.meta.uid, &service, text("caBundle"), insecure).hash(&mut hasher);
        let print = hasher.finish();
        let client = match before {
            Some(before) if before.print == print => before.client.clone(),
            _ => {
                let bundle = STANDARD.decode(text("caBundle")).unwrap_or_default();
                Arc::new(Client::new(&service.host(), &bundle, insecure, front_proxy))
            }
        };
        Some(Self {
            name: object.key.name.to_string(),
            group: text("group").to_owned(),
            version: text("version").to_owned(),
            service,
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or(0),
            version_priority: spec["versionPriority"].as_i64().unwrap_or(0),
            unavailable: unavailable(&value),
            print,
            client,
        })
    }

    /// The way there, or why it cannot be made.
    pub(super) fn client(&self) -> Result<&Client, String> {
        self.client.as_ref().as_ref().map_err(Clone::clone)
    }

    /// Where its resources are listed.
    pub(crate) fn discovery_path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// Reason and message of a condition `Available` that is not true.
fn unavailable(value: &Value) -> Option<String> {
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == "Available");
    let Some(condition) = found else { return Some("it has not been checked yet".to_owned()) };
    if condition["status"] == "True" {
        return None;
    }
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    Some(format!("{}: {}", text("reason"), text("message")))
}
