//! Checks of ports and addresses.

use serde_json::Value;

use crate::field::{FieldError, Path};
use crate::resource::NameRule;
use crate::validate::{is_dns_label, name_errors};

pub(super) fn port(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Number(number) => {
            if !number.as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(path, value.clone(), detail));
            }
        }
        Value::String(name) => {
            let well = (1..=15).contains(&name.len())
                && is_dns_label(name)
                && !name.contains("--")
                && name.contains(|c: char| c.is_ascii_lowercase());
            let detail = if name.len() > 15 {
                "must be no more than 15 characters"
            } else {
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter (a-z)"
            };
            if !well {
                errors.push(FieldError::invalid(path, name.as_str(), detail));
            }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

pub(super) fn ports_named(ports: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = ports.as_array().map_or(&[][..], Vec::as_slice);
    for (at, port) in items.iter().enumerate().filter(|_| items.len() > 1) {
        let item = path.index(at);
        match port.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            None => errors.push(FieldError::required(item.child("name"), "")),
            Some(name) if !is_dns_label(name) => {
                errors.push(FieldError::invalid(item.child("name"), name, super::super::name::LABEL));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn ip_block(block: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let cidr = block.get("cidr").and_then(Value::as_str).unwrap_or("");
    if cidr.is_empty() {
        errors.push(FieldError::required(path.child("cidr"), ""));
        return;
    }
    if !super::super::format::matches("cidr", cidr) {
        errors.push(FieldError::invalid(path.child("cidr"), cidr, CIDR));
        return;
    }
    let list = path.child("except");
    for (at, except) in block.get("except").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let except = except.as_str().unwrap_or("");
        if !super::super::format::matches("cidr", except) {
            errors.push(FieldError::invalid(list.index(at), except, CIDR));
        } else if !strictly_within(except, cidr) {
            let detail = format!("must be a strict subset of `cidr`: {}", crate::field::quote(cidr));
            errors.push(FieldError::invalid(list.index(at), except, detail));
        }
    }
}

/// Whether one range of addresses is a smaller part of another.
fn strictly_within(inner: &str, outer: &str) -> bool {
    let parse = |text: &str| -> Option<(bool, u128, u32)> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        Some(match address.parse().ok()? {
            std::net::IpAddr::V4(address) => (true, u128::from(address.to_bits()) << 96, length),
            std::net::IpAddr::V6(address) => (false, address.to_bits(), length),
        })
    };
    let (Some((v4, address, length)), Some((outer_v4, network, outer_length))) = (parse(inner), parse(outer))
    else {
        return false;
    };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(outer_length)).unwrap_or(0);
    v4 == outer_v4 && length > outer_length && address & mask == network & mask
}

pub(super) fn service_cidrs(list: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let ranges: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match ranges.as_slice() {
        [] | [_] | [_, _] => {}
        _ => return errors.push(FieldError::invalid(path, list.clone(), "may only hold up to 2 values")),
    }
    for (at, range) in ranges.iter().enumerate() {
        if !super::super::format::matches("cidr", range) {
            errors.push(FieldError::invalid(path.index(at), *range, CIDR));
        }
    }
    if let [first, second] = ranges.as_slice()
        && first.contains(':') == second.contains(':')
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, list.clone(), detail));
    }
}

pub(super) fn slice_addresses(slice: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let of_names = slice.get("addressType").and_then(Value::as_str) == Some("FQDN");
    let list = path.child("endpoints");
    for (at, endpoint) in slice.get("endpoints").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let endpoint_path = list.index(at);
        let addresses = endpoint_path.child("addresses");
        for (at, address) in
            endpoint.get("addresses").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let address = address.as_str().unwrap_or("");
            if !of_names && address.parse::<std::net::IpAddr>().is_err() {
                errors.push(FieldError::invalid(addresses.index(at), address, IP));
            }
        }
    }
}

pub(super) fn ingress_host(host: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let host = host.as_str().unwrap_or("");
    let name = host.strip_prefix("*.").unwrap_or(host);
    for detail in name_errors(NameRule::Subdomain, name, false).into_iter().filter(|_| !host.is_empty()) {
        errors.push(FieldError::invalid(path, host, detail));
    }
}

pub(super) fn absolute_path(value: &Value, rule: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = rule.get("pathType").and_then(Value::as_str).unwrap_or("");
    let text = value.get("path").and_then(Value::as_str).unwrap_or("");
    let needed = matches!(kind, "Exact" | "Prefix") || !text.is_empty();
    if needed && !text.starts_with('/') {
        errors.push(FieldError::invalid(path.child("path"), text, "must be an absolute path"));
    }
}

pub(super) fn backend_port(service: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let port = service.get("port");
    let named =
        port.and_then(|port| port.get("name")).and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let number = port.and_then(|port| port.get("number")).and_then(Value::as_i64).unwrap_or(0);
    if !named && number == 0 {
        errors.push(FieldError::required(path.child("port"), "port name or number is required"));
    }
}

pub(in crate::validate) const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
