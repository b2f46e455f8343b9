//! Where the server itself reaches a Service: at its ready endpoints, since it need not be in the pods' network.

use std::fmt;

use litek8s_store::{GroupResource, ObjectKey, View};
use serde_json::Value;

/// Why a Service cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// There is no such Service.
    NoService,
    /// It has no such port.
    NoPort,
    /// No EndpointSlice belongs to it.
    NoSlices,
    /// No endpoint of the port with this name is ready.
    NoneReady(String),
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ServicePort {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: i64,
}

impl ServicePort {
    /// Of a `service` in a configuration, whose port is 443 by default.
    pub(crate) fn of(service: &Value) -> Self {
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_i64().unwrap_or(443);
        Self { namespace: text("namespace"), name: text("name"), port }
    }

    /// The name that its certificate has.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The addresses of the ready endpoints, `host:port`, at least one.
    pub(crate) fn ready(&self, view: &View) -> Result<Vec<String>, Unreachable> {
        let Self { namespace, name, port } = self;
        let key = ObjectKey::new(GroupResource::new("", "services"), namespace, name);
        let service = view.get(&key).ok_or(Unreachable::NoService)?;
        let service: Value = serde_json::from_slice(&service.json).unwrap_or_default();
        let spec = &service["spec"];
        if spec["type"] == "ExternalName" {
            let host = spec["externalName"].as_str().unwrap_or_default();
            return Ok(vec![format!("{host}:{port}")]);
        }
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        let wanted = ports.find(|candidate| candidate["port"] == *port).ok_or(Unreachable::NoPort)?;
        let port_name = wanted["name"].as_str().unwrap_or_default();
        let (mut any, mut ready) = (false, Vec::new());
        for slice in view.list(&GroupResource::new("discovery.k8s.io", "endpointslices"), Some(namespace)) {
            if slice.meta.labels.get("kubernetes.io/service-name").is_some_and(|of| of == name) {
                any = true;
                add_ready(&serde_json::from_slice(&slice.json).unwrap_or_default(), port_name, &mut ready);
            }
        }
        match (any, ready.is_empty()) {
            (_, false) => Ok(ready),
            (false, true) => Err(Unreachable::NoSlices),
            (true, true) => Err(Unreachable::NoneReady(port_name.to_owned())),
        }
    }

    /// One of the ready endpoints; another one at each call.
    pub(crate) fn pick(&self, view: &View) -> Result<String, String> {
        let mut ready = self.ready(view).map_err(|why| self.message(&why))?;
        let at = usize::try_from(uuid::Uuid::new_v4().as_u128() % (ready.len() as u128)).unwrap_or(0);
        Ok(ready.swap_remove(at))
    }

    fn message(&self, why: &Unreachable) -> String {
        let Self { name, port, .. } = self;
        match why {
            Unreachable::NoService => format!("service {name:?} not found"),
            Unreachable::NoPort => format!("no service port {port} found for service {name:?}"),
            Unreachable::NoSlices | Unreachable::NoneReady(_) => {
                format!("no endpoints available for service {name:?}")
            }
        }
    }
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service/{} in {:?}", self.name, self.namespace)
    }
}

/// The ready endpoints of a slice's port.
fn add_ready(slice: &Value, port_name: &str, ready: &mut Vec<String>) {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let found = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
    let Some(number) = found.and_then(|port| port["port"].as_u64()) else { return };
    for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
        if endpoint["conditions"]["ready"] != false
            && let Some(address) = endpoint["addresses"][0].as_str()
        {
            let ip6 = address.contains(':');
            ready.push(if ip6 { format!("[{address}]:{number}") } else { format!("{address}:{number}") });
        }
    }
}
