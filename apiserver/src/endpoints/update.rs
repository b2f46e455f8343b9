//! `PUT`, and the part of every change to an existing object that follows it: preconditions, subresources, the store.

use std::sync::Arc;

use bytes::Bytes;
use litek8s_machinery::apply::update_managed;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;
use litek8s_store::{Command, Object, Outcome, Precondition, Rejection, View};
use serde_json::Value;

use super::create::{create_object, match_namespace};
use super::generation::{desired_differs, is_no_op};
use super::options::WriteOptions;
use super::write::{ATTEMPTS, Writing, Written, rejected};
use super::{Call, input, metadata, reads};
use crate::admission::{self, Operation};
use crate::authorization::Attributes;
use crate::response::{Failure, Response};
use crate::strategy::Change;

/// Replaces the object in the URL by the one in the body.
pub(crate) async fn update(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let options = WriteOptions::parse(&call.ctx.info.query, "UpdateOptions", false)?;
    let mut object = input::object(call, body, options.field_validation)?;
    match_namespace(&mut object, call.namespace())?;
    match_name(call, &object)?;
    let writing = Writing::new(call, options);
    let create = call.served.resource.creates_on_update && writing.subresource().is_empty();
    let proposal = |_: Option<&Value>| Ok(Proposal { object: object.clone(), owned: false });
    change(&writing, create, proposal).await?.answer(call)
}

/// What an object is to become.
pub(crate) struct Proposal {
    /// The object; its resource version and uid are preconditions.
    pub(crate) object: Value,
    /// Whether its managed fields are settled already.
    pub(crate) owned: bool,
}

/// Changes the object in the URL into what `propose` makes of it; tried again while other writes come between.
///
/// `create` is whether a missing object is created from `propose(None)`.
pub(crate) async fn change(
    writing: &Writing<'_>,
    create: bool,
    mut propose: impl FnMut(Option<&Value>) -> Result<Proposal, Failure>,
) -> Result<Written, Failure> {
    let call = writing.call;
    let key = call.served.object_key(call.namespace(), call.name());
    for _ in 0..ATTEMPTS {
        let view = reads::newest(&call.api.replica).await?;
        let Some(current) = view.get(&key) else {
            if !create {
                return Err(call.not_found());
            }
            let Proposal { object, owned } = propose(None)?;
            check_uid(call, &object, "")?;
            // The right to change an object is none to make one.
            let wanted = Attributes { verb: "create", ..Attributes::from(&call.ctx.info) };
            call.api.authorizer.demand(&call.ctx.user, &wanted, &view)?;
            match create_object(writing, object, owned).await {
                Err(status) if status.reason == litek8s_machinery::status::Reason::AlreadyExists => continue,
                other => return other,
            }
        };
        let old = call.served.value(current)?;
        let proposal = propose(Some(&old))?;
        match once(writing, &view, current, &old, proposal).await? {
            Some(written) => return Ok(written),
            None => continue,
        }
    }
    Err(Status::modified(&call.group_resource(), call.name()))
}

/// One try; `None` when another write came between.
async fn once(
    writing: &Writing<'_>,
    view: &View,
    current: &Arc<Object>,
    old: &Value,
    proposal: Proposal,
) -> Result<Option<Written>, Failure> {
    let call = writing.call;
    let served = &call.served;
    let Proposal { object: mut new, owned } = proposal;
    check_preconditions(call, &new, current)?;
    keep_system_fields(&mut new, old);
    separate_subresources(writing, &mut new, old);
    metadata::drop_duplicate_owners(&mut new, &call.ctx.warnings);
    if !owned {
        update_managed(served.resource.schema.get(), Some(old), &mut new, &writing.writer());
    }
    let cx = writing.context(view);
    let options = writing.options_object();
    let attributes = admission::Attributes {
        cx: &cx,
        served,
        operation: Operation::Update,
        name: call.name(),
        old: Some(old),
        options: &options,
    };
    if admission::mutate(&attributes, &mut new).await? {
        keep_system_fields(&mut new, old);
        separate_subresources(writing, &mut new, old);
    }
    served.strategy.prepare_update(&cx, &mut new, old)?;
    // A pod that is put on a node is desired as before.
    let counts = served.resource.counts_generation && writing.subresource() != "binding";
    if counts && desired_differs(old, &new, served.resource.has_status) {
        let next = current.meta.generation.max(0) + 1;
        metadata::set(&mut new, "generation", Some(Value::from(next)));
    }
    writing.validate(&cx, &new, Some(old))?;
    served.strategy.authorize(&cx, &new, Some(old))?;
    admission::judge(&attributes, Some(&new)).await?;
    let precondition =
        Precondition { uid: Some(current.meta.uid.as_str().into()), revision: Some(current.revision) };
    let ends = ends_with_this(writing, &new, old);
    if !ends && is_no_op(old, &new) {
        return Ok(Some(Written::Stored { object: current.clone(), created: false }));
    }
    let counted = !ends && matches!(writing.subresource(), "" | "resize");
    let _turn = if counted { admission::enter(&cx).await } else { None };
    let charges = if counted {
        let now = call.api.replica.view();
        admission::quota::charge(&now, served, call.namespace(), &new, Some(old))?
    } else {
        Vec::new()
    };
    if writing.options.dry_run {
        writing.check_size(new.to_string().len(), current.json.len())?;
        return Ok(Some(Written::Shown { value: new, created: false }));
    }
    let key = current.key.clone();
    let command = if ends {
        Command::Delete { key, precondition }
    } else {
        let claims = served.strategy.claims(&new);
        let object = served.stored(&mut new)?;
        writing.check_size(object.len(), current.json.len())?;
        Command::Update { key, object, precondition, claims }
    };
    match writing.propose_charged(charges, command).await? {
        Outcome::Rejected(
            Rejection::RevisionMismatch { .. } | Rejection::UidMismatch { .. } | Rejection::NotFound,
        ) => Ok(None),
        // Somebody else took what was allocated here: allocate again.
        Outcome::Rejected(Rejection::Claimed { .. }) => Ok(None),
        Outcome::Rejected(other) => Err(rejected(call, call.name(), &other)),
        Outcome::Deleted(_) => {
            writing.after(Change::Deleted(&new));
            Ok(Some(Written::Shown { value: new, created: false }))
        }
        Outcome::Created(_) | Outcome::Batch(_) => {
            Err(Status::internal("the store answered an update with something else"))
        }
        Outcome::Updated(object) => {
            writing.after(Change::Stored(&new));
            Ok(Some(Written::Stored { object, created: false }))
        }
    }
}

