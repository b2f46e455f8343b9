//! What is wrong with a Service beyond its schema and the table of rules.

use std::net::IpAddr;

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::{is_headless, kind};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Everything wrong with the Service, or with the change from `old`.
pub(super) fn service(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    if !TYPES.contains(&kind(object)) {
        errors.push(FieldError::not_supported("spec.type", kind(object), TYPES));
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    if ports.is_empty() && !is_headless(object) && kind(object) != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (at, port) in ports.iter().enumerate() {
        if kind(object) == "ClusterIP" && port["nodePort"].as_u64().unwrap_or(0) > 0 {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("spec.ports[{at}].nodePort"), why));
        }
    }
    if kind(object) == "ExternalName" {
        errors.extend(without_addresses(spec));
    }
    for (at, ip) in spec["externalIPs"].as_array().into_iter().flatten().enumerate() {
        let text = ip.as_str().unwrap_or_default();
        let path = format!("spec.externalIPs[{at}]");
        match text.parse::<IpAddr>() {
            Ok(parsed) => errors.extend(special(&path, text, parsed)),
            Err(_) => {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid(path, text, detail));
            }
        }
    }
    if !spec["loadBalancerClass"].is_null() && kind(object) != "LoadBalancer" {
        errors.push(FieldError::forbidden(
            "spec.loadBalancerClass",
            "may only be used when `type` is 'LoadBalancer'",
        ));
    }
    if let Some(old) = old {
        check_change(object, old, &mut errors);
    }
    errors
}

/// A name elsewhere has no addresses in the cluster.
fn without_addresses(spec: &Value) -> Vec<FieldError> {
    let given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let some = |field: &str| spec[field].as_array().is_some_and(|list| !list.is_empty());
    let fields = [
        ("clusterIPs", some("clusterIPs") || given(&spec["clusterIP"])),
        ("ipFamilies", some("ipFamilies")),
        ("ipFamilyPolicy", given(&spec["ipFamilyPolicy"])),
    ];
    let refused = fields.into_iter().filter(|(_, given)| *given);
    let why = "may not be set for ExternalName services";
    refused.map(|(field, _)| FieldError::forbidden(format!("spec.{field}"), why)).collect()
}

/// Addresses that can be nobody's.
fn special(path: &str, text: &str, ip: IpAddr) -> Option<FieldError> {
    let detail = match ip {
        _ if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
        _ if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        IpAddr::V4(v4) if v4.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        }
        IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80 => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        }
        IpAddr::V4(v4) if v4.octets()[..3] == [224, 0, 0] => {
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    Some(FieldError::invalid(path, text, detail))
}

fn check_change(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if kind(object) == "ExternalName" || kind(old) == "ExternalName" {
        return;
    }
    let (now, before) = (&object["spec"]["clusterIPs"], &old["spec"]["clusterIPs"]);
    if !before[0].is_null() && now[0] != before[0] {
        errors.push(FieldError::invalid("spec.clusterIPs[0]", now.clone(), "may not change once set"));
    }
    let class = "loadBalancerClass";
    let both = kind(object) == "LoadBalancer" && kind(old) == "LoadBalancer";
    if both && object["spec"][class] != old["spec"][class] {
        let detail = "may not change once set";
        errors.push(FieldError::invalid("spec.loadBalancerClass", object["spec"][class].clone(), detail));
    }
}
