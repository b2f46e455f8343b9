//! What every write shares: who writes and how, proposing a command, and the answer; never one verb's rules.

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use litek8s_machinery::apply::Writer;
use litek8s_machinery::status::Status;
use litek8s_machinery::validate;
use litek8s_raft::ProposeError;
use litek8s_store::{Command, Object, Outcome, Rejection, View};
use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{Call, answer, metadata, ratchet};
use crate::response::{Failure, Response};
use crate::strategy::{Change, WriteContext};

/// How often a write is tried again after another one came between, before the client is told.
pub(crate) const ATTEMPTS: usize = 16;

/// One write request.
pub(crate) struct Writing<'a> {
    /// The request.
    pub(crate) call: &'a Call<'a>,
    /// Its options.
    pub(crate) options: WriteOptions,
    /// Who owns the fields it writes.
    pub(crate) manager: String,
    /// When it began.
    pub(crate) now: Timestamp,
}

/// What a write led to.
pub(crate) enum Written {
    /// This is stored now.
    Stored {
        /// The object.
        object: Arc<Object>,
        /// Whether it is new.
        created: bool,
    },
    /// This would be stored, or was the last state of an object that the write removed.
    Shown {
        /// The object.
        value: Value,
        /// Whether it is new.
        created: bool,
    },
}

impl Written {
    /// The answer.
    pub(crate) fn answer(self, call: &Call<'_>) -> Result<Response, Failure> {
        let code = |created: bool| if created { StatusCode::CREATED } else { StatusCode::OK };
        match self {
            Self::Stored { object, created } => answer::object(call, code(created), &object),
            Self::Shown { value, created } => answer::value(call, code(created), value),
        }
    }
}

impl<'a> Writing<'a> {
    /// A write by this request.
    pub(crate) fn new(call: &'a Call<'a>, options: WriteOptions) -> Self {
        let manager = options.manager(call.user_agent());
        Self { call, options, manager, now: call.api.clock.now() }
    }

    /// The subresource written through.
    pub(crate) fn subresource(&self) -> &str {
        &self.call.ctx.info.subresource
    }

    /// What strategies and admission see of the write.
    pub(crate) fn context<'b>(&'b self, view: &'b View) -> WriteContext<'b> {
        WriteContext {
            api: self.call.api,
            view,
            resource: &self.call.served.resource,
            subresource: self.subresource(),
            namespace: self.call.namespace(),
            user: &self.call.ctx.user,
            warnings: &self.call.ctx.warnings,
            annotations: &self.call.ctx.annotations,
            now: self.now,
            dry_run: self.options.dry_run,
        }
    }

    /// The options of the request, as policies and webhooks see them.
    pub(crate) fn options_object(&self) -> Value {
        let kind = match self.call.ctx.info.verb.as_str() {
            "create" => "CreateOptions",
            "update" => "UpdateOptions",
            "patch" => "PatchOptions",
            _ => "DeleteOptions",
        };
        let mut object = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.options.dry_run {
            object["dryRun"] = json!(["All"]);
        }
        if !self.options.field_manager.is_empty() {
            object["fieldManager"] = json!(self.options.field_manager);
        }
        if let Some(force) = self.options.force {
            object["force"] = json!(force);
        }
        object
    }

    /// Who writes, for managed fields.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            subresource: self.subresource(),
            api_version: &self.call.served.api_version,
            has_status: self.call.served.resource.has_status,
            now: self.now,
        }
    }

    /// 422 when the object breaks the schema or the rules of its kind.
    pub(crate) fn validate(
        &self,
        cx: &WriteContext<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let served = &self.call.served;
        let mut errors = validate::object(&served.resource, object, old);
        // Of more errors than are looked for nobody knows whether all of them are old.
        let all_known = errors.len() < validate::MAX_ERRORS;
        if let Some(old) = old.filter(|_| served.resource.custom && all_known) {
            let schema = served.resource.schema.get();
            errors.retain(|error| !ratchet::is_old(schema, error, object, old));
        }
        // Rules are written for objects that fit their schema.
        if errors.is_empty() || !served.resource.custom {
            errors.extend(served.strategy.validate(cx, object, old));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&self.call.group_kind(), metadata::text(object, "name"), &errors))
    }

    /// Proposes a command; a rejection is an `Ok` for the verb to judge.
    pub(crate) async fn propose(&self, command: Command) -> Result<Outcome, Failure> {
        propose(self.call, command).await
    }

    /// Proposes a command together with what it is charged to, all or nothing.
    pub(crate) async fn propose_charged(
        &self,
        mut charges: Vec<Command>,
        command: Command,
    ) -> Result<Outcome, Failure> {
        if charges.is_empty() {
            return self.propose(command).await;
        }
        charges.push(command);
        match self.propose(Command::Batch(charges)).await? {
            Outcome::Batch(mut outcomes) => {
                outcomes.pop().ok_or_else(|| Status::internal("the store answered a batch with nothing"))
            }
            other @ (Outcome::Created(_)
            | Outcome::Updated(_)
            | Outcome::Deleted(_)
            | Outcome::Rejected(_)) => Ok(other),
        }
    }

    /// 413 when so many bytes are more than an object may have; one that is larger already may shrink.
    pub(crate) fn check_size(&self, bytes: usize, before: usize) -> Result<(), Failure> {
        let limit = self.call.api.max_object;
        if bytes <= limit || bytes < before {
            return Ok(());
        }
        Err(Status::request_entity_too_large(format!(
            "the object would have {bytes} bytes, limit is {limit}"
        )))
    }

    /// Tells the strategy about a stored change.
    pub(crate) fn after(&self, change: Change<'_>) {
        self.call.served.strategy.after_write(self.call.api, change);
    }
}

/// Proposes a command; a rejection is an `Ok` for the verb to judge.
pub(crate) async fn propose(call: &Call<'_>, command: Command) -> Result<Outcome, Failure> {
    match call.api.replica.propose(command, call.ctx.bound_term).await {
        Ok(outcome) => Ok(outcome),
        // Nothing was applied, so the client may send it again.
        Err(ProposeError::NotApplied(why)) => Err(Status::service_unavailable(why).retry_after(1)),
        // It may have been applied: a client that repeats it blindly could do it twice.
        Err(ProposeError::Unknown(why)) => Err(Status::timeout(why)),
    }
}

/// The failure of a rejection that no retry can help.
pub(crate) fn rejected(call: &Call<'_>, name: &str, rejection: &Rejection) -> Failure {
    let gr = call.group_resource();
    match rejection {
        Rejection::AlreadyExists => Status::already_exists(&gr, name),
        Rejection::NotFound => Status::not_found(&gr, name),
        Rejection::RevisionMismatch { .. } | Rejection::UidMismatch { .. } => Status::modified(&gr, name),
        Rejection::Claimed { claim, by } => Status::conflict(&gr, name, format!("{claim} is held by {by}")),
        Rejection::Fenced => Status::service_unavailable("the writer's term is over").retry_after(1),
        Rejection::Malformed(why) => Status::internal(why),
    }
}
