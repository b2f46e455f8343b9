//! Server-side apply, and who owns which field after every other kind of write.
//!
//! The behaviour is that of structured-merge-diff under kube-apiserver: a manager's apply sets what it names, removes
//! what it named before and nobody else owns, and conflicts where another manager owns a field of a different value.

mod check;
mod compare;
mod conflict;
mod last_applied;
mod merge;
mod ownership;
mod prune;
mod shape;

use serde_json::{Map, Value};

use crate::defaults;
use crate::managed::{FieldSet, Managers, Operation, Owned, OwnerId, is_reset, same_value};
use crate::schema::Schema;
use crate::status::Status;

use conflict::Conflict;

/// Who writes, through which door and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The field manager; empty counts as `unknown`.
    pub manager: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The version the object is in, for example `apps/v1`.
    pub api_version: &'a str,
    /// Whether `status` is a subresource, so that writes to the object itself never own it.
    pub has_status: bool,
    /// The time of the write.
    pub now: jiff::Timestamp,
}

impl Writer<'_> {
    fn owner(&self, operation: Operation) -> OwnerId {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        OwnerId {
            manager: manager.to_owned(),
            operation,
            api_version: if operation == Operation::Apply {
                String::new()
            } else {
                self.api_version.to_owned()
            },
            subresource: self.subresource.to_owned(),
        }
    }

    fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Leaves only fields that this door writes.
    fn visible(&self, set: FieldSet) -> FieldSet {
        match self.subresource {
            "" if self.has_status => set.difference_with_children(&FieldSet::of([&[
                crate::managed::PathElement::field("status"),
            ][..]])),
            "status" => set.only("status"),
            _ => set,
        }
    }
}

/// Writes `metadata.managedFields` of `new` after a create, update or patch that turned `live` into it.
///
/// Objects that nobody owns stay so until their first apply, as upstream has it; a create always begins to track. The
/// lists `[]` and `[{}]` in `new` forget all owners.
pub fn update_managed(schema: &Schema, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let listed = take_managed_fields(new);
    let before = live.and_then(managed_fields);
    let managers = if !writer.subresource.is_empty() {
        Managers::decode(before).unwrap_or_default()
    } else if is_reset(listed.as_ref()) {
        Managers::default()
    } else {
        match Managers::decode(listed.as_ref()) {
            Ok(managers) if !managers.owners.is_empty() => managers,
            _ => Managers::decode(before).unwrap_or_default(),
        }
    };
    let managers = if managers.owners.is_empty() && live.is_some() {
        managers
    } else {
        let base = live.map_or_else(|| defaults::zero(schema), without_managed_fields);
        let mut managers = ownership::after_update(schema, &base, new, managers, writer);
        managers.cap_updates();
        managers
    };
    put_managed_fields(new, &managers);
}

/// The object after `applied` was applied to `live`; without `live`, the object to create.
///
/// When nothing changes, the result equals `live`, times included.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Status> {
    check::body(schema, applied, writer)?;
    let decoded = Managers::decode(live.and_then(managed_fields));
    let mut managers =
        decoded.map_err(|e| Status::internal(format!("failed to decode managed fields: {e}")))?;
    let empty = Value::Object(Map::new());
    let bare = live.map_or_else(|| empty.clone(), without_managed_fields);
    if managers.owners.is_empty() && live.is_some() {
        let first = Writer { manager: "before-first-apply", ..*writer };
        managers = ownership::after_update(schema, &defaults::zero(schema), &bare, managers, &first);
    }
    let mut result = applied_to(schema, &bare, applied, managers.clone(), writer, force);
    if let Err(Failed::Conflicts(conflicts)) = &result
        && writer.manager == "kubectl"
        && let Some(ours) = last_applied::owned_by_client_side_apply(schema, &bare, writer.api_version)
    {
        let left: Vec<Conflict> = conflicts.iter().filter(|c| !ours.contains(&c.path)).cloned().collect();
        result = if left.is_empty() {
            applied_to(schema, &bare, applied, managers, writer, true)
        } else {
            Err(Failed::Conflicts(left))
        };
    }
    let (mut object, managers) = match result {
        Ok(done) => done,
        Err(Failed::Conflicts(conflicts)) => return Err(conflict::status(&conflicts)),
        Err(Failed::Malformed(message)) => return Err(Status::bad_request(message)),
    };
    if writer.manager == "kubectl" {
        last_applied::sync(&mut object, applied);
    }
    put_managed_fields(&mut object, &managers);
    Ok(object)
}

/// `live` with every field of `applied`, owned by nobody: what a MutatingAdmissionPolicy's configuration makes of an
/// object. The error says what of `applied` is not of the schema, or would replace a whole list or map.
pub fn lay_over(schema: &Schema, live: &Value, applied: &Value) -> Result<Value, String> {
    check::fields(schema, applied)?;
    let whole = check::wholes(schema, applied);
    if !whole.is_empty() {
        let list = whole.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {list}"
        ));
    }
    let mut merged =
        merge::merge(schema, live, applied).map_err(|error| format!("failed to merge patch: {error}"))?;
    merge::drop_nulls(Some(schema), &mut merged, true);
    Ok(merged)
}

enum Failed {
    Conflicts(Vec<Conflict>),
    Malformed(String),
}

fn applied_to(
    schema: &Schema,
    live: &Value,
    applied: &Value,
    mut managers: Managers,
    writer: &Writer<'_>,
    force: bool,
) -> Result<(Value, Managers), Failed> {
    ownership::reconcile(schema, &mut managers);
    let merged = merge::merge(schema, live, applied)
        .map_err(|e| Failed::Malformed(format!("failed to merge config: {e}")))?;
    let owner = writer.owner(Operation::Apply);
    let last = managers.owners.get(&owner).cloned();
    let fields = writer.visible(compare::field_set(schema, applied));
    let owned = Owned {
        fields,
        api_version: writer.api_version.to_owned(),
        time: last.as_ref().and_then(|l| l.time.clone()).or_else(|| Some(writer.time())),
    };
    managers.owners.insert(owner.clone(), owned);
    let mut new = match &last {
        Some(last) if !last.fields.is_empty() => prune::prune(schema, merged, &managers, &last.fields),
        _ => merged,
    };
    let comparison = compare::compare(schema, live, &new).filtered(writer);
    let conflicts = ownership::conflicts(&managers, &comparison, &owner);
    if !force && !conflicts.is_empty() {
        return Err(Failed::Conflicts(conflicts));
    }
    ownership::take_over(&mut managers, &comparison, &owner);
    ownership::strip_metadata(&mut managers, &owner);
    merge::drop_nulls(Some(schema), &mut new, true);
    let changed = !same_value(live, &new);
    if changed && let Some(owned) = managers.owners.get_mut(&owner) {
        owned.time = Some(writer.time());
    }
    Ok((if changed { new } else { live.clone() }, managers))
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn without_managed_fields(object: &Value) -> Value {
    let mut bare = object.clone();
    take_managed_fields(&mut bare);
    bare
}

fn put_managed_fields(object: &mut Value, managers: &Managers) {
    let Some(fields) = object.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return };
    match managers.encode() {
        Some(list) => metadata.insert("managedFields".to_owned(), list),
        None => metadata.remove("managedFields"),
    };
}

#[cfg(test)]
mod tests;
