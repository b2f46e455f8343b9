//! Random commands, against a model that is plain and slow.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Kept {
    revision: Revision,
    owners: Vec<u8>,
    claims: Vec<Claim>,
}

/// What the store should hold.
#[derive(Clone, Debug, Default)]
struct Model {
    revision: Revision,
    objects: BTreeMap<ObjectKey, Kept>,
}

#[derive(Clone, Debug)]
enum Change {
    Create,
    Update(Option<u64>),
    Delete(Option<u64>),
}

#[derive(Clone, Debug)]
struct Draw {
    change: Change,
    object: u8,
    owners: Vec<u8>,
    claims: Vec<u8>,
}

impl Draw {
    fn key(&self) -> ObjectKey {
        let resource = if self.object.is_multiple_of(3) { "pods" } else { "services" };
        let namespace = ["", "a", "b"][usize::from(self.object % 7) % 3];
        ObjectKey::new(GroupResource::new("", resource), namespace, &format!("n{}", self.object))
    }

    fn json(&self) -> Bytes {
        let owners: Vec<_> = self.owners.iter().map(|o| format!(r#"{{"uid":"o{o}"}}"#)).collect();
        format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, owners.join(",")).into()
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.iter().map(|c| Claim::new("ip", &c.to_string())).collect()
    }

    fn command(&self) -> Command {
        let (key, object, claims) = (self.key(), self.json(), self.claims());
        let at = |revision: Option<u64>| Precondition { uid: None, revision };
        match self.change {
            Change::Create => Command::Create { key, object, claims },
            Change::Update(revision) => Command::Update { key, object, precondition: at(revision), claims },
            Change::Delete(revision) => Command::Delete { key, precondition: at(revision) },
        }
    }
}

impl Model {
    /// Whether the change is made.
    fn apply(&mut self, draw: &Draw) -> bool {
        let key = draw.key();
        let present = self.objects.get(&key).map(|kept| kept.revision);
        let claims = draw.claims();
        let free = self
            .objects
            .iter()
            .all(|(holder, kept)| *holder == key || kept.claims.iter().all(|c| !claims.contains(c)));
        let allowed = match draw.change {
            Change::Create => present.is_none() && free,
            Change::Update(at) => present.is_some() && (at.is_none() || at == present) && free,
            Change::Delete(at) => present.is_some() && (at.is_none() || at == present),
        };
        if allowed {
            self.revision += 1;
            if let Change::Delete(_) = draw.change {
                self.objects.remove(&key);
            } else {
                let kept = Kept { revision: self.revision, owners: draw.owners.clone(), claims };
                self.objects.insert(key, kept);
            }
        }
        allowed
    }

