//! What single kinds do beyond their schema: allocation, phases, immutability; a kind without behaviour has none here.

mod autoscaler;
mod config;
mod cron_job;
mod job;
mod namespace;
mod persistent_volume;
mod plain;
mod pod;
mod rbac;
mod service;
pub(crate) mod service_cidr;

use std::sync::Arc;

use litek8s_machinery::field::FieldError;
use litek8s_machinery::resource::Resource;
use litek8s_store::{Claim, View};
use serde_json::Value;

use crate::api::Api;
use crate::request::{Annotations, UserInfo, Warnings};
use crate::response::Failure;

pub(crate) use plain::for_builtin;
pub(crate) use service::IP_SPACE;

/// What a strategy may look at while it prepares or validates an object.
pub struct WriteContext<'a> {
    /// The server.
    pub api: &'a Arc<Api>,
    /// The state the write is based on.
    pub view: &'a View,
    /// The resource written.
    pub resource: &'a Resource,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Who writes.
    pub user: &'a UserInfo,
    /// Where warnings for the answer go.
    pub warnings: &'a Warnings,
    /// What goes into the audit log besides.
    pub annotations: &'a Annotations,
    /// The time of the write.
    pub now: jiff::Timestamp,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// What happened to an object in the store.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It was created or updated to this, which is in the storage version and has no resource version.
    Stored(&'a Value),
    /// It is gone; this was its last state.
    Deleted(&'a Value),
}

/// The behaviour of one kind.
///
/// `prepare_*` change the object before validation, in the order upstream does: status and system fields are settled
/// by the caller. All of it is called again for every retry of a write.
pub trait Strategy: Send + Sync {
    /// Whether `DELETE` answers the deleted object, not a `Status`.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Whether a status given at creation is kept.
    fn keeps_status(&self) -> bool {
        false
    }

    /// Sets what the server decides about a new object.
    fn prepare_create(&self, _cx: &WriteContext<'_>, _object: &mut Value) -> Result<(), Failure> {
        Ok(())
    }

    /// Sets what the server decides about a changed object; `cx.subresource` says which part is written.
    fn prepare_update(
        &self,
        _cx: &WriteContext<'_>,
        _object: &mut Value,
        _old: &Value,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// What is wrong with the object beyond its schema; `old` is the state it replaces.
    fn validate(&self, _cx: &WriteContext<'_>, _object: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }

    /// May refuse the write for the user (privilege escalation).
    fn authorize(
        &self,
        _cx: &WriteContext<'_>,
        _object: &Value,
        _old: Option<&Value>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// What the object holds that no other object may hold.
    fn claims(&self, _object: &Value) -> Vec<Claim> {
        Vec::new()
    }

    /// Whether a delete that says nothing leaves its dependents there, as the oldest kinds do.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// How many seconds the object gets to end itself; `None` when deletion is immediate.
    ///
    /// `asked` is `gracePeriodSeconds` of the request.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Changes an object that is marked as being deleted and stays for its finalizers.
    fn mark_deleting(&self, _object: &mut Value) {}

    /// Whether the object waits for more than `metadata.finalizers` before it goes (a namespace's `spec.finalizers`).
    fn held(&self, _object: &Value) -> bool {
        false
    }

    /// Changes what is read from the store before it is answered (defaults and conversion of custom resources).
    fn on_read(&self, _object: &mut Value) {}

    /// Whether [`Strategy::convert`] asks somebody: objects are then better converted many at a time.
    fn converts(&self) -> bool {
        false
    }

    /// The objects in the version `to`; nothing where another `apiVersion` is all the difference.
    fn convert(&self, _objects: &[&Value], _to: &str) -> Option<Result<Vec<Value>, Failure>> {
        None
    }

    /// Whether `on_read` does anything: if not, stored bytes are sent as they are.
    fn rewrites_reads(&self) -> bool {
        false
    }

    /// Called after a change is stored and before it is answered.
    fn after_write(&self, _api: &Api, _change: Change<'_>) {}
}
