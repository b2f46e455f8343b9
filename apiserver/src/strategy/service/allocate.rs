//! Free addresses and node ports: what the Service asks for, or a random one; the store decides who was first.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;
use litek8s_store::{Claim, View};
use serde_json::{Value, json};

use super::{IP_SPACE, PORT_SPACE, addresses as taken_by, has_node_ports, is_headless, kind, protocol};
use crate::endpoints::metadata;
use crate::response::Failure;
use crate::strategy::{WriteContext, service_cidr};

/// The node ports that are given out.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// How many random places are tried before the range is searched in order.
const GUESSES: usize = 64;

/// Fills in `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.
pub(super) fn addresses(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    if kind(object) == "ExternalName" {
        return Ok(());
    }
    let ranges = service_cidr::ranges(&cx.api.service_cidrs, cx.view);
    let networks = networks(&ranges, object)?;
    let families: Vec<&str> = networks.iter().map(family).collect();
    let policy = object["spec"]["ipFamilyPolicy"].as_str().unwrap_or("SingleStack").to_owned();
    let spec_is_headless = is_headless(object);
    let mut ips: Vec<String> = Vec::new();
    if spec_is_headless {
        ips.push("None".to_owned());
    } else {
        let given: Vec<String> = taken_by(object).into_iter().map(str::to_owned).collect();
        for (at, network) in networks.iter().enumerate() {
            match given.get(at) {
                Some(ip) => ips.push(check_given(cx, object, &alike(&ranges, network), ip)?),
                None => ips.push(free_address(cx, object, &alike(&ranges, network))?),
            }
        }
    }
    let spec = metadata::object(object, "spec");
    spec["clusterIP"] = Value::from(ips.first().map(String::as_str).unwrap_or_default());
    spec["clusterIPs"] = json!(ips);
    spec["ipFamilies"] = json!(families);
    spec["ipFamilyPolicy"] = Value::from(policy);
    Ok(())
}

