//! Keeping what is served in step with the definitions in the store.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use litek8s_store::{GroupResource, ObjectKey};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::conversion::Converter;
use super::{DEFINITIONS, is_condition_true, versions};
use crate::api::Api;
use crate::endpoints::metadata;
use crate::strategy::{Change, Strategy};

/// Changes read from the history at a time.
const CHANGES: usize = 1000;

/// What of each definition is served now.
#[derive(Default)]
pub(super) struct Serving {
    prints: Mutex<BTreeMap<String, u64>>,
}

impl Serving {
    /// Serves the definition `name` as the store has it now.
    ///
    /// Whoever comes last reads the newest state, so that concurrent writes end with it.
    pub(super) fn refresh(&self, api: &Api, name: &str) {
        let mut prints = self.prints.lock().unwrap_or_else(PoisonError::into_inner);
        let (group, _, plural) = DEFINITIONS;
        let key = ObjectKey::new(GroupResource::new(group, plural), "", name);
        let stored = api.replica.view().get(&key).cloned();
        let definition = stored.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
        let Some(definition) = definition.filter(|d| is_condition_true(d, "Established")) else {
            prints.remove(name);
            api.registry.set_custom(name, Vec::new());
            return;
        };
        let print = fingerprint(&definition);
        if prints.get(name) == Some(&print) {
            return;
        }
        match versions::of_definition(&definition, Converter::of(&definition, &api.replica)) {
            Ok(versions) => {
                prints.insert(name.to_owned(), print);
                api.registry.set_custom(name, versions);
            }
            Err(error) => tracing::error!(definition = name, %error, "a stored definition cannot be served"),
        }
    }
}

/// Changes with everything that what is served depends on.
fn fingerprint(definition: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for pointer in ["/spec", "/status/acceptedNames"] {
        definition.pointer(pointer).map(Value::to_string).hash(&mut hasher);
    }
    metadata::text(definition, "uid").hash(&mut hasher);
    hasher.finish()
}

fn strategy(api: &Api) -> Option<Arc<dyn Strategy>> {
    let (group, version, plural) = DEFINITIONS;
    api.registry.get(group, version, plural).map(|served| served.strategy.clone())
}

/// Serves every definition in the store; before the first request is answered.
pub(crate) fn load(api: &Api) {
    let Some(strategy) = strategy(api) else { return };
    let (group, _, plural) = DEFINITIONS;
    for object in api.replica.view().list(&GroupResource::new(group, plural), None) {
        strategy.after_write(api, Change::Stored(&named(&object.key.name)));
    }
}

/// Follows changes of definitions that were not made through this server's endpoints, until `stop`.
pub(crate) async fn follow(api: Arc<Api>, stop: CancellationToken) {
    let Some(strategy) = strategy(&api) else { return };
    let mut applied = api.replica.applied();
    let mut cursor = api.replica.view().revision();
    load(&api);
    loop {
        applied.borrow_and_update();
        let view = api.replica.view();
        match view.events_after(cursor, CHANGES) {
            Ok(events) if events.is_empty() => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = applied.changed() => if changed.is_err() { return },
                }
            }
            Ok(events) => {
                cursor = events.last().map_or(cursor, |event| event.revision);
                let (group, _, plural) = DEFINITIONS;
                let of_definitions = events.iter().filter(|event| {
                    let resource = &event.object.key.resource;
                    *resource.group == *group && *resource.resource == *plural
                });
                for event in of_definitions {
                    strategy.after_write(&api, Change::Stored(&named(&event.object.key.name)));
                }
            }
            Err(_) => {
                cursor = view.revision();
                load(&api);
            }
        }
    }
}

fn named(name: &str) -> Value {
    serde_json::json!({"metadata": {"name": name}})
}
