//! What the name in a proxy's URL means (`NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`), and where that is. As the
//! `ResourceLocation` functions of kube-apiserver, with their refusals.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde_json::Value;

use crate::api::Api;
use crate::endpoints::newest;
use crate::request::RequestContext;
use crate::response::Failure;

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To the agent of a node.
    Agent { node: String },
    /// To an address, by a node that reaches it.
    Address { node: String, to: SocketAddr, tls: bool },
}

/// The name in the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Named<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self { scheme, name, port })
    }

    fn tls(&self) -> bool {
        self.scheme == "https"
    }

    /// The port, or the one that the scheme has.
    fn number(&self) -> Option<u16> {
        match self.port {
            "" => Some(if self.tls() { 443 } else { 80 }),
            port => port.parse().ok().filter(|port| *port > 0),
        }
    }
}

/// Where the request in the URL goes.
pub(super) async fn find(api: &Arc<Api>, ctx: &RequestContext) -> Result<Target, Failure> {
    let info = &ctx.info;
    let what = info.resource.strip_suffix('s').unwrap_or(&info.resource);
    let invalid = || Status::bad_request(format!("invalid {what} request {:?}", info.name));
    let named = Named::parse(&info.name).ok_or_else(invalid)?;
    let view = newest(&api.replica).await?;
    let objects = Objects { api, view: &view, namespace: &info.namespace };
    match what {
        "node" => objects.node(named, invalid),
        "pod" => objects.pod(named, invalid),
        _ => objects.service(named, &info.name),
    }
}

struct Objects<'a> {
    api: &'a Api,
    view: &'a View,
    namespace: &'a str,
}

