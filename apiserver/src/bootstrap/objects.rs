//! The namespaces every cluster has, and the Service that leads to the API itself.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Merge, Wanted};
use crate::api::Api;
use crate::endpoints::metadata;
use crate::strategy::service_cidr;

/// The namespaces of every cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The port of the Service `kubernetes`.
const HTTPS: u16 = 443;

pub(super) fn namespaces() -> Vec<Wanted> {
    let namespace = |name: &str| Wanted {
        group: "",
        version: "v1",
        plural: "namespaces",
        object: json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }),
        merge: Merge::Keep,
    };
    NAMESPACES.into_iter().map(namespace).collect()
}

/// The ServiceCIDR that says which ranges the cluster was started with.
pub(super) fn service_cidr(api: &Api) -> Option<Wanted> {
    let cidrs: Vec<String> = api.service_cidrs.iter().map(ToString::to_string).collect();
    (!cidrs.is_empty()).then(|| Wanted {
        group: "networking.k8s.io",
        version: "v1",
        plural: "servicecidrs",
        object: json!({
            "metadata": {"name": "kubernetes", "finalizers": [service_cidr::FINALIZER]},
            "spec": {"cidrs": cidrs},
            "status": service_cidr::ready(&metadata::time(api.clock.now())),
        }),
        // Other ranges at a later start are not what is written here: the object stays, and the command line rules.
        merge: Merge::Keep,
    })
}

/// The address that a Service CIDR keeps for the API: its first.
pub fn api_service_address(cidr: &IpNet) -> Option<IpAddr> {
    cidr.hosts().next()
}

/// The Service `kubernetes` with its Endpoints and EndpointSlice.
pub(super) fn api_service(api: &Api, serving: SocketAddr) -> Vec<Wanted> {
    let Some(address) = api.service_cidrs.first().and_then(api_service_address) else { return Vec::new() };
    let family = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let port = json!({"name": "https", "port": serving.port(), "protocol": "TCP"});
    let metadata = |labels: Value| json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let service = json!({
        "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
        "spec": {
            "clusterIP": address,
            "clusterIPs": [address],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": [family(address)],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": HTTPS, "protocol": "TCP", "targetPort": serving.port()}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    });
    let endpoints = json!({
        "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
        "subsets": [{"addresses": [{"ip": serving.ip()}], "ports": [port]}],
    });
    let slice = json!({
        "metadata": metadata(json!({"kubernetes.io/service-name": "kubernetes"})),
        "addressType": family(serving.ip()),
        "endpoints": [{"addresses": [serving.ip()], "conditions": {"ready": true}}],
        "ports": [port],
    });
    let wanted = |group, plural, object, merge| Wanted { group, version: "v1", plural, object, merge };
    vec![
        wanted("", "services", service, Merge::Keep),
        wanted("", "endpoints", endpoints, Merge::Replace(&["subsets"])),
        wanted("discovery.k8s.io", "endpointslices", slice, Merge::Replace(&["endpoints", "ports"])),
    ]
}
