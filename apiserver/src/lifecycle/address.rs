//! IPAddresses: one for every cluster address that a Service holds, so that `kubectl get ipaddresses` says who has what.
//! They follow the claims of the store, which alone decide; nobody is given an address because of them.

use std::sync::Arc;

use bytes::Bytes;
use litek8s_store::{Claim, Command, GroupResource, Object, ObjectKey};
use serde_json::{Value, json};

use super::decide::Facts;
use super::edit;
use crate::endpoints::metadata;
use crate::strategy::IP_SPACE;

/// The label that says who looks after the object.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of that label, as kube-apiserver has it.
const ALLOCATOR: &str = "ipallocator.k8s.io";

fn key(address: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("networking.k8s.io", "ipaddresses"), "", address)
}

/// The addresses that a changed object tells something about.
pub(super) fn of_object(object: &Object) -> impl Iterator<Item = Arc<str>> {
    let key = &object.key;
    let itself = *key.resource.group == *"networking.k8s.io" && *key.resource.resource == *"ipaddresses";
    let held =
        object.claims.iter().filter(|claim| *claim.space == *IP_SPACE).map(|claim| claim.value.clone());
    held.chain(itself.then(|| key.name.clone()))
}

/// Makes the object of an address that is held, and removes one of ours that is not.
pub(super) fn decide(facts: &Facts<'_>, address: &str) -> Vec<Command> {
    let holder = facts.view.claim_holder(&Claim::new(IP_SPACE, address));
    let parent = holder.map(
        |service| json!({"resource": "services", "namespace": &*service.namespace, "name": &*service.name}),
    );
    let key = key(address);
    match (facts.view.get(&key), parent) {
        (None, Some(parent)) => vec![create(facts, key, address, &parent)],
        (Some(found), parent) if found.meta.labels.get(MANAGED_BY).is_some_and(|by| by == ALLOCATOR) => {
            let shown = edit::value(found).map(|value| value["spec"]["parentRef"].clone());
            if shown == parent { Vec::new() } else { vec![edit::delete(found)] }
        }
        (Some(_), _) | (None, None) => Vec::new(),
    }
}

fn create(facts: &Facts<'_>, key: ObjectKey, address: &str, parent: &Value) -> Command {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let object = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": {"ipaddress.kubernetes.io/ip-family": family, MANAGED_BY: ALLOCATOR},
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": metadata::time(facts.now),
        },
        "spec": {"parentRef": parent},
    });
    Command::Create { key, object: Bytes::from(object.to_string()), claims: Vec::new() }
}

#[cfg(test)]
mod tests {
    use litek8s_store::Precondition;

    use super::super::tests::World;
    use super::*;

    fn service(name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "services"), "default", name)
    }

    fn make(world: &mut World, name: &str, address: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}});
        let claims = vec![Claim::new(IP_SPACE, address)];
        world.propose(Command::Create { key: service(name), object: object.to_string().into(), claims });
        world.settle();
    }

    fn parent(world: &World, address: &str) -> Option<Value> {
        edit::value(world.store.view().get(&key(address))?).map(|value| value["spec"]["parentRef"].clone())
    }

    #[test]
    fn an_address_object_comes_and_goes_with_its_service() {
        let mut world = World::new();
        make(&mut world, "web", "10.43.0.9");
        let web = json!({"resource": "services", "namespace": "default", "name": "web"});
        assert_eq!(parent(&world, "10.43.0.9"), Some(web));
        world.propose(Command::Delete { key: service("web"), precondition: Precondition::default() });
        make(&mut world, "other", "10.43.0.9");
        assert_eq!(parent(&world, "10.43.0.9").map(|parent| parent["name"].clone()), Some(json!("other")));
        world.propose(Command::Delete { key: service("other"), precondition: Precondition::default() });
        world.settle();
        assert_eq!(parent(&world, "10.43.0.9"), None);
    }

    #[test]
    fn an_address_of_somebody_else_stays() {
        let mut world = World::new();
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": "192.0.2.1", "uid": "theirs"}, "spec": {"parentRef": {"resource": "x", "name": "y"}}});
        let object = object.to_string().into();
        world.propose(Command::Create { key: key("192.0.2.1"), object, claims: Vec::new() });
        world.settle();
        assert_eq!(parent(&world, "192.0.2.1").map(|parent| parent["name"].clone()), Some(json!("y")));
    }
}
