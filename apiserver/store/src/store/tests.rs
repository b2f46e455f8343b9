//! The state machine's promises, one by one, and against a model.

mod model;

use super::*;
use crate::command::Claim;
use crate::key::GroupResource;

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(pods(), namespace, name)
}

fn create(name: &str, claims: Vec<Claim>) -> Command {
    let object = format!(r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}"}}}}"#);
    Command::Create { key: key("default", name), object: object.into(), claims }
}

fn update(name: &str, precondition: Precondition, claims: Vec<Claim>) -> Command {
    let object = format!(r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}","generation":2}}}}"#);
    Command::Update { key: key("default", name), object: object.into(), precondition, claims }
}

fn delete(name: &str, precondition: Precondition) -> Command {
    Command::Delete { key: key("default", name), precondition }
}

fn entry(session: u128, sequence: u64, acknowledged: u64, command: Command) -> Entry {
    Entry { session, sequence, acknowledged, bound_term: None, command }
}

fn run(store: &mut Store, command: Command) -> Outcome {
    store.apply(1, entry(0, 0, 0, command))
}

fn rejection(outcome: Outcome) -> Rejection {
    outcome.into_object().expect_err("it should be rejected")
}

fn ip(value: &str) -> Claim {
    Claim::new("service-ip", value)
}

#[test]
fn a_rejected_command_changes_nothing_and_takes_no_revision() {
    let mut store = Store::default();
    run(&mut store, create("a", vec![]));
    let before = store.view();
    let any = Precondition::default;
    for (command, expected) in [
        (create("a", vec![]), Rejection::AlreadyExists),
        (update("b", any(), vec![]), Rejection::NotFound),
        (delete("b", any()), Rejection::NotFound),
        (update("a", Precondition::at(7), vec![]), Rejection::RevisionMismatch { current: 1 }),
        (delete("a", Precondition::at(7)), Rejection::RevisionMismatch { current: 1 }),
        (
            delete("a", Precondition { uid: Some("x".into()), revision: Some(1) }),
            Rejection::UidMismatch { current: "uid-a".into() },
        ),
    ] {
        assert_eq!(rejection(run(&mut store, command)), expected);
    }
    assert_eq!(store.revision(), 1);
    assert_eq!(store.view().events_after(0, 9), before.events_after(0, 9));
}

#[test]
fn malformed_objects_are_rejected_not_stored() {
    let mut store = Store::default();
    for json in ["", "null", "{}", r#"{"metadata":{"labels":{"a":1}}}"#, r#"{"metadata":[]}"#] {
        let command = Command::Create { key: key("default", "a"), object: json.into(), claims: vec![] };
        assert!(matches!(rejection(run(&mut store, command)), Rejection::Malformed(_)), "{json}");
    }
    assert_eq!(store.revision(), 0);
}

