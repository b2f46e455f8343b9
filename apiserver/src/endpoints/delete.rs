//! `DELETE` of one object: preconditions, grace, finalizers for the garbage collector, and the end.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use litek8s_machinery::status::{self, Status};
use litek8s_store::{Command, Object, Outcome, Precondition, Rejection};
use serde_json::Value;

use super::delete_options::{DeleteOptions, Propagation};
use super::options::{FieldValidation, WriteOptions};
use super::write::{ATTEMPTS, Writing, rejected};
use super::{Call, answer, metadata, reads};
use crate::admission::{self, Attributes, Operation};
use crate::response::{Failure, Response};
use crate::strategy::Change;
use crate::time::seconds_after;

/// The finalizer that keeps an object until its dependents are orphans.
const ORPHAN: &str = "orphan";
/// The finalizer that keeps an object until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";

/// Deletes the object in the URL.
pub(crate) async fn delete(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let options = DeleteOptions::parse(call, body)?;
    let writing = writing(call, &options);
    let deleted = delete_object(&writing, call.name(), call.namespace(), &options).await?;
    deleted.answer(call, &options)
}

/// The write that a delete is.
pub(crate) fn writing<'a>(call: &'a Call<'a>, options: &DeleteOptions) -> Writing<'a> {
    let options = WriteOptions {
        dry_run: options.is_dry_run(),
        field_manager: String::new(),
        field_validation: FieldValidation::Ignore,
        force: None,
    };
    Writing::new(call, options)
}

/// What became of a deleted object.
pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Object>),
    /// It is marked and waits for its finalizers or its grace.
    Waiting(Arc<Object>),
    /// It would be marked like this.
    Shown(Value),
}

impl Deleted {
    fn answer(self, call: &Call<'_>, options: &DeleteOptions) -> Result<Response, Failure> {
        match self {
            Self::Gone(object) if call.served.strategy.returns_deleted() => {
                answer::object(call, StatusCode::OK, &object)
            }
            Self::Gone(object) => {
                let done = status::success(&call.group_resource(), &object.key.name, &object.meta.uid);
                Ok(answer::plain(call, StatusCode::OK, &done))
            }
            Self::Waiting(object) => {
                // Only the old option is told that deletion goes on; other clients would not expect it.
                let accepted = options.orphan_dependents == Some(false);
                answer::object(call, if accepted { StatusCode::ACCEPTED } else { StatusCode::OK }, &object)
            }
            Self::Shown(value) => answer::value(call, StatusCode::OK, value),
        }
    }
}

/// Deletes one object; tried again while other writes come between.
pub(crate) async fn delete_object(
    writing: &Writing<'_>,
    name: &str,
    namespace: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Failure> {
    let call = writing.call;
    let key = call.served.object_key(namespace, name);
    let missing = || Status::not_found(&call.group_resource(), name);
    for _ in 0..ATTEMPTS {
        let view = reads::newest(&call.api.replica).await?;
        let current = view.get(&key).ok_or_else(missing)?;
        check_preconditions(call, options, &current.meta.uid, &current.revision.to_string())?;
        let old = call.served.value(current)?;
        let cx = writing.context(&view);
        let options_object = writing.options_object();
        let attributes = Attributes {
            cx: &cx,
            served: &call.served,
            operation: Operation::Delete,
            name,
            old: Some(&old),
            options: &options_object,
        };
        admission::judge(&attributes, None).await?;
        let mut step = next_step(writing, options, &old);
        let precondition =
            Precondition { uid: Some(current.meta.uid.as_str().into()), revision: Some(current.revision) };
        let command = match &mut step {
            Step::Nothing => return Ok(Deleted::Waiting(current.clone())),
            Step::Remove if writing.options.dry_run => return Ok(Deleted::Gone(current.clone())),
            Step::Mark(value) if writing.options.dry_run => return Ok(Deleted::Shown(value.clone())),
            Step::Remove => Command::Delete { key: key.clone(), precondition },
            Step::Mark(value) => {
                let claims = current.claims.to_vec();
                Command::Update { key: key.clone(), object: call.served.stored(value)?, precondition, claims }
            }
        };
        match writing.propose(command).await? {
            Outcome::Deleted(object) => {
                writing.after(Change::Deleted(&old));
                return Ok(Deleted::Gone(object));
            }
            Outcome::Updated(object) => {
                if let Step::Mark(value) = &step {
                    writing.after(Change::Stored(value));
                }
                return Ok(Deleted::Waiting(object));
            }
            Outcome::Rejected(Rejection::RevisionMismatch { .. } | Rejection::UidMismatch { .. }) => {}
            Outcome::Rejected(other) => return Err(rejected(call, name, &other)),
            Outcome::Created(_) | Outcome::Batch(_) => {
                return Err(Status::internal("the store answered a delete with something else"));
            }
        }
    }
    Err(Status::modified(&call.group_resource(), name))
}

/// 409 unless the object, of this uid and version now, is what the client wants to delete.
pub(crate) fn check_preconditions(
    call: &Call<'_>,
    options: &DeleteOptions,
    current_uid: &str,
    current_version: &str,
) -> Result<(), Failure> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let name = call.name();
    // Upstream says the kind here, where every other message says the resource.
    let resource = &call.served.resource;
    let kind = litek8s_machinery::gvk::GroupResource::new(resource.group.clone(), resource.kind.clone());
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != current_uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({current_uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(Status::conflict(&kind, name, why));
    }
    if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != current_version) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({current_version}). The object might have been modified"
        );
        return Err(Status::conflict(&kind, name, why));
    }
    Ok(())
}

