//! Spreading endpoints over slices so that as few slices as possible are written: every write of one goes to every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use litek8s_store::Object;
use serde_json::{Value, json};

use super::super::read;
use super::endpoint::is_same;
use super::{Identity, MOST, Wanted, identity};

/// The endpoints with the same ports.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The ports.
    pub(super) ports: Vec<Value>,
    /// The endpoints.
    pub(super) endpoints: BTreeMap<Identity, Wanted>,
}

/// A slice as it is.
#[derive(Debug)]
pub(super) struct Slice<'a> {
    pub(super) object: &'a Arc<Object>,
    pub(super) value: Value,
}

impl<'a> Slice<'a> {
    pub(super) fn read(object: &'a Arc<Object>) -> Option<Self> {
        Some(Self { object, value: read::value(object)? })
    }

    /// Whether it says that there is no endpoint, and that as it should.
    pub(super) fn is_empty(&self, labels: &BTreeMap<String, String>) -> bool {
        let nothing = |field: &str| read::list(&self.value[field]).is_empty();
        nothing("endpoints") && nothing("ports") && self.object.meta.labels == *labels
    }
}

/// The writes that slices need.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) create: Vec<Value>,
    pub(super) update: Vec<Value>,
    pub(super) delete: Vec<Arc<Object>>,
    /// When the earliest of what they tell happened.
    pub(super) trigger: Option<String>,
}

impl Packed {
    /// Both together.
    pub(super) fn append(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
        self.tell(other.trigger.as_ref());
    }

    fn tell(&mut self, since: Option<&String>) {
        let earliest = self.trigger.iter().chain(since).min();
        self.trigger = earliest.cloned();
    }

    /// A slice that would go becomes one that would be made; both are of one family.
    pub(super) fn recycle(&mut self) {
        let spare = self.delete.len().min(self.create.len());
        let slices = self.create.drain(..spare);
        for (mut slice, object) in slices.zip(self.delete.drain(..spare)) {
            let meta = &mut slice["metadata"];
            meta["name"] = json!(&*object.key.name);
            meta["resourceVersion"] = json!(object.revision.to_string());
            meta["uid"] = json!(object.meta.uid);
            self.update.push(slice);
        }
    }
}

/// A slice while it is filled.
struct Draft<'a> {
    object: &'a Arc<Object>,
    value: Value,
    endpoints: Vec<Value>,
    changed: bool,
}

/// Spreads endpoints over the slices that have their ports; what finds no place goes into copies of `fresh`.
pub(super) fn pack(
    slices: Vec<Slice<'_>>,
    mut wanted: BTreeMap<Identity, Wanted>,
    labels: &BTreeMap<String, String>,
    fresh: &Value,
) -> Packed {
    let mut packed = Packed::default();
    let mut drafts = Vec::new();
    for slice in slices {
        let stored = read::list(&slice.value["endpoints"]);
        let mut changed = slice.object.meta.labels != *labels;
        let mut endpoints = Vec::with_capacity(stored.len());
        for endpoint in stored {
            // Taken out: an endpoint that two slices have is kept in the first.
            let Some(now) = wanted.remove(&identity(endpoint)) else { continue };
            if !is_same(&now.value, endpoint) {
                changed = true;
                packed.tell(now.since.as_ref());
            }
            endpoints.push(now.value);
        }
        changed |= endpoints.len() != stored.len();
        if endpoints.is_empty() && !stored.is_empty() {
            packed.delete.push(slice.object.clone());
            continue;
        }
        drafts.push(Draft { object: slice.object, value: slice.value, endpoints, changed });
    }
    wanted.values().for_each(|new| packed.tell(new.since.as_ref()));
    let mut rest: Vec<Value> = wanted.into_values().map(|new| new.value).collect();
    fill(&mut drafts, &mut rest);
    for draft in drafts.into_iter().filter(|draft| draft.changed) {
        let mut slice = draft.value;
        slice["metadata"]["labels"] = json!(labels);
        slice["metadata"]["resourceVersion"] = json!(draft.object.revision.to_string());
        slice["endpoints"] = Value::Array(draft.endpoints);
        packed.update.push(slice);
    }
    while !rest.is_empty() {
        let mut slice = fresh.clone();
        slice["endpoints"] = rest.drain(..rest.len().min(MOST)).collect();
        packed.create.push(slice);
    }
    packed
}

/// Puts what is left into slices that are written anyway, the fullest first, and then into one more if it fits there.
fn fill(drafts: &mut [Draft<'_>], rest: &mut Vec<Value>) {
    let mut changed: Vec<&mut Draft<'_>> = drafts.iter_mut().filter(|draft| draft.changed).collect();
    changed.sort_by_key(|draft| std::cmp::Reverse(draft.endpoints.len()));
    for draft in changed {
        let room = MOST.saturating_sub(draft.endpoints.len()).min(rest.len());
        draft.endpoints.extend(rest.drain(..room));
    }
    if rest.is_empty() {
        return;
    }
    // Whole slices are new ones; only the last, incomplete one looks for a place.
    let last = rest.len() % MOST;
    let fits = |draft: &&mut Draft<'_>| !draft.changed && draft.endpoints.len() + last <= MOST;
    let fullest = drafts.iter_mut().filter(fits).max_by_key(|draft| draft.endpoints.len());
    if last > 0
        && let Some(draft) = fullest
    {
        draft.endpoints.extend(rest.drain(rest.len() - last..));
        draft.changed = true;
    }
}