#[test]
fn a_deletion_reports_the_last_state_at_its_own_revision() {
    let mut store = Store::default();
    run(&mut store, create("a", vec![]));
    let deleted = run(&mut store, delete("a", Precondition::at(1))).into_object();
    let deleted = deleted.unwrap().unwrap();
    assert_eq!(deleted.revision, 2);
    assert_eq!(deleted.json, r#"{"metadata":{"resourceVersion":"2","name":"a","uid":"uid-a"}}"#);
    let events = store.view().events_after(1, 9).unwrap();
    assert_eq!((events[0].kind, &events[0].object), (EventKind::Deleted, &deleted));
    assert_eq!(events[0].previous.as_ref().unwrap().revision, 1);
}

#[test]
fn a_claim_has_one_holder_until_it_is_released() {
    let mut store = Store::default();
    run(&mut store, create("a", vec![ip("10.43.0.1"), ip("10.43.0.2")]));
    let taken = rejection(run(&mut store, create("b", vec![ip("10.43.0.2")])));
    assert_eq!(taken, Rejection::Claimed { claim: ip("10.43.0.2"), by: key("default", "a") });
    // An update releases what it does not name, and may keep what it has.
    run(&mut store, update("a", Precondition::default(), vec![ip("10.43.0.1")]));
    assert!(matches!(run(&mut store, create("b", vec![ip("10.43.0.2")])), Outcome::Created(_)));
    run(&mut store, delete("a", Precondition::default()));
    let view = store.view();
    let held: Vec<_> = view.claims("service-ip").collect();
    assert_eq!(held, [(&ip("10.43.0.2"), &key("default", "b"))]);
    assert_eq!(view.claims("node-port").count(), 0);
    assert_eq!(view.claim_holder(&ip("10.43.0.1")), None);
}

#[test]
fn a_batch_is_done_whole_or_not_at_all() {
    let mut store = Store::default();
    let failing = vec![create("a", vec![ip("10.43.0.1")]), create("b", vec![]), create("a", vec![])];
    assert_eq!(rejection(run(&mut store, Command::Batch(failing))), Rejection::AlreadyExists);
    assert_eq!(store.revision(), 0);
    assert_eq!(store.view().claims("service-ip").count(), 0);
    let whole = Command::Batch(vec![
        create("a", vec![]),
        update("a", Precondition::at(1), vec![]),
        delete("a", Precondition::at(2)),
    ]);
    let Outcome::Batch(outcomes) = run(&mut store, whole) else { panic!("a batch") };
    assert_eq!((outcomes.len(), store.revision()), (3, 3));
    assert_eq!(store.view().events_after(0, 9).unwrap().len(), 3);
    let nested = Command::Batch(vec![Command::Batch(vec![])]);
    assert!(matches!(rejection(run(&mut store, nested)), Rejection::Malformed(_)));
}

#[test]
fn a_command_bound_to_another_term_is_fenced() {
    let mut store = Store::default();
    let bound = |term| Entry { bound_term: Some(term), ..entry(0, 0, 0, create("a", vec![])) };
    assert_eq!(rejection(store.apply(4, bound(3))), Rejection::Fenced);
    assert!(matches!(store.apply(4, bound(4)), Outcome::Created(_)));
}

#[test]
fn a_repeated_proposal_gets_the_first_answer() {
    let mut store = Store::default();
    let first = store.apply(1, entry(5, 1, 0, create("a", vec![])));
    assert_eq!(store.apply(2, entry(5, 1, 0, create("a", vec![]))), first);
    let rejected = store.apply(2, entry(5, 2, 0, create("a", vec![])));
    store.apply(2, entry(5, 3, 0, delete("a", Precondition::default())));
    assert_eq!(store.apply(3, entry(5, 2, 0, create("a", vec![]))), rejected);
    assert_eq!(store.revision(), 2);
}

#[test]
fn an_acknowledged_proposal_is_not_applied_again() {
    let mut store = Store::default();
    store.apply(1, entry(5, 1, 0, create("a", vec![])));
    store.apply(1, entry(5, 2, 1, delete("a", Precondition::default())));
    assert_eq!(rejection(store.apply(1, entry(5, 1, 0, create("a", vec![])))), Rejection::Fenced);
    assert_eq!(store.revision(), 2);
}

#[test]
fn sessions_and_their_outcomes_are_bounded() {
    let mut store = Store::default();
    for sequence in 1..=5000 {
        store.apply(1, entry(1, sequence, 0, create("a", vec![])));
    }
    for session in 2..400 {
        store.apply(1, entry(session, 1, 0, create("a", vec![])));
        store.apply(1, entry(1, 6000 + u64::try_from(session).unwrap(), 0, create("a", vec![])));
    }
    assert_eq!(store.sessions.by_id.len(), 256);
    let busiest = store.sessions.by_id.get(&1).unwrap();
    assert_eq!((busiest.outcomes.len(), busiest.floor), (4096, 1302));
}

#[test]
fn lists_are_ordered_and_paged_within_a_namespace() {
    let mut store = Store::default();
    for (namespace, name) in [("b", "1"), ("a", "2"), ("a", "1"), ("", "c"), ("ab", "0")] {
        let object = r#"{"metadata":{}}"#.into();
        run(&mut store, Command::Create { key: key(namespace, name), object, claims: vec![] });
    }
    let view = store.view();
    let names = |list: Vec<&Arc<Object>>| -> Vec<String> {
        list.iter().map(|o| format!("{}/{}", o.key.namespace, o.key.name)).collect()
    };
    let all = ["/c", "a/1", "a/2", "ab/0", "b/1"];
    assert_eq!(names(view.list(&pods(), None).collect()), all);
    assert_eq!(names(view.list(&pods(), Some("a")).collect()), all[1..3]);
    assert_eq!(names(view.list(&pods(), Some("")).collect()), all[..1]);
    assert_eq!(names(view.list_from(&pods(), None, ("a", "1")).collect()), all[2..]);
    assert_eq!(names(view.list_from(&pods(), Some("a"), ("a", "1")).collect()), all[2..3]);
    assert_eq!(names(view.list_from(&pods(), Some("ab"), ("a", "1")).collect()), all[3..4]);
    assert_eq!(view.list(&GroupResource::new("apps", "pods"), None).count(), 0);
    assert_eq!(view.resources().collect::<Vec<_>>(), [(&pods(), 5)]);
}

#[test]
fn dependents_follow_the_owner_references() {
    let mut store = Store::default();
    let owned = |owners: &[&str]| {
        let owners: Vec<_> = owners.iter().map(|uid| format!(r#"{{"uid":"{uid}"}}"#)).collect();
        format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, owners.join(","))
    };
    let child = key("default", "child");
    let object = owned(&["one", "two"]).into();
    run(&mut store, Command::Create { key: child.clone(), object, claims: vec![] });
    let before = store.view();
    assert_eq!(before.dependents("one").collect::<Vec<_>>(), [&child]);
    let object = owned(&["two"]).into();
    let precondition = Precondition::default();
    run(&mut store, Command::Update { key: child.clone(), object, precondition, claims: vec![] });
    assert_eq!(store.view().dependents("one").count(), 0);
    assert_eq!(store.view().dependents("two").collect::<Vec<_>>(), [&child]);
    assert_eq!(before.dependents("one").count(), 1, "a view does not change");
}

#[test]
fn history_is_bounded_by_count_and_by_bytes() {
    let limits = Limits { events: 10, ..Limits::default() };
    let mut store = Store::new(limits);
    run(&mut store, create("a", vec![]));
    for _ in 1..50 {
        run(&mut store, update("a", Precondition::default(), vec![]));
    }
    let view = store.view();
    assert_eq!(view.oldest_event(), 41);
    assert_eq!(view.events_after(40, 99).unwrap().len(), 10);
    assert_eq!(view.events_after(45, 2).unwrap()[1].revision, 47);
    assert_eq!(view.events_after(50, 99), Ok(vec![]));
    let expired = crate::event::Expired { requested: 39, oldest: 40, current: 50 };
    assert_eq!(view.events_after(39, 99), Err(expired));
    assert_eq!(view.at(39).err(), Some(expired));
    assert_eq!(view.at(51).err().map(|e| e.requested), Some(51));
    assert_eq!(view.at(40).unwrap().get(&key("default", "a")).unwrap().revision, 40);

    let mut store = Store::new(Limits { bytes: 5_000, ..Limits::default() });
    run(&mut store, create("a", vec![]));
    for _ in 1..50 {
        run(&mut store, update("a", Precondition::default(), vec![]));
    }
    let held = store.view().events_after(store.view().oldest_event() - 1, 99).unwrap().len();
    assert!((5..10).contains(&held), "{held}");
}

#[test]
fn what_a_busy_resource_pushes_out_is_not_missed_by_watchers_of_a_quiet_one() {
    let limits = Limits { events: 10, ..Limits::default() };
    let mut store = Store::new(limits);
    run(&mut store, create("a", vec![]));
    let leases = GroupResource::new("coordination.k8s.io", "leases");
    let lease = ObjectKey::new(leases.clone(), "default", "l");
    let object = bytes::Bytes::from_static(br#"{"metadata":{"name":"l"}}"#);
    run(&mut store, Command::Create { key: lease, object, claims: vec![] });
    let check = |store: &Store| {
        let view = store.view();
        let current = view.revision();
        let expired = crate::event::Expired { requested: 0, oldest: 2, current };
        assert_eq!(view.events_of(&leases, 0, 99), Err(expired), "its event is gone");
        assert_eq!(view.events_of(&leases, 2, 99), Ok(vec![]), "nothing is missed");
        assert!(view.events_of(&pods(), 2, 99).is_err(), "much is missed");
        assert_eq!(view.events_of(&pods(), current - 4, 2).unwrap()[0].revision, current - 3);
        assert_eq!(view.events_of(&pods(), current, 99), Ok(vec![]));
    };
    for _ in 0..20 {
        run(&mut store, update("a", Precondition::default(), vec![]));
    }
    check(&store);
    // A snapshot holds the newest events only: what came before it may have been of any resource.
    let mut bytes = Vec::new();
    store.encode(&mut bytes).unwrap();
    let restored = Store::decode(bytes.into(), limits).unwrap().view();
    assert!(restored.events_of(&leases, 2, 99).is_err());
    assert_eq!(restored.events_of(&leases, restored.oldest_event() - 1, 99), Ok(vec![]));
}
