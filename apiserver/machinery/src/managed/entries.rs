//! The list `metadata.managedFields`: reading, writing in upstream's order, and the cap on managers of updates.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::FieldSet;

/// More managers of updates than this are merged, the oldest first.
const MAX_UPDATE_MANAGERS: usize = 10;
const MERGED_MANAGER: &str = "ancient-changes";

/// Why `managedFields` was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryError(pub String);

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply: fields it stops naming are removed.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who owns fields. Appliers have no API version here, so that one applier has one entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId {
    /// The field manager's name.
    pub manager: String,
    /// How it wrote.
    pub operation: Operation,
    /// The version it wrote in; empty for appliers.
    pub api_version: String,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
}

impl OwnerId {
    /// The owner as conflicts name it.
    pub fn text(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        match self.operation {
            Operation::Update => format!("{text} using {}", self.api_version),
            Operation::Apply => text,
        }
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub fields: FieldSet,
    /// The version their paths are of.
    pub api_version: String,
    /// RFC 3339, to the second; absent in entries written without it.
    pub time: Option<String>,
}

/// All managers of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Managers {
    /// By identity.
    pub owners: BTreeMap<OwnerId, Owned>,
}

impl Managers {
    /// Reads `metadata.managedFields`; an absent or empty list has no managers.
    pub fn decode(list: Option<&Value>) -> Result<Self, EntryError> {
        let mut managers = Managers::default();
        for (index, entry) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let operation = match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(EntryError("operation must be `Apply` or `Update`".to_owned())),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(EntryError("apiVersion must not be empty".to_owned()));
            }
            match text("fieldsType").as_str() {
                "FieldsV1" => {}
                "" => return Err(EntryError(format!("missing fieldsType in managed fields entry {index}"))),
                other => {
                    return Err(EntryError(format!(
                        "invalid fieldsType {other:?} in managed fields entry {index}"
                    )));
                }
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::from_json(fields)?,
            };
            let id = OwnerId {
                manager: text("manager"),
                operation,
                api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
                subresource: text("subresource"),
            };
            let time = Some(text("time")).filter(|t| !t.is_empty());
            managers.owners.insert(id, Owned { fields, api_version, time });
        }
        Ok(managers)
    }

    /// The list for `metadata.managedFields`; `None` when nobody owns anything.
    ///
    /// Appliers come first, then by time, name, version and subresource.
    pub fn encode(&self) -> Option<Value> {
        let mut owners: Vec<(&OwnerId, &Owned)> = self.owners.iter().collect();
        owners.sort_by(|(a, ao), (b, bo)| {
            let key = |id: &OwnerId, owned: &Owned| {
                (
                    id.operation,
                    owned.time.clone(),
                    id.manager.clone(),
                    owned.api_version.clone(),
                    id.subresource.clone(),
                )
            };
            key(a, ao).cmp(&key(b, bo))
        });
        let entries: Vec<Value> = owners.into_iter().map(|(id, owned)| encode_entry(id, owned)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    /// Takes away managers that own nothing.
    pub fn drop_empty(&mut self) {
        self.owners.retain(|_, owned| !owned.fields.is_empty());
    }

    /// Merges the oldest update managers of a version into `ancient-changes` until no more than ten remain.
    pub fn cap_updates(&mut self) {
        let mut updaters: Vec<OwnerId> =
            self.owners.keys().filter(|id| id.operation == Operation::Update).cloned().collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_key(|id| (self.owners.get(id).and_then(|o| o.time.clone()), id.clone()));
        let mut first_of_version: BTreeMap<String, OwnerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let version = id.api_version.clone();
            let Some(first) = first_of_version.get(&version).cloned() else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = OwnerId {
                manager: MERGED_MANAGER.to_owned(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.owners.contains_key(&bucket)
                && let Some(oldest) = self.owners.remove(&first)
            {
                self.owners.insert(bucket.clone(), oldest);
            }
            if id == bucket {
                continue;
            }
            if let Some(merged) = self.owners.remove(&id)
                && let Some(owned) = self.owners.get_mut(&bucket)
            {
                owned.fields = owned.fields.union(&merged.fields);
                owned.time = merged.time;
                count -= 1;
            }
        }
    }
}

fn encode_entry(id: &OwnerId, owned: &Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".to_owned(), json!(id.manager));
    entry.insert("operation".to_owned(), json!(id.operation.text()));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), json!(time));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.fields.to_json());
    if !id.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(id.subresource));
    }
    Value::Object(entry)
}

/// Whether a write asks to forget all managers: `managedFields: []` or `[{}]`.
pub(crate) fn is_reset(list: Option<&Value>) -> bool {
    let Some(Value::Array(entries)) = list else { return false };
    match entries.as_slice() {
        [] => true,
        [Value::Object(only)] => only.values().all(|v| v.is_null() || v.as_str() == Some("")),
        _ => false,
    }
}
