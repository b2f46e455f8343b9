//! The objects of one revision and the indices over them, in persistent maps.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::command::Claim;
use crate::key::{GroupResource, Name, ObjectKey, Revision};
use crate::object::Object;

pub(crate) type Table = OrdMap<Name, Arc<Object>>;

/// Everything there is at one revision. A clone costs a few reference counts.
#[derive(Clone, Default)]
pub(crate) struct Frame {
    pub(crate) revision: Revision,
    /// No table is empty.
    pub(crate) tables: OrdMap<GroupResource, Table>,
    /// The objects that name an owner, by its uid. No set is empty.
    pub(crate) dependents: OrdMap<Arc<str>, OrdSet<ObjectKey>>,
    pub(crate) claims: OrdMap<Claim, ObjectKey>,
}

impl Frame {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.tables.get(&key.resource)?.get(&Name::from(key))
    }

    /// The stored spelling of a resource, so that its objects share one allocation.
    pub(crate) fn interned(&self, resource: &GroupResource) -> GroupResource {
        self.tables.get_key_value(resource).map_or(resource, |(known, _)| known).clone()
    }

    /// The first of `claims` that an object other than `key` holds.
    pub(crate) fn conflict(&self, key: &ObjectKey, claims: &[Claim]) -> Option<(Claim, ObjectKey)> {
        claims.iter().find_map(|claim| {
            let by = self.claims.get(claim)?;
            (by != key).then(|| (claim.clone(), by.clone()))
        })
    }

    /// Puts the object in the place of the one of its key, which is returned.
    pub(crate) fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let previous = self.get(&object.key).cloned();
        if let Some(previous) = &previous {
            self.unindex(previous);
        }
        for uid in owners(&object) {
            self.dependents.entry(uid).or_default().insert(object.key.clone());
        }
        for claim in object.claims.iter() {
            self.claims.insert(claim.clone(), object.key.clone());
        }
        self.tables.entry(object.key.resource.clone()).or_default().insert(Name::from(&object.key), object);
        previous
    }

    /// Takes the object of this key away.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let table = self.tables.get_mut(&key.resource)?;
        let removed = table.remove(&Name::from(key))?;
        if table.is_empty() {
            self.tables.remove(&key.resource);
        }
        self.unindex(&removed);
        Some(removed)
    }

    fn unindex(&mut self, object: &Object) {
        for uid in owners(object) {
            if let Some(set) = self.dependents.get_mut(&uid) {
                set.remove(&object.key);
                if set.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
        for claim in object.claims.iter() {
            self.claims.remove(claim);
        }
    }
}

fn owners(object: &Object) -> impl Iterator<Item = Arc<str>> {
    object.meta.owners.iter().map(|owner| owner.uid.as_str().into())
}
