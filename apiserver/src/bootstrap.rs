//! What is in the store before the first client comes: namespaces, roles, FlowSchemas and the API's own Service; made or
//! completed by each new leader in one entry of the log.

mod flow_control;
mod front_proxy;
mod objects;
mod roles;

use std::net::SocketAddr;

use bytes::Bytes;
use litek8s_machinery::defaults;
use litek8s_store::{Command, Object, Outcome, Precondition, Rejection, View};
use serde_json::{Value, json};

pub use objects::api_service_address;

use crate::api::Api;
use crate::registry::Served;

/// How often a round is repeated that somebody else's write overtook.
const ATTEMPTS: usize = 5;

/// Why the cluster's first objects cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A kind is missing from the table of resources.
    #[error("{0} is not served")]
    NotServed(String),
    /// The store did not take it.
    #[error("the first objects cannot be written: {0}")]
    Store(String),
}

/// An object that must be there.
struct Wanted {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    object: Value,
    /// What is completed when the object is there already.
    merge: Merge,
}

/// How an object that is there already is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// It is left alone.
    Keep,
    /// Missing rules or subjects are added, unless `rbac.authorization.kubernetes.io/autoupdate` is not `true`.
    AddTo(&'static str),
    /// These top-level fields are set.
    Replace(&'static [&'static str]),
    /// Its spec is set while [`flow_control::AUTO_UPDATE`] is `true`.
    Follow,
}

/// Makes what is missing and completes what is not as it should be; `serving` is where clients find this server.
pub async fn ensure(api: &Api, serving: SocketAddr, term: u64) -> Result<(), BootstrapError> {
    let wanted: Vec<Wanted> = objects::namespaces()
        .into_iter()
        .chain(roles::all())
        .chain(objects::service_cidr(api))
        .chain(objects::api_service(api, serving))
        .chain(front_proxy::extension_authentication(api))
        .chain(flow_control::all())
        .collect();
    settle(api, &wanted, term).await
}

/// Makes what is missing of flow control and completes it, as [`ensure`] did once.
pub(crate) async fn keep_flow_control(api: &Api, term: u64) -> Result<(), BootstrapError> {
    settle(api, &flow_control::all().collect::<Vec<_>>(), term).await
}

async fn settle(api: &Api, wanted: &[Wanted], term: u64) -> Result<(), BootstrapError> {
    for _ in 0..ATTEMPTS {
        let commands = missing(api, &api.replica.view(), wanted)?;
        if commands.is_empty() {
            return Ok(());
        }
        let count = commands.len();
        let outcome = api.replica.propose(Command::Batch(commands), Some(term)).await;
        match outcome.map_err(|error| BootstrapError::Store(error.to_string()))? {
            Outcome::Rejected(
                Rejection::AlreadyExists | Rejection::RevisionMismatch { .. } | Rejection::NotFound,
            ) => {}
            Outcome::Rejected(other) => return Err(BootstrapError::Store(other.to_string())),
            Outcome::Created(_) | Outcome::Updated(_) | Outcome::Deleted(_) | Outcome::Batch(_) => {
                tracing::info!(objects = count, "the cluster's first objects are written");
                return Ok(());
            }
        }
    }
    Err(BootstrapError::Store("others keep writing the same objects".to_owned()))
}

fn missing(api: &Api, view: &View, wanted: &[Wanted]) -> Result<Vec<Command>, BootstrapError> {
    let mut commands = Vec::new();
    for wanted in wanted {
        let served = api
            .registry
            .get(wanted.group, wanted.version, wanted.plural)
            .ok_or_else(|| BootstrapError::NotServed(format!("{}.{}", wanted.plural, wanted.group)))?;
        let metadata = &wanted.object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let key = served.object_key(text("namespace"), text("name"));
        let command = match view.get(&key) {
            None => Some(create(api, &served, wanted, key)),
            Some(object) => complete(object, &served, wanted),
        };
        commands.extend(command);
    }
    Ok(commands)
}

fn create(api: &Api, served: &Served, wanted: &Wanted, key: litek8s_store::ObjectKey) -> Command {
    let mut object = wanted.object.clone();
    object["apiVersion"] = json!(&*served.api_version);
    object["kind"] = json!(&*served.resource.kind);
    object["metadata"]["uid"] = json!(uuid::Uuid::new_v4().to_string());
    let created = api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    object["metadata"]["creationTimestamp"] = json!(created);
    defaults::apply(served.resource.schema.get(), &mut object);
    let claims = served.strategy.claims(&object);
    Command::Create { key, object: Bytes::from(object.to_string()), claims }
}

fn replace(object: &mut Value, served: &Served, wanted: &Wanted, fields: &[&str]) {
    let mut like = wanted.object.clone();
    defaults::apply(served.resource.schema.get(), &mut like);
    fields.iter().for_each(|field| object[*field] = like[*field].clone());
}

/// The update that completes an object, if it lacks something.
fn complete(object: &Object, served: &Served, wanted: &Wanted) -> Option<Command> {
    let current: Value = serde_json::from_slice(&object.json).ok()?;
    let mut changed = current.clone();
    match wanted.merge {
        Merge::Keep => return None,
        Merge::AddTo(list) => {
            let annotation =
                &current["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"];
            if annotation != "true" {
                return None;
            }
            let items = wanted.object[list].as_array()?;
            let present = current[list].as_array().cloned().unwrap_or_default();
            let lacking: Vec<Value> = items.iter().filter(|item| !present.contains(item)).cloned().collect();
            if lacking.is_empty() {
                return None;
            }
            changed[list] = Value::Array(present.into_iter().chain(lacking).collect());
        }
        Merge::Follow if current["metadata"]["annotations"][flow_control::AUTO_UPDATE] != "true" => {
            return None;
        }
        Merge::Follow => replace(&mut changed, served, wanted, &["spec"]),
        Merge::Replace(fields) => replace(&mut changed, served, wanted, fields),
    }
    if changed == current {
        return None;
    }
    changed["metadata"].as_object_mut()?.remove("resourceVersion");
    Some(Command::Update {
        key: object.key.clone(),
        claims: served.strategy.claims(&changed),
        object: Bytes::from(changed.to_string()),
        precondition: Precondition::at(object.revision),
    })
}
