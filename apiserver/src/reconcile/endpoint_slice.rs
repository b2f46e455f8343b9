//! EndpointSlices of Services that select pods: at most a hundred endpoints each, by family and by ports, and as few of
//! them changed as possible. As kube-controller-manager's endpointslice controller.

mod endpoint;
mod pack;

use std::collections::BTreeMap;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Decision};
use super::facts::Facts;
use super::kind::Kind;
use super::read;
use super::service::{self, Family, MANAGED_BY, NAME_LABEL, Service, TRIGGER_TIME};
use crate::endpoints::metadata;
use endpoint::{Identity, Wanted, endpoint, identity};
use pack::{Group, Packed, Slice};

/// Who looks after these slices.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The most endpoints of one slice.
const MOST: usize = 100;

/// The endpoints of one family by their ports.
type Groups = BTreeMap<String, Group>;

/// What is to be done about the slices of a Service.
pub(super) fn decide(facts: &Facts<'_>, object: &Arc<Object>) -> Decision {
    let Some(service) = Service::read(object) else { return Decision::nothing() };
    let place = (&*object.key.namespace, &*object.key.name);
    let stored = service::slices_of(facts, place, CONTROLLER);
    let is_new = stored.is_empty();
    let families = service.families();
    let mut slices: BTreeMap<Family, Vec<Slice<'_>>> = BTreeMap::new();
    let mut packed = Packed::default();
    for slice in stored {
        let Some(read) = Slice::read(slice) else { continue };
        let family = families.iter().find(|family| read.value["addressType"] == family.name());
        match family {
            Some(family) if is_owned(slice, object) => slices.entry(*family).or_default().push(read),
            // Of a family that the Service has no more, or of a Service of the same name that is gone.
            _ => packed.delete.push(slice.clone()),
        }
    }
    let pods = service.pods(facts);
    let labels = labels(&service);
    for family in families {
        let mut groups = Groups::new();
        for pod in &pods {
            let Some(wanted) = endpoint(facts, &service, pod, family) else { continue };
            let ports = service.ports(pod);
            let group = groups.entry(key(&ports)).or_insert_with(|| Group { ports, ..Group::default() });
            group.endpoints.insert(identity(&wanted.value), wanted);
        }
        packed.append(of_family(
            &service,
            family,
            slices.remove(&family).unwrap_or_default(),
            groups,
            &labels,
        ));
    }
    let trigger = if is_new { Some(service.created()) } else { packed.trigger.take() };
    finish(object, packed, trigger.as_deref())
}

/// The slices of one family; one without endpoints when there are none.
fn of_family(
    service: &Service<'_>,
    family: Family,
    slices: Vec<Slice<'_>>,
    groups: Groups,
    labels: &BTreeMap<String, String>,
) -> Packed {
    let mut by_ports: BTreeMap<String, Vec<Slice<'_>>> = BTreeMap::new();
    for slice in slices {
        by_ports.entry(key(read::list(&slice.value["ports"]))).or_default().push(slice);
    }
    let mut packed = Packed::default();
    let mut kept = 0;
    for (ports, group) in groups {
        let fresh = draft(service, family, labels, &group.ports);
        let slices = by_ports.remove(&ports).unwrap_or_default();
        let before = slices.len();
        let group = pack::pack(slices, group.endpoints, labels, &fresh);
        kept += before - group.delete.len() + group.create.len();
        packed.append(group);
    }
    let left: Vec<Slice<'_>> = by_ports.into_values().flatten().collect();
    let empty = left.iter().position(|slice| kept == 0 && slice.is_empty(labels));
    packed.delete.extend(
        left.iter().enumerate().filter(|(at, _)| Some(*at) != empty).map(|(_, slice)| slice.object.clone()),
    );
    if kept == 0 && empty.is_none() {
        packed.create.push(draft(service, family, labels, &[]));
    }
    packed.recycle();
    packed
}

/// The writes: what is new first, so that no endpoint is missing meanwhile.
fn finish(service: &Object, packed: Packed, trigger: Option<&str>) -> Decision {
    let told = |mut slice: Value| {
        let mut annotations = read::texts(&slice["metadata"]["annotations"]);
        match trigger {
            Some(time) => annotations.insert(TRIGGER_TIME.to_owned(), time.to_owned()),
            None => annotations.remove(TRIGGER_TIME),
        };
        metadata::set(&mut slice, "annotations", (!annotations.is_empty()).then(|| json!(annotations)));
        slice
    };
    // What is made for a Service that goes would only be collected again.
    let create = packed.create.into_iter().filter(|_| !service.meta.is_terminating());
    let mut actions: Vec<Action> =
        create.map(|slice| Action::create(Kind::EndpointSlice, told(slice))).collect();
    let update = packed.update.into_iter();
    actions.extend(update.map(|slice| Action::update(Kind::EndpointSlice, told(slice))));
    actions.extend(packed.delete.iter().map(|slice| Action::delete(Kind::EndpointSlice, slice)));
    actions.into()
}

fn is_owned(slice: &Object, service: &Object) -> bool {
    slice.meta.owners.iter().any(|owner| owner.uid == service.meta.uid)
}

/// The labels of a Service's slices.
fn labels(service: &Service<'_>) -> BTreeMap<String, String> {
    let mut labels = service.labels();
    labels.insert(NAME_LABEL.to_owned(), service.object.key.name.to_string());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    labels
}

/// A slice without endpoints.
fn draft(service: &Service<'_>, family: Family, labels: &BTreeMap<String, String>, ports: &[Value]) -> Value {
    let key = &service.object.key;
    json!({
        "metadata": {
            "generateName": format!("{}-", key.name), "namespace": &*key.namespace, "labels": labels,
            "ownerReferences": [Kind::Service.controls(service.object)],
        },
        "addressType": family.name(), "ports": ports, "endpoints": [],
    })
}

/// What makes two sets of ports the same, in whatever order.
pub(super) fn key(ports: &[Value]) -> String {
    let text = |port: &Value| {
        let field = |name: &str| read::text(&port[name]).to_owned();
        format!("{}/{}/{}/{}", field("name"), port["port"], field("protocol"), field("appProtocol"))
    };
    let mut texts: Vec<String> = ports.iter().map(text).collect();
    texts.sort();
    texts.join(" ")
}

#[cfg(test)]
pub(super) mod tests;
