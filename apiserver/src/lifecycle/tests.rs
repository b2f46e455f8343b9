//! The leader's own work, acted out on a store without a server around it.

use jiff::{SignedDuration, Timestamp};
use litek8s_store::{Command, Entry, GroupResource, ObjectKey, Outcome, Precondition, Store};
use serde_json::{Value, json};

use super::agenda::Agenda;
use super::decide::Facts;
use super::subject::Subject;
use std::collections::BTreeMap;

use crate::aggregation::{Content, Contents};
use crate::registry::Registry;

/// A store and what the leader does to it.
pub(super) struct World {
    pub(super) store: Store,
    registry: Registry,
    agenda: Agenda,
    now: Timestamp,
    aggregated: Option<Contents>,
}

impl World {
    pub(super) fn new() -> Self {
        let (registry, agenda) = (Registry::new(), Agenda::default());
        let now = "2024-01-01T00:00:00Z".parse().unwrap();
        let mut world = World { store: Store::default(), registry, agenda, now, aggregated: None };
        world.put("v1", "Namespace", "", "default", json!({"spec": {"finalizers": ["kubernetes"]}}));
        world.settle();
        world
    }

    pub(super) fn propose(&mut self, command: Command) -> Outcome {
        self.store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command })
    }

    fn key(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match self.registry.table().by_kind(group, "", kind) {
            Some(served) => served.object_key(namespace, name),
            None => ObjectKey::new(
                GroupResource::new(group, &format!("{}s", kind.to_lowercase())),
                namespace,
                name,
            ),
        }
    }

    /// Creates or replaces an object; its uid is `uid-NAME`.
    fn put(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str, more: Value) {
        let mut object = more;
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert("name".to_owned(), json!(name));
        metadata.entry("uid").or_insert(json!(format!("uid-{name}")));
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        object["metadata"] = Value::Object(metadata);
        let key = self.key(api_version, kind, namespace, name);
        let object = object.to_string().into();
        let command = if self.store.view().get(&key).is_some() {
            Command::Update { key, object, precondition: Precondition::default(), claims: Vec::new() }
        } else {
            Command::Create { key, object, claims: Vec::new() }
        };
        assert!(!matches!(self.propose(command), Outcome::Rejected(_)));
    }

    fn map(&mut self, name: &str, owners: &[Value]) {
        self.put("v1", "ConfigMap", "default", name, json!({"metadata": {"ownerReferences": owners}}));
    }

    fn deleting(&mut self, name: &str, finalizers: Value, owners: Value) {
        let metadata = json!({
            "deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
            "finalizers": finalizers, "ownerReferences": owners,
        });
        self.put("v1", "ConfigMap", "default", name, json!({"metadata": metadata}));
    }

    fn drop(&mut self, name: &str) {
        let key = self.key("v1", "ConfigMap", "default", name);
        self.propose(Command::Delete { key, precondition: Precondition::default() });
    }

    /// Acts until nothing is due; the rounds it took.
    pub(super) fn settle(&mut self) -> usize {
        for round in 0..100 {
            let work = self.take();
            if work.is_empty() {
                return round;
            }
            for (_, command) in work {
                self.propose(command);
            }
        }
        panic!("the leader never comes to rest");
    }

    /// What is due now.
    fn take(&mut self) -> Vec<(Subject, Command)> {
        let (view, table) = (self.store.view(), self.registry.table());
        self.agenda.follow(&view, &table, self.now);
        let facts = Facts {
            view: &view,
            table: &table,
            ca: "CA",
            service_cidrs: &[],
            now: self.now,
            aggregated: self.aggregated.as_ref(),
        };
        self.agenda.take(&facts)
    }

    fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = self.key(api_version, kind, namespace, name);
        self.store.view().get(&key).map(|object| serde_json::from_slice(&object.json).unwrap())
    }

    fn config(&self, name: &str) -> Option<Value> {
        self.get("v1", "ConfigMap", "default", name)
    }

    fn has(&self, name: &str) -> bool {
        self.config(name).is_some()
    }
}

fn owner(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-{name}")})
}

