//! Keeps the objects that kube-apiserver brings, and says of every FlowSchema whether its level is there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use litek8s_store::{Command, ObjectKey, Outcome, Precondition, Rejection, View};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{levels, schemas};
use crate::api::Api;
use crate::bootstrap;
use crate::endpoints::metadata;

/// How long after a write that failed it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The condition of a FlowSchema whose level is missing.
const DANGLING: &str = "Dangling";

/// Looks at every change until `over`; every write is bound to `term`.
pub(crate) async fn keep(api: Arc<Api>, term: u64, over: CancellationToken) {
    let (mut of_schemas, mut of_levels) = (api.replica.changes(&schemas()), api.replica.changes(&levels()));
    loop {
        of_schemas.borrow_and_update();
        of_levels.borrow_and_update();
        let retry = match settle(&api, term).await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(error, "flow control's objects will be looked at again");
                Some(RETRY)
            }
        };
        tokio::select! {
            () = over.cancelled() => return,
            changed = of_schemas.changed() => if changed.is_err() { return },
            changed = of_levels.changed() => if changed.is_err() { return },
            () = async { match retry {
                Some(retry) => tokio::time::sleep(retry).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

async fn settle(api: &Api, term: u64) -> Result<(), String> {
    bootstrap::keep_flow_control(api, term).await.map_err(|error| error.to_string())?;
    for command in told(&api.replica.view(), api.clock.now()) {
        match api.replica.propose(command, Some(term)).await {
            // Whoever came between is looked at by his change.
            Ok(Outcome::Rejected(
                Rejection::RevisionMismatch { .. } | Rejection::NotFound | Rejection::Fenced,
            )) => {}
            Ok(Outcome::Rejected(other)) => return Err(other.to_string()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// The FlowSchemas whose condition does not say what is.
fn told(view: &View, now: jiff::Timestamp) -> Vec<Command> {
    let all = view.list(&schemas(), None);
    let stale = all.filter_map(|object| {
        let mut value: Value = serde_json::from_slice(&object.json).ok()?;
        let level = value["spec"]["priorityLevelConfiguration"]["name"].as_str()?.to_owned();
        let there = view.get(&ObjectKey::new(levels(), "", &level)).is_some();
        let told = condition(&level, there, now);
        let conditions = metadata::object(&mut value, "status")["conditions"].take();
        let mut conditions = conditions.as_array().cloned().unwrap_or_default();
        let known = conditions.iter().position(|condition| condition["type"] == DANGLING);
        match known {
            Some(at) if ["status", "reason", "message"].iter().all(|f| conditions[at][*f] == told[*f]) => {
                return None;
            }
            Some(at) => conditions[at] = told,
            None => conditions.push(told),
        }
        value["status"]["conditions"] = Value::Array(conditions);
        value["metadata"].as_object_mut()?.remove("resourceVersion");
        Some(Command::Update {
            key: object.key.clone(),
            object: Bytes::from(value.to_string()),
            precondition: Precondition::at(object.revision),
            claims: Vec::new(),
        })
    });
    stale.collect()
}

fn condition(level: &str, there: bool, now: jiff::Timestamp) -> Value {
    let about = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, why) = if there {
        ("False", "Found", format!("{about} and it exists"))
    } else {
        ("True", "NotFound", format!("{about} but there is no such object"))
    };
    json!({"type": DANGLING, "status": status, "reason": reason, "message": why,
        "lastTransitionTime": metadata::time(now)})
}