    fn check(&self, view: &View) {
        assert_eq!(view.revision(), self.revision);
        let mut counts = BTreeMap::new();
        let mut holders = BTreeMap::new();
        let mut dependents: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (key, kept) in &self.objects {
            assert_eq!(view.get(key).map(|object| object.revision), Some(kept.revision));
            *counts.entry(key.resource.clone()).or_insert(0) += 1;
            for claim in &kept.claims {
                holders.insert(claim.clone(), key.clone());
            }
            for owner in &kept.owners {
                dependents.entry(format!("o{owner}")).or_default().insert(key.clone());
            }
        }
        let found: BTreeMap<_, _> = view.resources().map(|(r, n)| (r.clone(), n)).collect();
        assert_eq!(found, counts);
        let found: BTreeMap<_, _> = view.claims("ip").map(|(c, k)| (c.clone(), k.clone())).collect();
        assert_eq!(found, holders);
        for owner in 0..4 {
            let uid = format!("o{owner}");
            let found: BTreeSet<_> = view.dependents(&uid).cloned().collect();
            assert_eq!(found, dependents.remove(&uid).unwrap_or_default());
        }
        for resource in counts.keys() {
            let listed: Vec<_> = view.list(resource, None).map(|o| o.key.clone()).collect();
            let kept = self.objects.keys().filter(|key| key.resource == *resource);
            assert_eq!(listed, kept.cloned().collect::<Vec<_>>());
        }
    }
}

fn contents(view: &View) -> BTreeMap<ObjectKey, Arc<Object>> {
    let resources: Vec<_> = view.resources().map(|(resource, _)| resource.clone()).collect();
    let objects = resources.iter().flat_map(|resource| view.list(resource, None));
    objects.map(|object| (object.key.clone(), object.clone())).collect()
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let revision = || prop::option::weighted(0.3, 1_u64..30);
    let change = prop_oneof![
        3 => Just(Change::Create),
        4 => revision().prop_map(Change::Update),
        2 => revision().prop_map(Change::Delete),
    ];
    let owners = prop::collection::vec(0_u8..4, 0..3);
    let claims = prop::collection::vec(0_u8..12, 0..3);
    let draw = (change, 0_u8..9, owners, claims).prop_map(|(change, object, owners, claims)| Draw {
        change,
        object,
        owners,
        claims,
    });
    prop::collection::vec(draw, 1..60)
}

/// Little is kept, so that the bounds matter.
fn limits() -> Limits {
    Limits { events: 20, frame_interval: 4, frames: 3, ..Limits::default() }
}

fn bytes_of(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.encode(&mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn the_store_is_the_model(draws in draws()) {
        let mut store = Store::new(limits());
        let mut model = Model::default();
        let mut views = vec![store.view()];
        for draw in &draws {
            let allowed = model.apply(draw);
            let outcome = run(&mut store, draw.command());
            prop_assert_eq!(allowed, !matches!(outcome, Outcome::Rejected(_)));
            model.check(&store.view());
            if allowed {
                views.push(store.view());
            }
        }
        // Every older view within the history can be had again, exactly.
        let last = store.view();
        for view in &views {
            match last.at(view.revision()) {
                Ok(again) => {
                    prop_assert_eq!(again.revision(), view.revision());
                    prop_assert_eq!(contents(&again), contents(view));
                    prop_assert!(again.claims("ip").eq(view.claims("ip")));
                }
                Err(expired) => prop_assert!(view.revision() < expired.oldest),
            }
        }
    }

    #[test]
    fn events_are_the_difference_of_views(draws in draws()) {
        let mut store = Store::new(limits());
        for draw in &draws {
            let before = store.view();
            run(&mut store, draw.command());
            let after = store.view();
            let mut replayed = contents(&before);
            for event in after.events_after(before.revision(), 9).unwrap() {
                let key = event.object.key.clone();
                let previous = match event.kind {
                    EventKind::Deleted => replayed.remove(&key),
                    EventKind::Added | EventKind::Modified => replayed.insert(key, event.object.clone()),
                };
                prop_assert_eq!(&previous, &event.previous);
                prop_assert_eq!(previous.is_none(), event.kind == EventKind::Added);
            }
            prop_assert_eq!(replayed, contents(&after));
        }
    }

    #[test]
    fn a_batch_is_its_commands_in_order(draws in draws()) {
        let mut one_by_one = Store::new(limits());
        let outcomes: Vec<_> = draws.iter().map(|d| run(&mut one_by_one, d.command())).collect();
        let mut store = Store::new(limits());
        let batch = Command::Batch(draws.iter().map(Draw::command).collect());
        match run(&mut store, batch) {
            Outcome::Batch(together) => {
                prop_assert_eq!(together, outcomes);
                prop_assert_eq!(contents(&store.view()), contents(&one_by_one.view()));
            }
            Outcome::Created(_) | Outcome::Updated(_) | Outcome::Deleted(_) | Outcome::Rejected(_) => {
                prop_assert!(outcomes.iter().any(|o| matches!(o, Outcome::Rejected(_))));
                prop_assert_eq!(store.revision(), 0);
                prop_assert!(contents(&store.view()).is_empty());
            }
        }
    }

    #[test]
    fn the_same_entries_give_the_same_bytes_wherever_a_snapshot_was_taken(
        draws in draws(),
        cut in 0_usize..60,
        sessions in prop::collection::vec((1_u128..4, 0_u64..3), 60),
    ) {
        let mut straight = Store::new(limits());
        let mut restored = Store::new(limits());
        for (number, (draw, (session, lag))) in draws.iter().zip(sessions).enumerate() {
            if number == cut {
                restored = Store::decode(bytes_of(&restored).into(), limits()).unwrap();
            }
            let sequence = number as u64 + 1;
            let entry = entry(session, sequence, sequence.saturating_sub(lag + 3), draw.command());
            prop_assert_eq!(&Entry::decode(entry.encode().into()).unwrap(), &entry);
            let expected = straight.apply(1, entry.clone());
            prop_assert_eq!(&Outcome::decode(expected.encode().into()).unwrap(), &expected);
            prop_assert_eq!(restored.apply(1, entry), expected);
        }
        prop_assert_eq!(bytes_of(&restored), bytes_of(&straight));
    }
}
