//! Events. One that is told again is the same Event, counted, also after a restart: its name is made of what it says.

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use litek8s_crds::names;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::decision::{Note, Subject};
use super::execute::brief;

/// The component that Events name as their source.
const COMPONENT: &str = "netwrangler-controller";

/// How much of the subject's name an Event's name begins with.
const NAME_LENGTH: usize = 200;

/// How many Events are remembered to count them.
const REMEMBERED: usize = 4096;
/// How many Events wait at most; more than a thousand VIPs in one decision.
const QUEUE: usize = 2048;
/// How many are written at once.
const CONCURRENCY: usize = 8;

/// Tells Events, in a task of its own: no decision waits for them.
#[derive(Clone)]
pub(crate) struct Recorder(mpsc::Sender<(Note, Timestamp)>);

impl Recorder {
    /// Begins to write; the task ends with `shutdown`.
    pub(crate) fn start(client: Client, tasks: &TaskTracker, shutdown: CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = write(&client, receiver) => {}
            }
        });
        Self(sender)
    }

    /// Tells an Event. One that finds no room is lost: the conditions say the same.
    pub(crate) fn tell(&self, note: &Note, now: Timestamp) {
        if self.0.try_send((note.clone(), now)).is_err() {
            tracing::warn!("an Event was dropped: {}", note.message);
        }
    }
}

async fn write(client: &Client, mut receiver: mpsc::Receiver<(Note, Timestamp)>) {
    // How often each was told by this process. Reading Events back would need another permission.
    let mut told: BTreeMap<String, i32> = BTreeMap::new();
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, CONCURRENCY).await > 0 {
        let writes: Vec<_> = batch
            .drain(..)
            .map(|(note, now)| {
                let event = event(&note, now);
                if told.len() >= REMEMBERED {
                    told.clear();
                }
                let count = told.entry(event.metadata.name.clone().unwrap_or_default()).or_default();
                *count = count.saturating_add(1);
                record(client, event, *count)
            })
            .collect();
        for result in join_all(writes).await {
            if let Err(error) = result {
                tracing::warn!(error = brief(&error), "an Event was not written");
            }
        }
    }
}

async fn record(client: &Client, event: Event, count: i32) -> Result<(), kube::Error> {
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let name = event.metadata.name.clone().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    match api.create(&PostParams::default(), &event).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let patch = json!({ "count": count.max(2), "lastTimestamp": event.last_timestamp });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        }
        other => other.map(drop),
    }
}

fn event(note: &Note, now: Timestamp) -> Event {
    let (version, kind, namespace, name, uid) = match &note.subject {
        Subject::Service(key, uid) => ("v1".to_owned(), "Service", Some(&key.namespace), &key.name, uid),
        Subject::Network(name, uid) => (format!("{}/v1", names::GROUP), "VipNetwork", None, name, uid),
        Subject::Gateway(name, uid) => (format!("{}/v1", names::GROUP), "VipGateway", None, name, uid),
    };
    let reason = note.kind.reason();
    let digest = Sha256::digest(format!("{uid}\n{reason}\n{}", note.message));
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let short: String = name.chars().take(NAME_LENGTH).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{hash}", short.trim_end_matches(['.', '-']))),
            namespace: Some(namespace.cloned().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(version),
            kind: Some(kind.to_owned()),
            namespace: namespace.cloned(),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
        reason: Some(reason.to_owned()),
        message: Some(note.message.clone()),
        type_: Some(if note.kind.warning() { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use litek8s_crds::VipService;

    use super::super::decision::NoteKind;
    use super::super::fixture::at;
    use super::*;

    #[test]
    fn the_same_words_are_the_same_event() {
        let service = VipService { namespace: "shop".into(), name: "web".into() };
        let note = |message: &str| Note {
            subject: Subject::Service(service.clone(), "uid".into()),
            kind: NoteKind::VipUnplaced,
            message: message.into(),
        };
        let name = |note: &Note, second| event(note, at(second)).metadata.name;
        assert_eq!(name(&note("a"), 1), name(&note("a"), 2));
        assert_ne!(name(&note("a"), 1), name(&note("b"), 1));
        let event = event(&note("a"), at(1));
        assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.involved_object.uid.as_deref(), Some("uid"));
    }
}
