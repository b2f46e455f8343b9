//! The end of a ServiceCIDR: it stays while a Service has an address that no other range holds.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use litek8s_store::{Command, Event, GroupResource, Object, ObjectKey, View};
use serde_json::Value;

use super::decide::Facts;
use super::edit;
use crate::endpoints::metadata;
use crate::extensions::{Condition, set_condition};
use crate::strategy::{IP_SPACE, service_cidr};

fn resource() -> GroupResource {
    GroupResource::new("networking.k8s.io", "servicecidrs")
}

/// The ranges that a change may let go: all that end, when a range or the address of a Service is another one.
pub(super) fn of_event<'a>(view: &'a View, event: &Event) -> impl Iterator<Item = Arc<str>> + use<'a> {
    let states = event.previous.iter().map(|previous| &**previous).chain([&*event.object]);
    let concerned = event.object.key.resource == resource()
        || states.into_iter().any(|object| object.claims.iter().any(|claim| *claim.space == *IP_SPACE));
    concerned.then(|| terminating(view)).into_iter().flatten()
}

/// A range that is there, if it ends.
pub(super) fn of_object(object: &Object) -> Option<Arc<str>> {
    let ends = object.key.resource == resource() && object.meta.is_terminating();
    ends.then(|| object.key.name.clone())
}

fn terminating(view: &View) -> Vec<Arc<str>> {
    view.list(&resource(), None).filter_map(|object| of_object(object)).collect()
}

/// What is to be done about a range.
pub(super) fn decide(facts: &Facts<'_>, name: &str) -> Vec<Command> {
    let Some(object) = facts.view.get(&ObjectKey::new(resource(), "", name)) else { return Vec::new() };
    let finalizers = &object.meta.finalizers;
    if !object.meta.is_terminating() || !finalizers.iter().any(|f| f == service_cidr::FINALIZER) {
        return Vec::new();
    }
    let Some(mut value) = edit::value(object) else { return Vec::new() };
    if is_needed(facts, &value) {
        let condition = Condition {
            ty: "Ready",
            holds: false,
            reason: "Terminating",
            message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new \
                      ServiceCIDR",
        };
        set_condition(&mut value, &condition, &metadata::time(facts.now));
        return edit::update(object, &value).into_iter().collect();
    }
    edit::drop_finalizer(&mut value, service_cidr::FINALIZER);
    edit::finish(object, &value, false).into_iter().collect()
}

/// Whether a Service has an address of this range that is in no other one.
fn is_needed(facts: &Facts<'_>, range: &Value) -> bool {
    let cidrs = range["spec"]["cidrs"].as_array().into_iter().flatten();
    let ours: Vec<IpNet> = cidrs.filter_map(|cidr| cidr.as_str()?.parse().ok()).collect();
    let others = service_cidr::ranges(facts.service_cidrs, facts.view);
    let holds = |ranges: &[IpNet], address: &IpAddr| ranges.iter().any(|range| range.contains(address));
    let services = facts.view.list(&GroupResource::new("", "services"), None);
    let claims = services.flat_map(|service| service.claims.iter()).filter(|claim| *claim.space == *IP_SPACE);
    let mut addresses = claims.filter_map(|claim| claim.value.parse().ok());
    addresses.any(|address| holds(&ours, &address) && !holds(&others, &address))
}

#[cfg(test)]
mod tests {
    use litek8s_store::{Claim, Precondition};
    use serde_json::json;

    use super::super::tests::World;
    use super::*;

    fn service(name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "services"), "default", name)
    }

    fn put(world: &mut World, name: &str, cidr: &str, deleting: bool) {
        let mut metadata = json!({"name": name, "uid": name, "finalizers": [service_cidr::FINALIZER]});
        if deleting {
            metadata["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": metadata, "spec": {"cidrs": [cidr]}});
        let (key, object) = (ObjectKey::new(resource(), "", name), object.to_string().into());
        let there = world.store.view().get(&key).is_some();
        world.propose(match there {
            true => {
                Command::Update { key, object, precondition: Precondition::default(), claims: Vec::new() }
            }
            false => Command::Create { key, object, claims: Vec::new() },
        });
        world.settle();
    }

    fn ready(world: &World, name: &str) -> Option<Value> {
        let key = ObjectKey::new(resource(), "", name);
        world
            .store
            .view()
            .get(&key)
            .map(|object| edit::value(object).unwrap()["status"]["conditions"][0].clone())
    }

    fn world_with_a_service() -> World {
        let mut world = World::new();
        put(&mut world, "more", "10.99.0.0/24", false);
        let object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "uid": "web"}});
        let claims = vec![Claim::new(IP_SPACE, "10.99.0.5")];
        world.propose(Command::Create { key: service("web"), object: object.to_string().into(), claims });
        world
    }

    #[test]
    fn a_range_stays_until_the_last_service_is_out_of_it() {
        let mut world = world_with_a_service();
        put(&mut world, "more", "10.99.0.0/24", true);
        let waiting = ready(&world, "more").unwrap();
        assert_eq!((&waiting["status"], &waiting["reason"]), (&json!("False"), &json!("Terminating")));
        world.propose(Command::Delete { key: service("web"), precondition: Precondition::default() });
        world.settle();
        assert_eq!(ready(&world, "more"), None);
    }

    #[test]
    fn a_range_goes_when_another_one_holds_its_addresses() {
        let mut world = world_with_a_service();
        put(&mut world, "more", "10.99.0.0/24", true);
        assert!(ready(&world, "more").is_some());
        put(&mut world, "wide", "10.99.0.0/16", false);
        assert_eq!(ready(&world, "more"), None);
    }
}