/// 409 when the object is not the one, or not as, the client saw it.
fn check_preconditions(call: &Call<'_>, new: &Value, current: &Object) -> Result<(), Failure> {
    check_uid(call, new, &current.meta.uid)?;
    let given = metadata::text(new, "resourceVersion");
    if matches!(given, "" | "0") {
        if call.served.resource.unconditional_update {
            return Ok(());
        }
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let resource = &call.served.resource;
        // Upstream names the resource where the kind belongs.
        let gk = GroupKind::new(resource.group.clone(), resource.plural.clone());
        return Err(Status::invalid(&gk, call.name(), &[error]));
    }
    if given.parse() != Ok(current.revision) {
        return Err(Status::modified(&call.group_resource(), call.name()));
    }
    Ok(())
}

fn check_uid(call: &Call<'_>, new: &Value, current: &str) -> Result<(), Failure> {
    let given = metadata::text(new, "uid");
    if given.is_empty() || given == current {
        return Ok(());
    }
    let why = if current.is_empty() {
        format!("uid mismatch: the provided object specified uid {given}, and no existing object was found")
    } else {
        format!("Precondition failed: UID in precondition: {given}, UID in object meta: {current}")
    };
    Err(Status::conflict(&call.group_resource(), call.name(), why))
}

/// The name in the body must be the one in the URL.
pub(crate) fn match_name(call: &Call<'_>, object: &Value) -> Result<(), Failure> {
    let given = metadata::text(object, "name");
    if given == call.name() {
        return Ok(());
    }
    if given.is_empty() {
        let name = call.name();
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    let message =
        format!("the name of the object ({given}) does not match the name on the URL ({})", call.name());
    Err(Status::bad_request(message))
}

/// What no update changes stays as it was.
fn keep_system_fields(new: &mut Value, old: &Value) {
    const FIXED: [&str; 7] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "namespace",
        "name",
    ];
    for field in FIXED {
        metadata::set(new, field, metadata::field(old, field).cloned());
    }
    metadata::set(new, "selfLink", None);
    metadata::set(new, "resourceVersion", metadata::field(old, "resourceVersion").cloned());
}

/// Leaves in `new` only what may be written through this door.
fn separate_subresources(writing: &Writing<'_>, new: &mut Value, old: &Value) {
    let resource = &writing.call.served.resource;
    match writing.subresource() {
        "" if resource.has_status => put(new, "status", old.get("status").cloned()),
        "status" => {
            let mut kept = old.clone();
            put(&mut kept, "status", new.get("status").cloned());
            if resource.custom {
                // Of the metadata a custom resource's status takes only who owns what.
                metadata::set(&mut kept, "managedFields", metadata::field(new, "managedFields").cloned());
            } else {
                put(&mut kept, "metadata", new.get("metadata").cloned());
            }
            *new = kept;
        }
        "finalize" => {
            let finalizers = new.get("spec").and_then(|s| s.get("finalizers")).cloned();
            let mut kept = old.clone();
            metadata::set(&mut kept, "managedFields", metadata::field(new, "managedFields").cloned());
            put(metadata::object(&mut kept, "spec"), "finalizers", finalizers);
            *new = kept;
        }
        _ => {}
    }
}

fn put(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    }
}

/// Whether the update takes the last thing away that kept a deleted object.
fn ends_with_this(writing: &Writing<'_>, new: &Value, old: &Value) -> bool {
    metadata::is_deleting(old)
        && metadata::finalizers(new).is_empty()
        && metadata::grace_period(old).unwrap_or(0) == 0
        && !writing.call.served.strategy.held(new)
}
