//! Where a webhook is: a URL, or a Service whose ready endpoints are looked up for every call.

use litek8s_store::{GroupResource, ObjectKey, View};
use serde_json::Value;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::client::Client;

/// Where a webhook is.
pub(crate) struct Target {
    url: String,
    place: Place,
    client: Result<Client, String>,
}

enum Place {
    /// `host:port`
    Host(String),
    Service {
        namespace: String,
        name: String,
        port: i64,
    },
    Nowhere(String),
}

impl Target {
    /// Of a `clientConfig`.
    pub(crate) fn of(config: &Value) -> Self {
        let (url, place, host) = match (&config["url"], &config["service"]) {
            (Value::String(url), _) => match url.parse::<http::Uri>() {
                Ok(uri) => {
                    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                    let port = uri.port_u16().unwrap_or(443);
                    let address = if host.contains(':') {
                        format!("[{host}]:{port}")
                    } else {
                        format!("{host}:{port}")
                    };
                    (url.clone(), Place::Host(address), host)
                }
                Err(error) => (url.clone(), Place::Nowhere(error.to_string()), String::new()),
            },
            (_, Value::Object(service)) => {
                let text =
                    |field: &str| service.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
                let (namespace, name) = (text("namespace"), text("name"));
                let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
                let host = format!("{name}.{namespace}.svc");
                let path = text("path");
                let slash = if path.starts_with('/') { "" } else { "/" };
                let url = format!("https://{host}:{port}{slash}{path}");
                (url, Place::Service { namespace, name, port }, host)
            }
            _ => (String::new(), Place::Nowhere("no url and no service is given".to_owned()), String::new()),
        };
        let bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
        Self { url, place, client: Client::new(&host, &bundle) }
    }

    /// The URL, for messages and for the request.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The address to connect to, `host:port`.
    pub(crate) fn reach(&self, view: &View) -> Result<(String, &Client), String> {
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let address = match &self.place {
            Place::Host(address) => address.clone(),
            Place::Service { namespace, name, port } => endpoint(view, namespace, name, *port)?,
            Place::Nowhere(why) => return Err(why.clone()),
        };
        Ok((address, client))
    }
}

/// A ready endpoint of a Service's port.
fn endpoint(view: &View, namespace: &str, name: &str, port: i64) -> Result<String, String> {
    let key = ObjectKey::new(GroupResource::new("", "services"), namespace, name);
    let service = view.get(&key).ok_or_else(|| format!("service {name:?} not found"))?;
    let service: Value = serde_json::from_slice(&service.json).map_err(|error| error.to_string())?;
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok(format!("{host}:{port}"));
    }
    let ports = spec["ports"].as_array();
    let wanted = ports.into_iter().flatten().find(|candidate| candidate["port"] == port);
    let wanted = wanted.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = wanted["name"].as_str().unwrap_or_default();
    let slices = GroupResource::new("discovery.k8s.io", "endpointslices");
    let mut ready = Vec::new();
    for slice in view.list(&slices, Some(namespace)) {
        if slice.meta.labels.get("kubernetes.io/service-name").is_none_or(|of| *of != *name) {
            continue;
        }
        let slice: Value = serde_json::from_slice(&slice.json).unwrap_or_default();
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let found = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
        let Some(number) = found.and_then(|port| port["port"].as_u64()) else { continue };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] != false
                && let Some(address) = endpoint["addresses"][0].as_str()
            {
                let ip6 = address.contains(':');
                ready.push(if ip6 { format!("[{address}]:{number}") } else { format!("{address}:{number}") });
            }
        }
    }
    let chosen = usize::try_from(uuid::Uuid::new_v4().as_u128() % (ready.len().max(1) as u128)).unwrap_or(0);
    let chosen = ready.get(chosen).cloned();
    chosen.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}