fn blocked_by(name: &str) -> Value {
    let mut owner = owner(name);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

#[test]
fn an_object_goes_with_the_last_of_its_owners() {
    let mut world = World::new();
    world.map("a", &[]);
    world.map("b", &[]);
    world.map("child", &[owner("a"), owner("b")]);
    world.map("grandchild", &[owner("child")]);
    world.settle();
    assert!(world.has("child"));
    world.drop("a");
    world.settle();
    let child = world.config("child").unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], json!([owner("b")]), "the dangling reference is gone");
    world.drop("b");
    world.settle();
    assert!(!world.has("child") && !world.has("grandchild"));
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_no_owner() {
    let mut world = World::new();
    world.map("a", &[]);
    world.map("child", &[owner("a")]);
    world.settle();
    world.drop("a");
    world.put("v1", "ConfigMap", "default", "a", json!({"metadata": {"uid": "another"}}));
    world.settle();
    assert!(!world.has("child") && world.has("a"));
}

#[test]
fn an_object_created_for_an_owner_that_is_gone_goes_at_once() {
    let mut world = World::new();
    world.map("child", &[owner("never")]);
    world.settle();
    assert!(!world.has("child"));
}

#[test]
fn unknown_kinds_and_owners_in_other_namespaces_delete_nothing() {
    let mut world = World::new();
    world.put("v1", "Namespace", "", "other", json!({"spec": {"finalizers": ["kubernetes"]}}));
    world.put("v1", "ConfigMap", "other", "far", json!({}));
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "x"});
    world.map("of-unknown", &[unknown]);
    world.map("of-far", &[owner("far")]);
    world.put("v1", "Node", "", "node", json!({"metadata": {"ownerReferences": [owner("far")]}}));
    world.settle();
    assert!(world.has("of-unknown") && world.has("of-far"));
    assert!(world.get("v1", "Node", "", "node").is_some());
}

