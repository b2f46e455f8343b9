//! Objects of the store compiled once per revision: policies, bindings, webhook configurations.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use litek8s_store::{GroupResource, Object, ObjectKey, Revision, View};

/// What was compiled, by object.
pub(super) struct Compiled<T> {
    entries: RwLock<BTreeMap<ObjectKey, (Revision, Arc<T>)>>,
}

impl<T> Default for Compiled<T> {
    fn default() -> Self {
        Self { entries: RwLock::default() }
    }
}

impl<T> Compiled<T> {
    /// All objects of the resource in `view`, by name; what was compiled before is used again.
    pub(super) fn all(
        &self,
        view: &View,
        resource: &GroupResource,
        compile: impl Fn(&Object) -> T,
    ) -> Vec<Arc<T>> {
        let count = view.count(resource);
        if count == 0 {
            return Vec::new();
        }
        let mut found = Vec::with_capacity(count);
        for object in view.list(resource, None) {
            let known = {
                let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
                entries
                    .get(&object.key)
                    .filter(|(revision, _)| *revision == object.revision)
                    .map(|e| e.1.clone())
            };
            found.push(known.unwrap_or_else(|| {
                let compiled = Arc::new(compile(object));
                let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
                entries.insert(object.key.clone(), (object.revision, compiled.clone()));
                // What is gone from the store goes from here too.
                entries.retain(|key, _| view.get(key).is_some());
                compiled
            }));
        }
        found
    }
}
