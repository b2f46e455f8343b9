//! A VipAddress as the plan knows it, or why it cannot be used. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use litek8s_crds::{VipAddress, VipAddressPhase, names};
use litek8s_plan::{Mac, Vip};

/// Why a VipAddress is not part of the plan: a condition's reason and message.
pub(crate) type Unusable = (&'static str, String);

/// `namespace/name`.
pub(crate) fn key_of(address: &VipAddress) -> String {
    let metadata = &address.metadata;
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

/// Whether it is being deleted and waits for its node to let go.
pub(crate) fn waits(address: &VipAddress) -> bool {
    let metadata = &address.metadata;
    let held = metadata.finalizers.iter().flatten().any(|name| name == names::FINALIZER_RELEASE);
    held && metadata.deletion_timestamp.is_some()
}

/// What the plan needs of a VipAddress.
pub(crate) fn read(address: &VipAddress) -> Result<Vip, Unusable> {
    let status = address.status.as_ref();
    match status.and_then(|status| status.phase) {
        Some(VipAddressPhase::Pending) => {
            return Err(("Pending", "the node that held it before still has it".to_owned()));
        }
        Some(VipAddressPhase::Releasing) => {
            return Err(("Releasing", "it is handed over to another node".to_owned()));
        }
        Some(VipAddressPhase::Active) | None => {}
    }
    let spec = &address.spec;
    let virtual_cidr: IpNet = parse("virtualCIDR", &spec.virtual_cidr)?;
    let gateway: IpAddr = parse("gatewayIP", &spec.gateway_ip)?;
    let source_cidrs: Result<Vec<IpNet>, Unusable> =
        spec.source_cidrs.iter().map(|text| parse("sourceCIDRs", text)).collect();
    let endpoints: BTreeSet<IpAddr> = status
        .map(|status| status.endpoints.as_slice())
        .unwrap_or_default()
        .iter()
        .filter_map(|endpoint| endpoint.address.parse().ok())
        .collect();
    Ok(Vip {
        name: key_of(address),
        index: spec.index,
        interface: spec.interface.clone(),
        virtual_cidr,
        gateway: Some(gateway),
        source_cidrs: source_cidrs?,
        mark: spec.firewall_mark,
        table: spec.route_table,
        priority: spec.routing_priority,
        endpoints: if spec.egress_enabled { endpoints } else { BTreeSet::new() },
    })
}

/// A hardware address as `ip link` writes it.
pub(crate) fn read_mac(text: &str) -> Option<Mac> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

fn parse<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, Unusable> {
    text.parse().map_err(|_| ("InvalidAddress", format!("{field}: {text} is no address or network")))
}