/// What a delete does to an object.
enum Step {
    /// Nothing: its deletion is under way.
    Nothing,
    /// It becomes this, and waits.
    Mark(Value),
    /// It goes.
    Remove,
}

fn next_step(writing: &Writing<'_>, options: &DeleteOptions, old: &Value) -> Step {
    let strategy = &writing.call.served.strategy;
    let mut new = old.clone();
    let asked = options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
    let deleting = metadata::is_deleting(old);
    let graceful = match metadata::grace_period(old).filter(|_| deleting) {
        // Grace was given before: it can only become shorter.
        Some(left) if left > 0 => match asked {
            Some(seconds) if seconds < left => Some(seconds),
            _ => return Step::Nothing,
        },
        _ if deleting => None,
        _ => strategy.grace_period(old, asked),
    };
    let undecided = !metadata::finalizers(old).iter().any(|f| matches!(*f, ORPHAN | FOREGROUND));
    let by_itself = (undecided && strategy.orphans_by_default()).then_some(Propagation::Orphan);
    set_gc_finalizers(&mut new, options.propagation().or(by_itself));
    let waits = !metadata::finalizers(&new).is_empty() || strategy.held(&new);
    match graceful {
        Some(seconds) if seconds > 0 || waits => mark(writing, &mut new, seconds, deleting),
        None | Some(_) if waits => mark(writing, &mut new, 0, deleting),
        None | Some(_) => return Step::Remove,
    }
    strategy.mark_deleting(&mut new);
    if new == *old { Step::Nothing } else { Step::Mark(new) }
}

fn mark(writing: &Writing<'_>, object: &mut Value, grace: i64, deleting: bool) {
    let at = seconds_after(writing.now, grace);
    if !deleting {
        metadata::bump_generation(object);
    }
    let earlier = metadata::field(object, "deletionTimestamp")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .is_some_and(|before| before <= at);
    if !earlier {
        metadata::set(object, "deletionTimestamp", Some(Value::from(metadata::time(at))));
    }
    metadata::set(object, "deletionGracePeriodSeconds", Some(Value::from(grace)));
}

/// Puts the garbage collector's finalizers as the propagation says; without one they stay as they are.
fn set_gc_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let mut finalizers: Vec<String> = metadata::finalizers(object)
        .into_iter()
        .filter(|f| !matches!(*f, ORPHAN | FOREGROUND))
        .map(str::to_owned)
        .collect();
    match propagation {
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    let value = (!finalizers.is_empty()).then(|| Value::from(finalizers));
    metadata::set(object, "finalizers", value);
}
