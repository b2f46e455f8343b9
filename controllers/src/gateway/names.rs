//! Names of VipRoutes.

use litek8s_crds::VipRouteSpec;
use sha2::{Digest, Sha256};

/// The longest name of an object.
const LONGEST: usize = 253;
/// How many bytes of the hash are in a name.
const HASH_BYTES: usize = 8;

/// `{pod}-{gateway}-{hash of all it says}`. `a-b` of `c` and `a` of `b-c`, pods of one name in two namespaces and a pod
/// that comes back with another address have names of their own, so what is new is made before what is old is deleted.
pub(crate) fn route(spec: &VipRouteSpec) -> String {
    let VipRouteSpec { gateway, pod, pod_ip, node, destination_cidr, route_table, routing_priority } = spec;
    let (table, priority) = (route_table.to_string(), routing_priority.to_string());
    let parts = [&pod.namespace, &pod.name, gateway, pod_ip, node, destination_cidr, &table, &priority];
    let digest = Sha256::digest(parts.map(String::as_str).join("\n"));
    let hash: String = digest.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = format!("{}-{gateway}", pod.name).chars().take(LONGEST - 2 * HASH_BYTES - 1).collect();
    format!("{}-{hash}", kept.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use litek8s_crds::VipRoutePod;

    use super::*;

    fn named(namespace: &str, pod: &str, gateway: &str, ip: &str) -> String {
        route(&VipRouteSpec {
            gateway: gateway.into(),
            pod: VipRoutePod { namespace: namespace.into(), name: pod.into() },
            pod_ip: ip.into(),
            node: "n".into(),
            destination_cidr: "172.30.0.0/16".into(),
            route_table: 200,
            routing_priority: 100,
        })
    }

    #[test]
    fn names_never_collide_and_always_fit() {
        let one = named("x", "a-b", "c", "10.42.0.5");
        assert!(one.starts_with("a-b-c-"), "{one}");
        assert_eq!(one, named("x", "a-b", "c", "10.42.0.5"));
        for other in [
            named("x", "a", "b-c", "10.42.0.5"),
            named("y", "a-b", "c", "10.42.0.5"),
            named("x", "a-b", "c", "10.42.0.6"),
        ] {
            assert_ne!(one, other);
        }
        let long = named("x", &"p".repeat(253), &"g".repeat(253), "10.42.0.5");
        assert!(long.len() <= 253, "{}", long.len());
        assert_ne!(long, named("x", &"p".repeat(253), &format!("{}h", "g".repeat(252)), "10.42.0.5"));
    }
}
