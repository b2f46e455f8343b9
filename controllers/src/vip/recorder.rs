//! Events. One that is told again is the same Event, counted, also after a restart: its name is made of what it says.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use litek8s_crds::names;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::decision::{Note, Subject};

/// The component that Events name as their source.
const COMPONENT: &str = "netwrangler-controller";

/// How much of the subject's name an Event's name begins with.
const NAME_LENGTH: usize = 200;

/// How many Events are remembered to count them.
const REMEMBERED: usize = 4096;

/// Tells Events.
pub(crate) struct Recorder {
    client: Client,
    /// How often each was told by this process. Reading Events back would need another permission.
    told: Mutex<BTreeMap<String, i32>>,
}

impl Recorder {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, told: Mutex::default() }
    }

    /// Tells an Event.
    pub(crate) async fn record(&self, note: &Note, now: Timestamp) -> Result<(), kube::Error> {
        let event = event(note, now);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let name = event.metadata.name.clone().unwrap_or_default();
        let count = self.count(&format!("{namespace}/{name}"));
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let patch = json!({ "count": count.max(2), "lastTimestamp": Time(now) });
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    fn count(&self, name: &str) -> i32 {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.clear();
        }
        let count = told.entry(name.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

fn event(note: &Note, now: Timestamp) -> Event {
    let (version, kind, namespace, name, uid) = match &note.subject {
        Subject::Service(key, uid) => ("v1".to_owned(), "Service", Some(&key.namespace), &key.name, uid),
        Subject::Network(name, uid) => (format!("{}/v1", names::GROUP), "VipNetwork", None, name, uid),
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
