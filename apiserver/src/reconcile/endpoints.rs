//! Endpoints of Services that select pods, for those who still read them. As kube-controller-manager's endpoints
//! controller: at most a thousand addresses, only the Service's first family.

mod subset;
mod truncate;

use std::collections::BTreeSet;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

pub(super) use subset::{Entry, repack};

use super::action::{Action, Decision};
use super::facts::Facts;
use super::kind::Kind;
use super::read;
use super::service::{Backend, Family, Service, TRIGGER_TIME};
use super::subject::Subject;
use crate::endpoints::metadata;

/// The label that says which controller looks after Endpoints, and its value for this one.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// The annotation of Endpoints that are not all of them.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Whether Endpoints were made here.
pub(super) fn is_ours(object: &Object) -> bool {
    object.meta.labels.get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
}

/// What is to be done about the Endpoints of a Service; they go with it.
pub(super) fn decide(facts: &Facts<'_>, subject: &Subject, object: Option<&Arc<Object>>) -> Decision {
    let stored = facts.view.get(&Kind::Endpoints.key(&subject.namespace, &subject.name));
    let Some(object) = object else {
        let gone = stored.filter(|endpoints| !endpoints.meta.is_terminating());
        return gone
            .map(|endpoints| Action::delete(Kind::Endpoints, endpoints))
            .into_iter()
            .collect::<Vec<_>>()
            .into();
    };
    let Some(service) = Service::read(object) else { return Decision::nothing() };
    let pods = service.pods(facts);
    let entries = pods.iter().flat_map(|pod| entries(&service, pod)).collect();
    let mut subsets = repack(entries);
    let truncated = truncate::truncate(&mut subsets);
    let mut labels = service.labels();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    let before = stored.and_then(|object| read::value(object));
    let mut value = before
        .clone()
        .unwrap_or_else(|| json!({"metadata": {"name": &*subject.name, "namespace": &*subject.namespace}}));
    let mut annotations = read::texts(&value["metadata"]["annotations"]);
    let said = annotations.get(OVER_CAPACITY).map(String::as_str);
    let wanted = truncated.then_some("truncated");
    let labelled = stored.is_some_and(|object| object.meta.labels == labels);
    if labelled && said == wanted && read::same(&value["subsets"], &Value::Array(subsets.clone())) {
        return Decision::nothing();
    }
    let trigger = match &before {
        Some(before) => trigger(&service, &pods, before),
        None => Some(service.created()),
    };
    for (name, text) in [(OVER_CAPACITY, wanted.map(str::to_owned)), (TRIGGER_TIME, trigger)] {
        match text {
            Some(text) => annotations.insert(name.to_owned(), text),
            None => annotations.remove(name),
        };
    }
    metadata::set(&mut value, "annotations", (!annotations.is_empty()).then(|| json!(annotations)));
    metadata::set(&mut value, "labels", Some(json!(labels)));
    value["subsets"] = Value::Array(subsets);
    match stored {
        Some(_) => vec![Action::update(Kind::Endpoints, value)].into(),
        None if object.meta.is_terminating() => Decision::nothing(),
        None => vec![Action::create(Kind::Endpoints, value)].into(),
    }
}

/// What a pod adds: its address at each of the Service's ports.
fn entries(service: &Service<'_>, pod: &Backend<'_>) -> Vec<Entry> {
    let unready = service.publishes_unready();
    if pod.object.meta.is_terminating() && !unready {
        return Vec::new();
    }
    let family = service.families().first().copied().unwrap_or(Family::V4);
    let Some(ip) = pod.addresses(family).into_iter().next() else { return Vec::new() };
    let mut address = json!({"ip": ip, "targetRef": pod.reference()});
    if !pod.node().is_empty() {
        address["nodeName"] = json!(pod.node());
    }
    if let Some(hostname) = pod.hostname(&service.object.key.name) {
        address["hostname"] = json!(hostname);
    }
    let ready = unready || pod.is_ready();
    if service.has_no_ports() {
        return vec![Entry { address, ready, port: None }];
    }
    let ports = service.ports(pod).into_iter();
    ports.map(|port| Entry { address: address.clone(), ready, port: Some(port) }).collect()
}

/// When the earliest of the changes happened that are to be told: of pods that are not told of as they are.
fn trigger(service: &Service<'_>, pods: &[Backend<'_>], before: &Value) -> Option<String> {
    let mut told = BTreeSet::new();
    for subset in read::list(&before["subsets"]) {
        for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            let addresses = read::list(&subset[list]).iter();
            told.extend(addresses.map(|address| (read::text(&address["targetRef"]["uid"]), ready)));
        }
    }
    let is_new = |pod: &&Backend<'_>| {
        let ready = service.publishes_unready() || pod.is_ready();
        !pod.object.meta.is_terminating() && !told.contains(&(pod.object.meta.uid.as_str(), ready))
    };
    pods.iter().filter(is_new).filter_map(Backend::since).min()
}

#[cfg(test)]
mod tests;
