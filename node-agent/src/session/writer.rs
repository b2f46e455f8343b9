//! Status patches and Events, a few at a time.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use litek8s_crds::VipAddress;
use tokio::sync::mpsc;

use super::{Note, Outgoing, StatusPatch};
use crate::owner::Event;

/// The name under which patches are recorded.
const MANAGER: &str = "litek8s-agent";
/// How many requests are under way at once.
const AT_ONCE: usize = 8;

pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) node: String,
    pub(super) events: mpsc::Sender<Event>,
}

impl Writer {
    /// Sends what the owner has to say, until the owner is gone.
    pub(super) async fn run(&self, outgoing: &mut mpsc::Receiver<Outgoing>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                next = outgoing.recv(), if under_way.len() < AT_ONCE => match next {
                    Some(message) => under_way.push(self.send(message)),
                    None => return,
                },
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
    }

    async fn send(&self, message: Outgoing) {
        match message {
            Outgoing::Status(patch) => self.patch(patch).await,
            Outgoing::Note(note) => self.tell(note).await,
        }
    }

    async fn patch(&self, patch: StatusPatch) {
        let api = Api::<VipAddress>::namespaced(self.client.clone(), &patch.namespace);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let done = api.patch_status(&patch.name, &params, &Patch::Merge(&patch.body)).await;
        match done {
            Ok(_) => {}
            // It went meanwhile, or another has its name: there is nobody to tell.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(vip = patch.vip, %error, "cannot write a status");
                // The owner may be too busy to hear; its full pass finds the difference.
                let _ = self.events.try_send(Event::Unpatched(patch.vip));
            }
        }
    }

    async fn tell(&self, note: Note) {
        let now = Time(Timestamp::now());
        let event = CoreEvent {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", note.service)),
                namespace: Some(note.namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Service".to_owned()),
                name: Some(note.service),
                namespace: Some(note.namespace.clone()),
                ..ObjectReference::default()
            },
            reason: Some(note.reason),
            message: Some(note.message),
            type_: Some("Warning".to_owned()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource { component: Some(MANAGER.to_owned()), host: Some(self.node.clone()) }),
            reporting_component: Some(MANAGER.to_owned()),
            reporting_instance: Some(self.node.clone()),
            ..CoreEvent::default()
        };
        let api = Api::<CoreEvent>::namespaced(self.client.clone(), &note.namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::warn!(%error, "cannot write an Event");
        }
    }
}