impl Objects<'_> {
    fn get(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Failure> {
        let served = self.api.registry.get("", "v1", plural).ok_or_else(Status::unknown_resource)?;
        let found = self.view.get(&served.object_key(namespace, name));
        served.value(found.ok_or_else(|| Status::not_found(&GroupResource::new("", plural), name))?)
    }

    fn node(&self, named: Named<'_>, invalid: impl Fn() -> Failure) -> Result<Target, Failure> {
        let node = self.get("nodes", "", named.name)?;
        let name = named.name.to_owned();
        if named.port.is_empty() {
            return Ok(Target::Agent { node: name });
        }
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let mut own = addresses.filter(|address| address["type"] == "InternalIP");
        let address = own.find_map(|address| address["address"].as_str()?.parse().ok());
        let to = SocketAddr::new(allowed(address)?, named.number().ok_or_else(invalid)?);
        Ok(Target::Address { node: name, to, tls: named.tls() })
    }

    fn pod(&self, named: Named<'_>, invalid: impl Fn() -> Failure) -> Result<Target, Failure> {
        let pod = self.get("pods", self.namespace, named.name)?;
        let mut number = named.number().ok_or_else(invalid)?;
        if named.port.is_empty() {
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            let mut ports =
                containers.filter_map(|container| container["ports"][0]["containerPort"].as_u64());
            number = ports.next().and_then(|port| u16::try_from(port).ok()).unwrap_or(number);
        }
        let address = ips(&pod).next();
        let to = SocketAddr::new(allowed(address)?, number);
        let node = text(&pod["spec"]["nodeName"]).to_owned();
        Ok(Target::Address { node, to, tls: named.tls() })
    }

    fn service(&self, named: Named<'_>, asked: &str) -> Result<Target, Failure> {
        let service = self.get("services", self.namespace, named.name)?;
        let mut port = named.port;
        if let Ok(number) = port.parse::<u16>() {
            let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
            let declared = ports.find(|declared| declared["port"] == number).ok_or_else(|| {
                let name = named.name;
                Status::service_unavailable(format!("no service port {number} found for service {name:?}"))
            })?;
            port = text(&declared["name"]);
        }
        let mut ready = self.ready(named.name, port);
        if ready.is_empty() {
            return Err(Status::service_unavailable(format!("no endpoints available for service {asked:?}")));
        }
        let at = usize::try_from(uuid::Uuid::new_v4().as_u128() % (ready.len() as u128)).unwrap_or(0);
        let (node, to) = ready.swap_remove(at);
        Ok(Target::Address { node, to, tls: named.tls() })
    }

    /// The ready endpoints of a Service's port that are pods of its namespace: whoever may write EndpointSlices must not
    /// have this server ask somebody else.
    fn ready(&self, service: &str, port: &str) -> Vec<(String, SocketAddr)> {
        let resource = litek8s_store::GroupResource::new("discovery.k8s.io", "endpointslices");
        let mut ready = Vec::new();
        for slice in self.view.list(&resource, Some(self.namespace)) {
            if slice.meta.labels.get("kubernetes.io/service-name").is_none_or(|of| of != service) {
                continue;
            }
            let slice: Value = serde_json::from_slice(&slice.json).unwrap_or_default();
            let mut ports = slice["ports"].as_array().into_iter().flatten();
            let number =
                ports.find(|known| text(&known["name"]) == port).and_then(|known| known["port"].as_u64());
            let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            ready.extend(endpoints.filter_map(|endpoint| self.of_pod(endpoint, number)));
        }
        ready
    }

    fn of_pod(&self, endpoint: &Value, port: u16) -> Option<(String, SocketAddr)> {
        let target = &endpoint["targetRef"];
        if endpoint["conditions"]["ready"] == false
            || target["kind"] != "Pod"
            || text(&target["namespace"]) != self.namespace
        {
            return None;
        }
        let pod = self.get("pods", self.namespace, text(&target["name"])).ok()?;
        let address = text(&endpoint["addresses"][0]).parse().ok();
        let address = allowed(address).ok().filter(|address| ips(&pod).any(|own| own == *address))?;
        Some((text(&pod["spec"]["nodeName"]).to_owned(), SocketAddr::new(address, port)))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The addresses of a pod, the first one first.
fn ips(pod: &Value) -> impl Iterator<Item = IpAddr> {
    let first = pod["status"]["podIP"].as_str();
    let others = pod["status"]["podIPs"].as_array().into_iter().flatten().filter_map(|ip| ip["ip"].as_str());
    first.into_iter().chain(others).filter_map(|ip| ip.parse().ok())
}

/// The address, when it is one that packets are routed to: Go's `IP.IsGlobalUnicast`.
fn allowed(address: Option<IpAddr>) -> Result<IpAddr, Failure> {
    let routed = |address: &IpAddr| match address.to_canonical() {
        IpAddr::V4(four) => !four.is_link_local() && !four.is_broadcast(),
        IpAddr::V6(six) => !six.is_unicast_link_local(),
    };
    let global = |address: &IpAddr| {
        let own = address.to_canonical();
        !own.is_unspecified() && !own.is_loopback() && !own.is_multicast() && routed(address)
    };
    address.filter(global).ok_or_else(|| Status::bad_request("address not allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_port_and_a_scheme() {
        let named = |text| Named::parse(text).map(|Named { scheme, name, port }| (scheme, name, port));
        assert_eq!(named("web"), Some(("", "web", "")));
        assert_eq!(named("web:http"), Some(("", "web", "http")));
        assert_eq!(named("https:web:443"), Some(("https", "web", "443")));
        assert_eq!(named("https:web:"), Some(("https", "web", "")));
        for wrong in ["", ":80", "ftp:web:21", "a:b:c:d", "HTTPS:web:1"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
        let number = |text| Named::parse(text).unwrap().number();
        assert_eq!(
            (number("web"), number("https:web:"), number("web:8080")),
            (Some(80), Some(443), Some(8080))
        );
        assert_eq!((number("web:0"), number("web:http")), (None, None));
    }

    #[test]
    fn only_addresses_that_are_routed_are_asked() {
        for good in ["10.0.0.1", "192.168.0.1", "2001:db8::1", "fd00::1"] {
            assert!(allowed(good.parse().ok()).is_ok(), "{good}");
        }
        for bad in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "",
        ] {
            assert_eq!(allowed(bad.parse().ok()).unwrap_err().message, "address not allowed", "{bad}");
        }
    }
}