#[test]
fn finalizers_of_a_dependent_are_awaited() {
    let mut world = World::new();
    world.map("a", &[]);
    let metadata = json!({"finalizers": ["example.com/hold"], "ownerReferences": [owner("a")]});
    world.put("v1", "ConfigMap", "default", "child", json!({"metadata": metadata}));
    world.drop("a");
    world.settle();
    let child = world.config("child").unwrap();
    assert_eq!(child["metadata"]["deletionTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(child["metadata"]["finalizers"], json!(["example.com/hold"]));
}

#[test]
fn in_the_foreground_dependents_that_block_go_first() {
    let mut world = World::new();
    world.map("root", &[]);
    let held = json!({"finalizers": ["example.com/hold"], "ownerReferences": [blocked_by("root")]});
    world.put("v1", "ConfigMap", "default", "blocking", json!({"metadata": held}));
    world.map("leaf", &[blocked_by("blocking")]);
    world.map("free", &[owner("root")]);
    world.settle();
    world.deleting("root", json!(["foregroundDeletion"]), json!([]));
    world.settle();
    assert!(world.has("root") && world.has("blocking") && world.has("free") && !world.has("leaf"));
    let blocking = world.config("blocking").unwrap();
    assert!(blocking["metadata"]["deletionTimestamp"].is_string());
    world.deleting("blocking", json!([]), json!([blocked_by("root")]));
    let key = world.key("v1", "ConfigMap", "default", "blocking");
    world.propose(Command::Delete { key, precondition: Precondition::default() });
    world.settle();
    assert!(!world.has("root") && !world.has("free"));
}

#[test]
fn a_circle_in_the_foreground_comes_to_an_end() {
    let mut world = World::new();
    world.map("a", &[blocked_by("b")]);
    world.map("b", &[blocked_by("a")]);
    world.settle();
    world.deleting("a", json!(["foregroundDeletion"]), json!([blocked_by("b")]));
    world.settle();
    assert!(!world.has("a") && !world.has("b"));
}

#[test]
fn orphans_forget_their_owner_and_stay() {
    let mut world = World::new();
    world.map("a", &[]);
    world.map("child", &[owner("a")]);
    world.settle();
    world.deleting("a", json!(["orphan", "example.com/hold"]), json!([]));
    world.settle();
    assert_eq!(world.config("a").unwrap()["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(world.config("child").unwrap()["metadata"].get("ownerReferences"), None);
    world.drop("a");
    world.settle();
    assert!(world.has("child"));
}

#[test]
fn every_namespace_has_its_account_and_the_ca() {
    let mut world = World::new();
    let account = world.get("v1", "ServiceAccount", "default", "default").unwrap();
    assert!(account["metadata"]["uid"].is_string());
    assert_eq!(world.config("kube-root-ca.crt").unwrap()["data"], json!({"ca.crt": "CA"}));
    world.drop("kube-root-ca.crt");
    world.settle();
    assert!(world.has("kube-root-ca.crt"));
    world.put("v1", "ConfigMap", "default", "kube-root-ca.crt", json!({"data": {"ca.crt": "forged"}}));
    world.settle();
    assert_eq!(world.config("kube-root-ca.crt").unwrap()["data"], json!({"ca.crt": "CA"}));
    assert_eq!(world.settle(), 0);
}

fn end_namespace(world: &mut World, name: &str) {
    let metadata = json!({"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    let spec = json!({"finalizers": ["kubernetes"]});
    world.put(
        "v1",
        "Namespace",
        "",
        name,
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Terminating"}}),
    );
}

#[test]
fn a_namespace_goes_after_its_content() {
    let mut world = World::new();
    world.put("v1", "Namespace", "", "team", json!({"spec": {"finalizers": ["kubernetes"]}}));
    for name in ["x", "y"] {
        world.put("v1", "ConfigMap", "team", name, json!({}));
    }
    world.settle();
    end_namespace(&mut world, "team");
    world.settle();
    assert!(world.get("v1", "Namespace", "", "team").is_none());
    assert!(world.get("v1", "ConfigMap", "team", "x").is_none());
    assert!(world.get("v1", "ServiceAccount", "team", "default").is_none());
    assert!(world.has("kube-root-ca.crt"), "other namespaces keep theirs");
}

#[test]
fn a_namespace_says_what_it_waits_for_and_pods_go_before_the_rest() {
    let mut world = World::new();
    world.put("v1", "Namespace", "", "team", json!({"spec": {"finalizers": ["kubernetes"]}}));
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}, "status": {"phase": "Succeeded"}});
    world.put("v1", "Pod", "team", "pod", held);
    world.settle();
    end_namespace(&mut world, "team");
    world.settle();
    let namespace = world.get("v1", "Namespace", "", "team").unwrap();
    let condition = |ty: &str| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == ty).unwrap()
    };
    assert_eq!(condition("NamespaceDeletionContentFailure")["status"], "False");
    let content = condition("NamespaceContentRemaining");
    assert_eq!(content["status"], "True");
    assert!(content["message"].as_str().unwrap().contains("pods has 1 resource instances"), "{content}");
    let finalizers = condition("NamespaceFinalizersRemaining");
    assert_eq!(
        finalizers["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    assert!(world.get("v1", "ConfigMap", "team", "kube-root-ca.crt").is_some());
    let key = world.key("v1", "Pod", "team", "pod");
    world.propose(Command::Delete { key, precondition: Precondition::default() });
    world.settle();
    assert!(world.get("v1", "Namespace", "", "team").is_none());
}

#[test]
fn a_namespace_waits_for_backends_that_are_there_and_names_those_that_are_not() {
    let mut world = World::new();
    world.aggregated = Some(Contents::new());
    end_namespace(&mut world, "prod");
    world.settle();
    let condition = |world: &World, ty: &str| {
        let namespace = world.get("v1", "Namespace", "", "prod").unwrap();
        let all = namespace["status"]["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|condition| condition["type"] == ty).unwrap()
    };
    assert_eq!(condition(&world, "NamespaceContentRemaining")["status"], "False");

    let look = |world: &mut World, content: Content| {
        world.aggregated = Some(Contents::from([("uid-prod".to_owned(), content)]));
        world.agenda.put_back(super::subject::terminating(&world.store.view()), world.now);
        world.settle();
    };
    let unknown = vec!["things.example.com/v1: dead".to_owned()];
    let remaining = BTreeMap::from([("things.example.com".to_owned(), 2)]);
    look(&mut world, Content { unknown: unknown.clone(), remaining, ..Content::default() });
    let discovery = condition(&world, "NamespaceDeletionDiscoveryFailure");
    assert_eq!((&discovery["status"], &discovery["reason"]), (&json!("True"), &json!("DiscoveryFailed")));
    assert!(discovery["message"].as_str().unwrap().ends_with("server APIs: things.example.com/v1: dead"));
    let text = "Some resources are remaining: things.example.com has 2 resource instances";
    assert_eq!(condition(&world, "NamespaceContentRemaining")["message"], text);
    look(&mut world, Content { failed: vec!["refused".to_owned()], ..Content::default() });
    assert_eq!(condition(&world, "NamespaceDeletionContentFailure")["reason"], "ContentDeletionFailed");
    look(&mut world, Content { unknown, ..Content::default() });
    assert_eq!(world.get("v1", "Namespace", "", "prod"), None, "a dead backend holds nothing up");
}

#[test]
fn what_slipped_into_a_namespace_that_is_gone_goes_too() {
    let mut world = World::new();
    world.put("v1", "ConfigMap", "gone", "late", json!({}));
    world.settle();
    assert!(world.get("v1", "ConfigMap", "gone", "late").is_none());
}

#[test]
fn events_end_an_hour_after_they_last_happened() {
    let mut world = World::new();
    world.put("v1", "Event", "default", "old", json!({"lastTimestamp": "2024-01-01T00:00:00Z"}));
    world.now += SignedDuration::from_mins(30);
    world.put("v1", "Event", "default", "new", json!({"lastTimestamp": "2024-01-01T00:30:00Z"}));
    world.settle();
    let wait = world.agenda.wait(world.now).unwrap();
    assert_eq!(wait.as_secs(), 1805);
    world.now += SignedDuration::from_secs(1805);
    world.settle();
    assert!(world.get("v1", "Event", "default", "old").is_none());
    assert!(world.get("v1", "Event", "default", "new").is_some());
    world.put("v1", "Event", "default", "new", json!({"lastTimestamp": "2024-01-01T01:20:00Z"}));
    world.now += SignedDuration::from_mins(30);
    world.settle();
    assert!(world.get("v1", "Event", "default", "new").is_some(), "it happened again");
}

fn definition(more: Value) -> Value {
    let mut definition = json!({
        "spec": {"group": "example.com", "names": {"plural": "things", "kind": "Thing"}},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    definition["metadata"] = more;
    definition
}

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[test]
fn a_definition_goes_after_its_objects() {
    let mut world = World::new();
    let api = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    world.put(api, kind, "", "things.example.com", definition(json!({"finalizers": [CLEANUP]})));
    world.put("example.com/v1", "Thing", "default", "free", json!({}));
    world.put(
        "example.com/v1",
        "Thing",
        "default",
        "held",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    world.settle();
    let ending = json!({"finalizers": [CLEANUP], "deletionTimestamp": "2024-01-01T00:00:00Z"});
    world.put(api, kind, "", "things.example.com", definition(ending));
    world.settle();
    assert!(world.get("example.com/v1", "Thing", "default", "free").is_none());
    assert!(world.get("example.com/v1", "Thing", "default", "held").is_some());
    let waiting = world.get(api, kind, "", "things.example.com").unwrap();
    let conditions = waiting["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().any(|c| c["type"] == "Terminating" && c["reason"] == "InstanceDeletionInProgress")
    );
    let key = world.key("example.com/v1", "Thing", "default", "held");
    world.propose(Command::Delete { key, precondition: Precondition::default() });
    world.settle();
    assert!(world.get(api, kind, "", "things.example.com").is_none());
}

#[test]
fn names_that_become_free_go_to_the_definition_that_waits() {
    let mut world = World::new();
    let api = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    let mut first = definition(json!({}));
    first["status"]["acceptedNames"] = json!({"plural": "things", "kind": "Thing"});
    world.put(api, kind, "", "things.example.com", first);
    let second = json!({"spec": {"group": "example.com", "names": {"plural": "stuff", "kind": "Thing"}}});
    world.put(api, kind, "", "stuff.example.com", second);
    world.settle();
    let established = |world: &World| {
        let stuff = world.get(api, kind, "", "stuff.example.com").unwrap();
        crate::extensions::is_condition_true(&stuff, "Established")
    };
    assert!(!established(&world));
    let key = world.key(api, kind, "", "things.example.com");
    world.propose(Command::Delete { key, precondition: Precondition::default() });
    world.settle();
    assert!(established(&world));
}

#[test]
fn objects_that_outlived_their_definition_go() {
    let mut world = World::new();
    let api = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    world.put(api, kind, "", "things.example.com", definition(json!({})));
    world.settle();
    world.put("example.com/v1", "Thing", "default", "late", json!({}));
    let key = world.key(api, kind, "", "things.example.com");
    world.propose(Command::Delete { key, precondition: Precondition::default() });
    world.settle();
    assert!(world.get("example.com/v1", "Thing", "default", "late").is_none());
}

#[test]
fn a_definition_with_the_name_of_a_built_in_resource_takes_no_object_along() {
    let mut world = World::new();
    let api = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    let name = "clusterroles.rbac.authorization.k8s.io";
    let ending = |metadata: Value| {
        let mut definition = definition(metadata);
        definition["spec"] = json!({"group": "rbac.authorization.k8s.io",
            "names": {"plural": "clusterroles", "kind": "ClusterRole"}});
        definition
    };
    world.put("rbac.authorization.k8s.io/v1", "ClusterRole", "", "admin", json!({"rules": []}));
    world.put(api, kind, "", name, ending(json!({"finalizers": [CLEANUP]})));
    world.settle();
    let deleted = json!({"finalizers": [CLEANUP], "deletionTimestamp": "2024-01-01T00:00:00Z"});
    world.put(api, kind, "", name, ending(deleted));
    world.settle();
    assert!(world.get(api, kind, "", name).is_none());
    assert!(world.get("rbac.authorization.k8s.io/v1", "ClusterRole", "", "admin").is_some());
}

#[test]
fn times_at_the_end_of_all_time_are_no_trouble() {
    let mut world = World::new();
    let last = "9999-12-30T21:30:00Z";
    for (name, event) in [
        ("a", json!({"lastTimestamp": last})),
        ("b", json!({"eventTime": last})),
        ("c", json!({"series": {"lastObservedTime": last}})),
    ] {
        world.put("v1", "Event", "default", name, event);
    }
    let pod = json!({
        "metadata": {"ownerReferences": [owner("none")]},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 300_000_000_000_i64},
    });
    world.put("v1", "Pod", "default", "p", pod);
    world.settle();
    let pod = world.get("v1", "Pod", "default", "p").unwrap();
    assert_eq!(pod["metadata"]["deletionTimestamp"], "9999-12-30T22:00:00Z");
    world.now += SignedDuration::from_secs(3605);
    world.settle();
    for name in ["a", "b", "c"] {
        assert!(world.get("v1", "Event", "default", name).is_none(), "an hour after it was written");
    }
}

#[test]
fn an_event_that_could_not_be_removed_is_removed_later() {
    let mut world = World::new();
    for name in ["old", "renewed"] {
        world.put("v1", "Event", "default", name, json!({"lastTimestamp": "2024-01-01T00:00:00Z"}));
    }
    world.settle();
    world.now += SignedDuration::from_secs(3605);
    let failed: std::collections::BTreeSet<_> =
        world.take().into_iter().map(|(subject, _)| subject).collect();
    assert_eq!(failed.len(), 2);
    world.agenda.put_back(failed, world.now);
    world.put("v1", "Event", "default", "renewed", json!({"lastTimestamp": "2024-01-01T01:00:00Z"}));
    world.settle();
    assert!(world.get("v1", "Event", "default", "old").is_none());
    assert!(world.get("v1", "Event", "default", "renewed").is_some());
}
