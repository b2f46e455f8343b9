//! EndpointSlices for Endpoints that somebody writes by hand for a Service without a selector, so that whoever reads only
//! slices sees them. As kube-controller-manager's endpointslicemirroring controller.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::endpoint_slice::key;
use super::endpoints::{Entry, repack};
use super::facts::Facts;
use super::kind::Kind;
use super::read;
use super::service::{self, Family, MANAGED_BY, NAME_LABEL, TRIGGER_TIME, has_selector};
use super::subject::Subject;
use crate::endpoints::metadata;

/// Who looks after these slices.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label of Endpoints that are not to be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are a lock and no endpoints.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that say something of the Endpoints alone.
const KEPT: [&str; 2] = [TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];
/// The most addresses of a subset that are mirrored.
const MOST: usize = 1000;

/// The endpoints of one family at the same ports.
type Groups = BTreeMap<(Family, String), (Vec<Value>, Vec<Value>)>;

/// What is to be done about the mirror of Endpoints.
pub(super) fn decide(facts: &Facts<'_>, subject: &Subject, object: Option<&Arc<Object>>) -> Decision {
    let place = (&*subject.namespace, &*subject.name);
    let stored = service::slices_of(facts, place, CONTROLLER);
    let service = facts.view.get(&Kind::Service.key(place.0, place.1)).and_then(|object| read::value(object));
    let by_hand = service.is_some_and(|service| !has_selector(&service));
    let value = object.filter(|_| by_hand).and_then(|object| Some((object, read::value(object)?)));
    let Some((object, value)) = value.filter(|(_, value)| is_mirrored(value)) else {
        return deleted(&stored).into();
    };
    let mut groups = groups(&value);
    let (labels, annotations) = described(object, &value);
    let mut update = Vec::new();
    let mut spare = Vec::new();
    for slice in stored {
        let Some(mut mirror) = read::value(slice) else { continue };
        let family = [Family::V4, Family::V6].into_iter().find(|f| mirror["addressType"] == f.name());
        let ports = key(read::list(&mirror["ports"]));
        let Some((_, endpoints)) = family.and_then(|family| groups.remove(&(family, ports))) else {
            spare.push(slice);
            continue;
        };
        let endpoints = Value::Array(endpoints);
        let same = mirror["endpoints"] == endpoints
            && slice.meta.labels == labels
            && read::texts(&mirror["metadata"]["annotations"]) == annotations
            && slice.meta.controller().is_some_and(|owner| owner.uid == object.meta.uid);
        if !same {
            mirror["endpoints"] = endpoints;
            describe(&mut mirror, object, &labels, &annotations);
            update.push(Action::update(Kind::EndpointSlice, mirror));
        }
    }
    let mut actions = Vec::new();
    if !object.meta.is_terminating() {
        for ((family, _), (ports, endpoints)) in groups {
            let mut mirror = json!({
                "metadata": {"generateName": format!("{}-", place.1), "namespace": place.0},
                "addressType": family.name(), "ports": ports, "endpoints": endpoints,
            });
            describe(&mut mirror, object, &labels, &annotations);
            actions.push(Action::create(Kind::EndpointSlice, mirror));
        }
    }
    actions.extend(update);
    actions.extend(deleted(&spare));
    actions.into()
}

fn is_mirrored(endpoints: &Value) -> bool {
    let meta = &endpoints["metadata"];
    meta["labels"][SKIP] != "true" && meta["annotations"][LEADER].is_null()
}

fn deleted(slices: &[&Arc<Object>]) -> Vec<Action> {
    slices.iter().map(|slice| Action::delete(Kind::EndpointSlice, slice)).collect()
}

/// What the Endpoints say of themselves, for their slices.
fn described(object: &Object, value: &Value) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let mut labels = object.meta.labels.clone();
    labels.insert(NAME_LABEL.to_owned(), object.key.name.to_string());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let mut annotations = read::texts(&value["metadata"]["annotations"]);
    annotations.retain(|name, _| !KEPT.contains(&name.as_str()));
    (labels, annotations)
}

fn describe(
    slice: &mut Value,
    endpoints: &Arc<Object>,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) {
    metadata::set(slice, "labels", Some(json!(labels)));
    metadata::set(slice, "annotations", (!annotations.is_empty()).then(|| json!(annotations)));
    metadata::set(slice, "ownerReferences", Some(json!([Kind::Endpoints.controls(endpoints)])));
}

/// The endpoints by family and ports; what is no address is left out.
fn groups(endpoints: &Value) -> Groups {
    let mut entries = Vec::new();
    for subset in read::list(&endpoints["subsets"]) {
        for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in read::list(&subset[list]) {
                let ports = read::list(&subset["ports"]);
                let mut entry = |port: Option<&Value>| {
                    entries.push(Entry { address: address.clone(), ready, port: port.cloned() });
                };
                if ports.is_empty() {
                    entry(None);
                }
                ports.iter().for_each(|port| entry(Some(port)));
            }
        }
    }
    let mut groups = Groups::new();
    for subset in repack(entries) {
        let ports: Vec<Value> = read::list(&subset["ports"]).iter().map(port).collect();
        let listed =
            [("addresses", true), ("notReadyAddresses", false)].into_iter().flat_map(|(list, ready)| {
                read::list(&subset[list]).iter().filter_map(move |address| endpoint(address, ready))
            });
        for (family, endpoint) in listed.take(MOST) {
            let group = groups.entry((family, key(&ports))).or_insert_with(|| (ports.clone(), Vec::new()));
            group.1.push(endpoint);
        }
    }
    groups
}

fn port(given: &Value) -> Value {
    let protocol = given["protocol"].as_str().unwrap_or("TCP");
    let mut port = json!({"name": read::text(&given["name"]), "port": given["port"], "protocol": protocol});
    if given["appProtocol"].is_string() {
        port["appProtocol"] = given["appProtocol"].clone();
    }
    port
}

fn endpoint(address: &Value, ready: bool) -> Option<(Family, Value)> {
    let ip: IpAddr = read::text(&address["ip"]).parse().ok()?;
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    for field in ["targetRef", "nodeName", "hostname"] {
        if !address[field].is_null() && address[field] != "" {
            endpoint[field] = address[field].clone();
        }
    }
    Some((Family::of(ip), endpoint))
}

#[cfg(test)]
mod tests;
