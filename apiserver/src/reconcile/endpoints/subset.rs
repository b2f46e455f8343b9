//! The form of Endpoints that every writer arrives at: addresses with the same ports together, everything sorted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::endpoint_slice::key;
use super::super::read::text;

/// One address at one port, or at none.
pub(in crate::reconcile) struct Entry {
    pub(in crate::reconcile) address: Value,
    pub(in crate::reconcile) ready: bool,
    pub(in crate::reconcile) port: Option<Value>,
}

/// An address and the uid of what is behind it: two pods of one node may share the node's.
type Host = (String, String);

/// The subsets of these entries. An address that is ready and not ready at one port is not ready.
pub(in crate::reconcile) fn repack(entries: Vec<Entry>) -> Vec<Value> {
    let mut addresses: BTreeMap<Host, Value> = BTreeMap::new();
    let mut by_port: BTreeMap<String, (Option<Value>, BTreeMap<Host, bool>)> = BTreeMap::new();
    for Entry { address, ready, port } in entries {
        let host = (text(&address["ip"]).to_owned(), text(&address["targetRef"]["uid"]).to_owned());
        addresses.entry(host.clone()).or_insert(address);
        let name = port.as_ref().map_or_else(String::new, |port| key(std::slice::from_ref(port)));
        let (_, hosts) = by_port.entry(name).or_insert((port, BTreeMap::new()));
        *hosts.entry(host).or_insert(true) &= ready;
    }
    let mut by_hosts: BTreeMap<Vec<(Host, bool)>, Vec<Value>> = BTreeMap::new();
    for (port, hosts) in by_port.into_values() {
        by_hosts.entry(hosts.into_iter().collect()).or_default().extend(port);
    }
    let subset = |(hosts, ports): (Vec<(Host, bool)>, Vec<Value>)| {
        let list = |wanted: bool| -> Vec<&Value> {
            let chosen = hosts.iter().filter(|(_, ready)| *ready == wanted);
            chosen.filter_map(|(host, _)| addresses.get(host)).collect()
        };
        let mut subset = json!({});
        for (field, list) in [("addresses", list(true)), ("notReadyAddresses", list(false))] {
            if !list.is_empty() {
                subset[field] = json!(list);
            }
        }
        if !ports.is_empty() {
            subset["ports"] = Value::Array(ports);
        }
        subset
    };
    by_hosts.into_iter().map(subset).collect()
}
