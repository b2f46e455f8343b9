//! Carrying out what was decided, through the API's own verbs and bound to the leader's term.

use std::sync::Arc;

use futures::StreamExt;
use litek8s_machinery::status::{Reason, Status};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Failed, Note};
use super::kind::Kind;
use super::subject::Subject;
use crate::api::Api;
use crate::endpoints::internal::Internal;
use crate::endpoints::metadata;
use crate::registry::Served;
use crate::request::{AUTHENTICATED, UserInfo};

/// Writes of one round side by side, at most.
const SIDE_BY_SIDE: usize = 16;
/// Who owns the fields that controllers write.
const MANAGER: &str = "kube-controller-manager";

/// How a round ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Everything was written.
    Done,
    /// Somebody else came between, or the server could not say: to be tried again.
    Again,
    /// A write was refused.
    Refused(Failed),
}

/// One controller at work on one object.
pub(super) struct Actor {
    api: Arc<Api>,
    user: UserInfo,
    term: u64,
    subject: Subject,
    object: Option<Arc<Object>>,
}

impl Actor {
    /// The controller of `subject`, in this term.
    pub(super) fn new(api: Arc<Api>, term: u64, subject: &Subject, object: Option<Arc<Object>>) -> Self {
        let account = subject.duty.account();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED];
        let user = UserInfo::new(format!("system:serviceaccount:kube-system:{account}"), groups);
        Self { api, user, term, subject: subject.clone(), object }
    }

    /// Carries out actions in their order. Creations begin with one and double while they succeed, so that a refusal is
    /// met once and not five hundred times.
    pub(super) async fn act(&self, actions: Vec<Action>) -> Ending {
        let mut rest = actions.into_iter().peekable();
        let mut batch = 1;
        while let Some(first) = rest.next() {
            let sort = std::mem::discriminant(&first);
            let most = match first {
                Action::Create { .. } => batch,
                Action::Delete { .. } => SIDE_BY_SIDE,
                Action::Update { .. } => 1,
            };
            let mut now = vec![first];
            while now.len() < most
                && let Some(next) = rest.next_if(|next| std::mem::discriminant(next) == sort)
            {
                now.push(next);
            }
            batch = (batch * 2).min(SIDE_BY_SIDE * 4);
            let writes = now.into_iter().map(|action| self.one(action));
            let endings: Vec<Ending> =
                futures::stream::iter(writes).buffer_unordered(SIDE_BY_SIDE).collect().await;
            let mut worst = Ending::Done;
            for ending in endings {
                match (&worst, &ending) {
                    (_, Ending::Done) | (Ending::Refused(_), _) | (Ending::Again, Ending::Again) => {}
                    (Ending::Done | Ending::Again, _) => worst = ending,
                }
            }
            if !matches!(worst, Ending::Done) {
                return worst;
            }
        }
        Ending::Done
    }

    async fn one(&self, action: Action) -> Ending {
        let internal = Internal { api: &self.api, user: &self.user, manager: MANAGER, term: self.term };
        match action {
            Action::Create { kind, object, note } => {
                let Some(served) = self.served(kind) else { return Ending::Done };
                match internal.create(&served, object).await {
                    Ok(made) => self.tell(note, &made.key.name).await,
                    Err(status) if is_ending(&status) => Ending::Done,
                    Err(status) => self.refused("FailedCreate", "Error creating", &status).await,
                }
            }
            Action::Update { kind, subresource, object, note } => {
                let Some(served) = self.served(kind) else { return Ending::Done };
                let name = metadata::text(&object, "name").to_owned();
                match internal.update(&served, subresource, object).await {
                    Ok(()) => self.tell(note, &name).await,
                    Err(status) if status.reason == Reason::NotFound => Ending::Done,
                    Err(status) => self.refused("FailedUpdate", "Error updating", &status).await,
                }
            }
            Action::Delete { kind, object, propagation, note } => {
                let Some(served) = self.served(kind) else { return Ending::Done };
                match internal.delete(&served, &object, propagation).await {
                    Ok(()) => self.tell(note, &object.key.name).await,
                    Err(status) if status.reason == Reason::NotFound => Ending::Done,
                    Err(status) => self.refused("FailedDelete", "Error deleting", &status).await,
                }
            }
        }
    }

    fn served(&self, kind: Kind) -> Option<Arc<Served>> {
        let (group, version, plural) = kind.path();
        self.api.registry.get(group, version, plural)
    }

    async fn refused(&self, reason: &'static str, doing: &str, status: &Status) -> Ending {
        let raced = matches!(
            status.reason,
            Reason::Conflict | Reason::ServerTimeout | Reason::Timeout | Reason::ServiceUnavailable
        );
        if raced {
            return Ending::Again;
        }
        tracing::warn!(subject = ?self.subject, message = status.message, "{doing} failed");
        self.event("Warning", reason, &format!("{doing}: {}", status.message)).await;
        Ending::Refused(Failed { reason, message: status.message.clone() })
    }

    async fn tell(&self, note: Option<Note>, name: &str) -> Ending {
        if let Some(Note { ty, reason, text }) = note {
            self.event(ty, &reason, &text.replace("{}", name)).await;
        }
        Ending::Done
    }

    /// Writes an Event about the subject; that nobody reads it is no reason to stop.
    async fn event(&self, ty: &str, reason: &str, message: &str) {
        let (Some(about), Some(served)) = (&self.object, self.served(Kind::Event)) else { return };
        let kind = self.subject.duty.kind();
        let namespace = if about.key.namespace.is_empty() { "default" } else { &*about.key.namespace };
        let now = metadata::time(self.api.clock.now());
        let account = self.subject.duty.account();
        let (id, _) = uuid::Uuid::new_v4().as_u64_pair();
        let event: Value = json!({
            "metadata": {"namespace": namespace, "name": format!("{}.{id:016x}", about.key.name)},
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.name(), "namespace": &*about.key.namespace,
                "name": &*about.key.name, "uid": about.meta.uid, "resourceVersion": about.revision.to_string(),
            },
            "type": ty, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": account}, "reportingComponent": account,
        });
        let internal = Internal { api: &self.api, user: &self.user, manager: MANAGER, term: self.term };
        if let Err(status) = internal.create(&served, event).await {
            tracing::debug!(message = status.message, "an event was not written");
        }
    }
}

/// Whether the namespace goes, so that nothing can be created and nothing has to be.
fn is_ending(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
