//! Where a webhook is: a URL, or a Service whose ready endpoints are looked up for every call.

use litek8s_store::View;
use serde_json::Value;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::client::Client;
use crate::service_endpoints::ServicePort;

/// Where a webhook is.
pub(crate) struct Target {
    url: String,
    place: Place,
    client: Result<Client, String>,
}

enum Place {
    /// `host:port`
    Host(String),
    Service(ServicePort),
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
                let port = ServicePort::of(&config["service"]);
                let path = service.get("path").and_then(Value::as_str).unwrap_or_default();
                let slash = if path.starts_with('/') { "" } else { "/" };
                let host = port.host();
                let url = format!("https://{host}:{}{slash}{path}", port.port);
                (url, Place::Service(port), host)
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
            Place::Service(service) => service.pick(view)?,
            Place::Nowhere(why) => return Err(why.clone()),
        };
        Ok((address, client))
    }
}
