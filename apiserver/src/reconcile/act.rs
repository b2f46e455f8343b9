//! Carrying out what was decided, through the API's own verbs and bound to the leader's term.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use litek8s_machinery::status::{Reason, Status};
use litek8s_store::Object;
use serde_json::{Value, json};

use super::action::{Action, Failed, Note};
use super::kind::Kind;
use super::read;
use super::record::{Happening, Recorder};
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
    recorder: Arc<Mutex<Recorder>>,
}

impl Actor {
    /// The controller of `subject`, in this term.
    pub(super) fn new(
        api: Arc<Api>,
        term: u64,
        subject: &Subject,
        object: Option<Arc<Object>>,
        recorder: Arc<Mutex<Recorder>>,
    ) -> Self {
        let account = subject.duty.account();
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED];
        let user = UserInfo::new(format!("system:serviceaccount:kube-system:{account}"), groups);
        Self { api, user, term, subject: subject.clone(), object, recorder }
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
            Action::Delete { kind, object, propagation, at_once, note } => {
                let Some(served) = self.served(kind) else { return Ending::Done };
                match internal.delete(&served, &object, propagation, at_once).await {
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

    /// Writes an Event about the subject, or counts one more of it; that nobody reads it is no reason to stop.
    async fn event(&self, ty: &str, reason: &str, message: &str) {
        let (Some(about), Some(served)) = (&self.object, self.served(Kind::Event)) else { return };
        let now = self.api.clock.now();
        let happening =
            Happening { account: self.subject.duty.account(), uid: &about.meta.uid, ty, reason, message };
        let told = self.recorder.lock().unwrap_or_else(PoisonError::into_inner).correlate(&happening, now);
        let Some(told) = told else { return };
        let namespace = if about.key.namespace.is_empty() { "default" } else { &*about.key.namespace };
        let name = format!("{}.{:016x}", about.key.name, told.id);
        let internal = Internal { api: &self.api, user: &self.user, manager: MANAGER, term: self.term };
        let view = self.api.replica.view();
        let known = view.get(&Kind::Event.key(namespace, &name)).and_then(|object| read::value(object));
        let now = metadata::time(now);
        let written = match known {
            Some(mut event) => {
                event["count"] = json!(event["count"].as_i64().unwrap_or(1) + 1);
                event["lastTimestamp"] = json!(now);
                event["message"] = json!(told.message);
                internal.update(&served, "", event).await
            }
            None => {
                let mut event = self.first_event(about, &happening, &now);
                event["metadata"] = json!({"namespace": namespace, "name": name});
                event["message"] = json!(told.message);
                internal.create(&served, event).await.map(drop)
            }
        };
        if let Err(status) = written {
            tracing::debug!(message = status.message, "an event was not written");
        }
    }

    /// An Event about something that was not told before, without a name.
    fn first_event(&self, about: &Object, happening: &Happening<'_>, now: &str) -> Value {
        let (kind, account) = (self.subject.duty.kind(), happening.account);
        json!({
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.name(), "namespace": &*about.key.namespace,
                "name": &*about.key.name, "uid": about.meta.uid, "resourceVersion": about.revision.to_string(),
            },
            "type": happening.ty, "reason": happening.reason, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": account}, "reportingComponent": account,
        })
    }
}

/// Whether the namespace goes, so that nothing can be created and nothing has to be.
fn is_ending(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
