//! The signers that this server is: what each of them puts its name to, as a table of demands.

use std::time::Duration;

use litek8s_daemon::pki::{Leaf, Usage};
use serde_json::Value;

use super::asked::Asked;
use crate::request::{NODE_USER_PREFIX, NODES};

/// Clients of the API.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Nodes as clients of the API.
pub(super) const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Nodes as servers.
pub(super) const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The longest life of a certificate, and the one of a request that asks for none.
const LONGEST: u64 = 365 * 24 * 60 * 60;

/// Whether this server signs for `name`.
pub(super) fn is_ours(name: &str) -> bool {
    matches!(name, CLIENT | NODE_CLIENT | NODE_SERVING)
}

/// What the certificate for this request says, or why there will be none.
pub(super) fn leaf(spec: &Value, asked: &Asked) -> Result<Leaf, String> {
    let signer = spec["signerName"].as_str().unwrap_or_default();
    let usage = if signer == NODE_SERVING { Usage::Server } else { Usage::Client };
    check_usages(spec, signer, usage)?;
    if signer != CLIENT {
        check_node_subject(asked)?;
    }
    if signer == NODE_CLIENT
        && (asked.other_names || !asked.hostnames.is_empty() || !asked.addresses.is_empty())
    {
        return Err("subjectAltNames are not allowed".to_owned());
    }
    if signer == NODE_SERVING {
        if asked.other_names {
            return Err("only DNS and IP subjectAltNames are allowed".to_owned());
        }
        if asked.hostnames.is_empty() && asked.addresses.is_empty() {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
    }
    let wanted = spec["expirationSeconds"].as_u64().unwrap_or(LONGEST);
    let server = usage == Usage::Server;
    Ok(Leaf {
        common_name: asked.common_name.clone(),
        organizations: asked.organizations.clone(),
        hostnames: if server { asked.hostnames.clone() } else { Vec::new() },
        addresses: if server { asked.addresses.clone() } else { Vec::new() },
        usage,
        life: Duration::from_secs(wanted.min(LONGEST)),
    })
}

/// A node's subject: its user name and the nodes' group, and nothing else.
pub(super) fn check_node_subject(asked: &Asked) -> Result<(), String> {
    if asked.organizations != [NODES] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    match asked.common_name.strip_prefix(NODE_USER_PREFIX) {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

fn check_usages(spec: &Value, signer: &str, usage: Usage) -> Result<(), String> {
    let needed = if usage == Usage::Server { "server auth" } else { "client auth" };
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let allowed =
        |usage: &&str| matches!(*usage, "digital signature" | "key encipherment") || *usage == needed;
    let whole = signer == CLIENT || usages.contains(&"digital signature");
    if usages.contains(&needed) && usages.iter().all(allowed) && whole {
        return Ok(());
    }
    Err(format!("usages {usages:?} are not those of {signer}"))
}