/// The networks the Service gets an address from, in order.
fn networks(all: &[IpNet], object: &Value) -> Result<Vec<IpNet>, Failure> {
    let spec = &object["spec"];
    let wanted: Vec<&str> =
        spec["ipFamilies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let dual = matches!(spec["ipFamilyPolicy"].as_str(), Some("PreferDualStack" | "RequireDualStack"));
    let mut chosen: Vec<IpNet> = Vec::new();
    for (at, name) in wanted.iter().enumerate() {
        match all.iter().find(|net| family(net) == *name) {
            Some(net) => chosen.push(*net),
            None => {
                let detail = "not configured on this cluster";
                return Err(refuse(
                    object,
                    FieldError::invalid(format!("spec.ipFamilies[{at}]"), *name, detail),
                ));
            }
        }
    }
    for ip in taken_by(object).into_iter().skip(chosen.len()) {
        let parsed: Option<IpAddr> = ip.parse().ok();
        chosen.extend(all.iter().find(|net| parsed.is_some_and(|p| p.is_ipv4() == net.addr().is_ipv4())));
    }
    if chosen.is_empty() {
        chosen.extend(all.first());
    }
    if dual && chosen.len() < 2 {
        let other = all.iter().find(|net| !chosen.iter().any(|c| family(c) == family(net)));
        chosen.extend(other);
    }
    if spec["ipFamilyPolicy"] == "RequireDualStack" && chosen.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        return Err(refuse(object, FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", detail)));
    }
    Ok(chosen)
}

/// The ranges of the family that a Service has an address of.
fn alike(all: &[IpNet], like: &IpNet) -> Vec<IpNet> {
    all.iter().filter(|range| family(range) == family(like)).copied().collect()
}

fn family(network: &IpNet) -> &'static str {
    if network.addr().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// An address that the Service names: in the range, and free or its own.
fn check_given(
    cx: &WriteContext<'_>,
    object: &Value,
    ranges: &[IpNet],
    text: &str,
) -> Result<String, Failure> {
    let wrong =
        |detail: String| refuse(object, FieldError::invalid("spec.clusterIPs", json!([text]), detail));
    let Ok(ip) = text.parse::<IpAddr>() else {
        return Err(wrong("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()));
    };
    if !ranges.iter().any(|range| range.contains(&ip)) {
        let valid = listed(ranges);
        return Err(wrong(format!(
            "failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. The range of valid IPs is {valid}"
        )));
    }
    if !is_own(cx, object, &Claim::new(IP_SPACE, &ip.to_string())) {
        return Err(wrong(format!("failed to allocate IP {ip}: provided IP is already allocated")));
    }
    Ok(ip.to_string())
}

fn free_address(cx: &WriteContext<'_>, object: &Value, ranges: &[IpNet]) -> Result<String, Failure> {
    match ranges.iter().find_map(|range| free_in(cx.view, range)) {
        Some(ip) => Ok(ip.to_string()),
        None => {
            let detail = format!("failed to allocate a serviceIP: range {} is full", listed(ranges));
            Err(refuse(object, FieldError::invalid("spec.clusterIPs", json!([]), detail)))
        }
    }
}

fn listed(ranges: &[IpNet]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn free_in(view: &View, network: &IpNet) -> Option<IpAddr> {
    let bits = u32::from(network.max_prefix_len() - network.prefix_len()).min(64);
    let hosts: u128 = 1_u128 << bits;
    let start = network.network();
    // The first address is the network's, the last of IPv4 its broadcast.
    let last = if start.is_ipv4() { hosts.saturating_sub(2) } else { hosts.saturating_sub(1) };
    let at = |offset: u128| nth(start, offset);
    let free = |ip: &IpAddr| view.claim_holder(&Claim::new(IP_SPACE, &ip.to_string())).is_none();
    let span = Some(last).filter(|last| *last > 0)?;
    let guess = (0..GUESSES).map(|_| at(1 + uuid::Uuid::new_v4().as_u128() % span)).find(|ip| free(ip));
    guess.or_else(|| (1..=last.min(1 << 20)).map(at).find(|ip| free(ip)))
}

fn nth(start: IpAddr, offset: u128) -> IpAddr {
    match start {
        IpAddr::V4(ip) => {
            IpAddr::from((u32::from(ip).wrapping_add(u32::try_from(offset).unwrap_or(0))).to_be_bytes())
        }
        IpAddr::V6(ip) => IpAddr::from(u128::from(ip).wrapping_add(offset).to_be_bytes()),
    }
}

/// Fills in the node ports of a published Service.
pub(super) fn ports(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    let health = kind(object) == "LoadBalancer" && object["spec"]["externalTrafficPolicy"] == "Local";
    if health && object["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        let port = free_port(cx.view, &BTreeSet::new(), "TCP").ok_or_else(|| range_full(object))?;
        object["spec"]["healthCheckNodePort"] = Value::from(port);
    }
    if !has_node_ports(object) {
        return Ok(());
    }
    let list = object["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let mut ours: BTreeSet<(String, u16)> = BTreeSet::new();
    for (at, port) in list.iter().enumerate() {
        let Some(number) = port["nodePort"].as_u64().filter(|n| *n > 0) else { continue };
        let wrong = |detail: &str| {
            refuse(object, FieldError::invalid(format!("spec.ports[{at}].nodePort"), number, detail))
        };
        let number = u16::try_from(number).ok().filter(|n| NODE_PORTS.contains(n)).ok_or_else(|| {
            wrong("provided port is not in the valid range. The range of valid ports is 30000-32767")
        })?;
        if !is_own(cx, object, &Claim::new(PORT_SPACE, &format!("{}/{number}", protocol(port)))) {
            return Err(wrong("provided port is already allocated"));
        }
        ours.insert((protocol(port).to_owned(), number));
    }
    for at in 0..list.len() {
        let port = &object["spec"]["ports"][at];
        if port["nodePort"].as_u64().unwrap_or(0) > 0 {
            continue;
        }
        let protocol = protocol(port).to_owned();
        let number = free_port(cx.view, &ours, &protocol).ok_or_else(|| range_full(object))?;
        ours.insert((protocol, number));
        object["spec"]["ports"][at]["nodePort"] = Value::from(number);
    }
    Ok(())
}

/// The claims on node ports; a Service that is not published has none, whatever it names.
pub(super) fn port_claims(object: &Value) -> Vec<Claim> {
    if !matches!(kind(object), "NodePort" | "LoadBalancer") {
        return Vec::new();
    }
    let spec = &object["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    let mut claims: Vec<Claim> = ports
        .filter_map(|port| {
            let number = port["nodePort"].as_u64().filter(|n| *n > 0)?;
            Some(Claim::new(PORT_SPACE, &format!("{}/{number}", protocol(port))))
        })
        .collect();
    if let Some(health) = spec["healthCheckNodePort"].as_u64().filter(|n| *n > 0) {
        claims.push(Claim::new(PORT_SPACE, &format!("TCP/{health}")));
    }
    claims
}

fn free_port(view: &View, ours: &BTreeSet<(String, u16)>, protocol: &str) -> Option<u16> {
    let free = |port: &u16| {
        !ours.iter().any(|(p, n)| p == protocol && n == port)
            && view.claim_holder(&Claim::new(PORT_SPACE, &format!("{protocol}/{port}"))).is_none()
    };
    let span = u128::from(NODE_PORTS.end() - NODE_PORTS.start()) + 1;
    let guess = |_| NODE_PORTS.start() + u16::try_from(uuid::Uuid::new_v4().as_u128() % span).unwrap_or(0);
    (0..GUESSES).map(guess).find(free).or_else(|| NODE_PORTS.into_iter().find(free))
}

/// Whether nobody, or this Service, holds the claim.
fn is_own(cx: &WriteContext<'_>, object: &Value, claim: &Claim) -> bool {
    cx.view.claim_holder(claim).is_none_or(|holder| {
        *holder.resource.resource == *"services"
            && *holder.namespace == *cx.namespace
            && *holder.name == *metadata::text(object, "name")
            && holder.resource.group.is_empty()
    })
}

fn range_full(object: &Value) -> Failure {
    refuse(
        object,
        FieldError::invalid("spec.ports[0].nodePort", 0, "failed to allocate a nodePort: range is full"),
    )
}

fn refuse(object: &Value, error: FieldError) -> Failure {
    Status::invalid(&GroupKind::new("", "Service"), metadata::text(object, "name"), &[error])
}
