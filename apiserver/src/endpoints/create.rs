//! `POST` to a collection: system fields, a name, admission, validation, and the store; retried with new names.

use bytes::Bytes;
use litek8s_machinery::apply::update_managed;
use litek8s_machinery::defaults;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::{Reason, Status};
use litek8s_store::{Command, ObjectKey, Outcome, Precondition, Rejection, View};
use serde_json::Value;

use super::options::WriteOptions;
use super::write::{ATTEMPTS, Writing, Written, rejected};
use super::{Call, input, metadata, reads};
use crate::admission::{self, Attributes, Operation};
use crate::response::{Failure, Response};
use crate::strategy::Change;

/// How many names are tried for a `generateName`.
const NAMES: usize = 8;
/// The longest prefix of a generated name: what is longer is cut.
const GENERATE_NAME_MAX: usize = 58;
/// The characters of a generated name's end: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Creates the object in the body.
pub(crate) async fn create(call: &Call<'_>, body: &Bytes) -> Result<Response, Failure> {
    let options = WriteOptions::parse(&call.ctx.info.query, "CreateOptions", false)?;
    let mut object = input::object(call, body, options.field_validation)?;
    if !metadata::text(&object, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(500, Reason::Unknown, message));
    }
    match_namespace(&mut object, call.namespace())?;
    let writing = Writing::new(call, options);
    create_object(&writing, object, false).await?.answer(call)
}

/// Creates an object that is decoded, pruned and defaulted.
///
/// `owned` is whether its managed fields are settled already, as after an apply.
pub(crate) async fn create_object(
    writing: &Writing<'_>,
    object: Value,
    owned: bool,
) -> Result<Written, Failure> {
    let call = writing.call;
    let generate = metadata::text(&object, "generateName").to_owned();
    let generated = metadata::text(&object, "name").is_empty() && !generate.is_empty();
    let mut names_left = NAMES;
    for _ in 0..ATTEMPTS {
        let view = reads::newest(&call.api.replica).await?;
        let mut new = object.clone();
        if generated {
            metadata::set(&mut new, "name", Some(Value::from(random_name(&generate))));
        }
        prepare(writing, &view, &mut new, owned).await?;
        let key = call.served.object_key(call.namespace(), metadata::text(&new, "name"));
        // Nobody else writes between counting and storing; what others stored before is seen.
        let _turn = admission::enter(&writing.context(&view)).await;
        let now = call.api.replica.view();
        let charges = admission::quota::charge(&now, &call.served, call.namespace(), &new, None)?;
        if writing.options.dry_run {
            writing.check_size(new.to_string().len(), 0)?;
            return match view.get(&key) {
                Some(_) => Err(taken(call, &view, &key, generated)),
                None => Ok(Written::Shown { value: new, created: true }),
            };
        }
        let claims = call.served.strategy.claims(&new);
        let stored = call.served.stored(&mut new)?;
        writing.check_size(stored.len(), 0)?;
        let command = Command::Create { key: key.clone(), object: stored, claims };
        match writing.propose_charged(charges, command).await? {
            Outcome::Rejected(Rejection::AlreadyExists) => {
                names_left = names_left.saturating_sub(1);
                if !generated || names_left == 0 {
                    return Err(taken(call, &call.api.replica.view(), &key, generated));
                }
            }
            // Somebody else took what was allocated here, or changed a quota: once more.
            Outcome::Rejected(
                Rejection::Claimed { .. }
                | Rejection::RevisionMismatch { .. }
                | Rejection::UidMismatch { .. }
                | Rejection::NotFound,
            ) => {}
            Outcome::Rejected(other) => return Err(rejected(call, &key.name, &other)),
            Outcome::Updated(_) | Outcome::Deleted(_) | Outcome::Batch(_) => {
                return Err(Status::internal("the store answered a create with something else"));
            }
            Outcome::Created(stored) => {
                undo_if_homeless(writing, &key, &stored.meta.uid).await?;
                writing.after(Change::Stored(&new));
                return Ok(Written::Stored { object: stored, created: true });
            }
        }
    }
    Err(Status::server_timeout(&call.group_resource(), "create", 1))
}

/// Settles everything about a new object and checks it.
async fn prepare(writing: &Writing<'_>, view: &View, object: &mut Value, owned: bool) -> Result<(), Failure> {
    let call = writing.call;
    let served = &call.served;
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"]
    {
        metadata::set(object, field, None);
    }
    metadata::set(object, "uid", Some(Value::from(uuid::Uuid::new_v4().to_string())));
    metadata::set(object, "creationTimestamp", Some(Value::from(metadata::time(writing.now))));
    if served.resource.counts_generation {
        metadata::set(object, "generation", Some(Value::from(1)));
    }
    if served.resource.namespaced {
        metadata::set(object, "namespace", Some(Value::from(call.namespace())));
    } else {
        metadata::set(object, "namespace", None);
    }
    if served.resource.has_status
        && !served.strategy.keeps_status()
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
        if !served.resource.custom {
            defaults::apply(served.resource.schema.get(), object);
        }
    }
    metadata::drop_duplicate_owners(object, &call.ctx.warnings);
    if !owned {
        update_managed(served.resource.schema.get(), None, object, &writing.writer());
    }
    let cx = writing.context(view);
    let options = writing.options_object();
    let name = metadata::text(object, "name").to_owned();
    let attributes = Attributes {
        cx: &cx,
        served,
        operation: Operation::Create,
        name: &name,
        old: None,
        options: &options,
    };
    admission::mutate(&attributes, object).await?;
    served.strategy.prepare_create(&cx, object)?;
    writing.validate(&cx, object, None)?;
    served.strategy.authorize(&cx, object, None)?;
    admission::judge(&attributes, Some(object)).await
}

/// The object's namespace becomes the request's; another one is a bad request.
pub(crate) fn match_namespace(object: &mut Value, namespace: &str) -> Result<(), Failure> {
    let given = metadata::text(object, "namespace");
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::set(object, "namespace", (!namespace.is_empty()).then(|| Value::from(namespace)));
    Ok(())
}

fn taken(call: &Call<'_>, view: &View, key: &ObjectKey, generated: bool) -> Failure {
    let gr: GroupResource = call.group_resource();
    if generated {
        return Status::generate_name_conflict(&gr, &key.name, 1);
    }
    let mut status = Status::already_exists(&gr, &key.name);
    if view.get(key).is_some_and(|o| o.meta.is_terminating()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Removes the object again when its namespace or its definition began to go while it was created.
///
/// What deletes their content lists it after it marked them: either it sees the object, or the mark is seen here.
async fn undo_if_homeless(writing: &Writing<'_>, key: &ObjectKey, uid: &str) -> Result<(), Failure> {
    let call = writing.call;
    let view = call.api.replica.view();
    let Err(failure) = admission::check_home(&writing.context(&view)) else { return Ok(()) };
    let precondition = Precondition { uid: Some(uid.into()), revision: None };
    writing.propose(Command::Delete { key: key.clone(), precondition }).await?;
    Err(failure)
}

/// The prefix with five random characters.
pub(crate) fn random_name(prefix: &str) -> String {
    let mut name: String = prefix.chars().take(GENERATE_NAME_MAX).collect();
    let mut random = uuid::Uuid::new_v4().as_u128();
    for _ in 0..5 {
        let index = usize::try_from(random % ALPHABET.len() as u128).unwrap_or(0);
        name.push(char::from(ALPHABET[index]));
        random /= ALPHABET.len() as u128;
    }
    name
}
