//! Conversion of custom resources by a webhook: `ConversionReview` of `apiextensions.k8s.io/v1`, with what was converted
//! kept for the next reader.

mod memory;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use litek8s_machinery::status::Status;
use litek8s_raft::Replica;
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::admission::webhook::Target;
use crate::endpoints::metadata;
use crate::response::Failure;
use memory::{Key, Memory};

/// How long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of objects in one review; a larger object has one of its own.
const REVIEW: usize = 2 * 1024 * 1024;
/// The largest answer to a review, in bytes: another version may say more.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// The webhook of one definition.
pub(super) struct Converter {
    target: Target,
    replica: Replica,
    known: Mutex<Memory>,
}

impl Converter {
    /// Of a definition whose strategy is `Webhook`.
    pub(super) fn of(definition: &Value, replica: &Replica) -> Option<Self> {
        let conversion = &definition["spec"]["conversion"];
        (conversion["strategy"] == "Webhook").then(|| Self {
            target: Target::of(&conversion["webhook"]["clientConfig"]),
            replica: replica.clone(),
            known: Mutex::default(),
        })
    }

    /// The objects in the version `to`, in their order.
    pub(super) fn convert(&self, objects: &[&Value], to: &str) -> Result<Vec<Value>, Failure> {
        let mut converted: Vec<Option<Value>> =
            objects.iter().map(|object| self.recall(object, to)).collect();
        let missing = objects.iter().zip(&mut converted).filter(|(_, known)| known.is_none());
        let mut missing: Vec<(&Value, &mut Option<Value>)> = missing.map(|(o, slot)| (*o, slot)).collect();
        let mut rest = missing.as_mut_slice();
        while !rest.is_empty() {
            let (some, others) = rest.split_at_mut(reviewed_together(rest));
            rest = others;
            let asked: Vec<&Value> = some.iter().map(|(object, _)| *object).collect();
            let answers = blocking(self.ask(&asked, to)).map_err(|why| failure(asked[0], &why))?;
            for ((object, slot), answer) in some.iter_mut().zip(answers) {
                let answer = checked(object, answer, to).map_err(|why| failure(object, &why))?;
                self.remember(object, to, &answer);
                **slot = Some(answer);
            }
        }
        Ok(converted.into_iter().flatten().collect())
    }

    fn recall(&self, object: &Value, to: &str) -> Option<Value> {
        if object["apiVersion"] == to {
            return Some(object.clone());
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key(object, to)?)
    }

    fn remember(&self, object: &Value, to: &str, converted: &Value) {
        let Some(key) = key(object, to) else { return };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, converted);
    }

    async fn ask(&self, objects: &[&Value], to: &str) -> Result<Vec<Value>, String> {
        let uid = uuid::Uuid::new_v4().to_string();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
        });
        let url = format!("{}?timeout={}s", self.target.url(), TIMEOUT.as_secs());
        let post = |why: String| format!("Post {url:?}: {why}");
        let (address, client) = self.target.reach(&self.replica.view()).map_err(post)?;
        let sent = client.post(&address, &url, review.to_string().into_bytes(), MAX_ANSWER);
        let sent = tokio::time::timeout(TIMEOUT, sent).await;
        let (code, body) = sent.map_err(|_| post("context deadline exceeded".to_owned()))?.map_err(post)?;
        if !(200..300).contains(&code) {
            return Err(format!("the server answered with status {code}"));
        }
        let mut review: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let response = &mut review["response"];
        if response["uid"] != *uid {
            return Err(format!("expected response.uid={uid:?}, got {}", response["uid"]));
        }
        if response["result"]["status"] != "Success" {
            let message = response["result"]["message"].as_str().unwrap_or_default();
            return Err(message.to_owned());
        }
        let Value::Array(list) = response["convertedObjects"].take() else {
            return Err(format!("webhook returned 0 objects, expected {}", objects.len()));
        };
        if list.len() != objects.len() {
            return Err(format!("webhook returned {} objects, expected {}", list.len(), objects.len()));
        }
        Ok(list)
    }
}

/// How many of the first objects go into one review.
fn reviewed_together(objects: &[(&Value, &mut Option<Value>)]) -> usize {
    let mut room = REVIEW;
    let fits = |(object, _): &&(&Value, &mut Option<Value>)| match room.checked_sub(object.to_string().len())
    {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    objects.iter().take_while(fits).count().max(1)
}

/// What a stored object is known by; nothing for one that is not stored.
fn key(object: &Value, to: &str) -> Option<Key> {
    let text =
        |field: &str| Some(metadata::text(object, field)).filter(|text| !text.is_empty()).map(str::to_owned);
    Some((text("uid")?, text("resourceVersion")?, to.to_owned()))
}

/// The answer with the metadata of the object: a webhook changes labels and annotations only.
fn checked(object: &Value, mut answer: Value, to: &str) -> Result<Value, String> {
    if answer["apiVersion"] != *to {
        return Err(format!(
            "invalid converted object: got apiVersion {}, expected {to}",
            answer["apiVersion"]
        ));
    }
    if answer["kind"] != object["kind"] {
        return Err(format!(
            "invalid converted object: got kind {}, expected {}",
            answer["kind"], object["kind"]
        ));
    }
    for field in ["name", "namespace", "uid"] {
        if metadata::text(&answer, field) != metadata::text(object, field) {
            return Err(format!("invalid converted object: metadata.{field} must not change"));
        }
    }
    let mut kept = object["metadata"].clone();
    for field in ["labels", "annotations"] {
        match metadata::field(&answer, field) {
            Some(value) => kept[field] = value.clone(),
            None => {
                if let Some(kept) = kept.as_object_mut() {
                    kept.remove(field);
                }
            }
        }
    }
    answer["metadata"] = kept;
    Ok(answer)
}

fn failure(object: &Value, why: &str) -> Failure {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    Status::internal(format!("conversion webhook for {version}, Kind={kind} failed: {why}"))
}

/// Waits for the future on this thread, while the runtime's other work goes on elsewhere.
fn blocking<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(|| handle.block_on(future))
        }
        _ => Err("conversions need a runtime with several threads".to_owned()),
    }
}

#[cfg(test)]
mod tests;
