//! What backends serve, as they said when they were last asked: in the background, never while a client waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use litek8s_machinery::discovery;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Backends;
use super::api_services;
use super::backend::Backend;
use crate::api::Api;

/// How often an available backend is asked again.
const PERIOD: Duration = Duration::from_secs(60);
/// After how long one that did not answer is.
const RETRY: Duration = Duration::from_secs(2);
const JSON: &str = "application/json";

/// What one backend serves.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Learned {
    /// Its resources as aggregated discovery has them.
    pub(crate) resources: Vec<Value>,
    /// Whether it did not answer the last time.
    pub(crate) stale: bool,
    /// Where its OpenAPI document of version 3 is.
    pub(super) schema: Option<String>,
    /// Its part of OpenAPI version 2.
    pub(super) swagger: Option<Value>,
}

/// By group and version.
pub(crate) type LearnedOf = BTreeMap<(String, String), Arc<Learned>>;

/// When a backend is asked again, if it is still the same.
struct Asked {
    print: u64,
    due: Instant,
}

/// Keeps what this server knows of its backends up to date, until `stop`.
pub(crate) async fn learn(api: Arc<Api>, stop: CancellationToken) {
    let mut changes = api.replica.changes(&api_services());
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    loop {
        changes.borrow_and_update();
        let backends = api.aggregation.backends(&api.replica);
        round(&api, &backends, &mut asked).await;
        let due = asked.values().map(|asked| asked.due).min();
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = async { match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

/// Asks whoever is due, all at once; whoever is not available is not asked.
async fn round(api: &Api, backends: &Backends, asked: &mut BTreeMap<String, Asked>) {
    let before = api.aggregation.learned();
    let now = Instant::now();
    let unavailable = |name: &String| {
        backends.values().find(|b| b.name == *name).is_none_or(|backend| backend.unavailable.is_some())
    };
    asked.retain(|name, _| !unavailable(name));
    let due: Vec<_> = backends
        .iter()
        .filter(|(_, backend)| backend.unavailable.is_none())
        .filter(|(_, backend)| {
            asked.get(&backend.name).is_none_or(|last| last.print != backend.print || last.due <= now)
        })
        .collect();
    let answers = join_all(due.iter().map(|(_, backend)| ask(api, backend))).await;
    let mut answers: BTreeMap<_, _> = due.iter().map(|(key, _)| (*key).clone()).zip(answers).collect();
    let mut after = LearnedOf::new();
    for (key, backend) in backends {
        let known = before.get(key).cloned();
        let stale = |known: Option<Arc<Learned>>| {
            Arc::new(Learned { stale: true, ..known.as_deref().cloned().unwrap_or_default() })
        };
        let learned = match answers.remove(key) {
            Some(answer) => {
                let wait = if answer.is_ok() { PERIOD } else { RETRY };
                asked
                    .insert(backend.name.clone(), Asked { print: backend.print, due: Instant::now() + wait });
                match answer {
                    Ok(learned) => {
                        known.filter(|known| **known == learned).unwrap_or_else(|| Arc::new(learned))
                    }
                    Err(why) => {
                        tracing::warn!(name = backend.name, why, "an APIService cannot be discovered");
                        stale(known)
                    }
                }
            }
            None if backend.unavailable.is_some() => match known {
                Some(known) if known.stale => known,
                known => stale(known),
            },
            None => known.unwrap_or_default(),
        };
        after.insert(key.clone(), learned);
    }
    api.aggregation.set_learned(after);
}

/// Asks one backend. Without resources nothing is known of it; without schemas it is used all the same.
async fn ask(api: &Api, backend: &Backend) -> Result<Learned, String> {
    let endpoint = backend.service.pick(&api.replica.view())?;
    let path = backend.discovery_path();
    let list = backend.fetch(&endpoint, &path, JSON).await?;
    let list: Value = serde_json::from_slice(&list).map_err(|error| format!("{path}: {error}"))?;
    let resources = discovery::aggregated_resources(&list, &backend.group, &backend.version)
        .ok_or_else(|| format!("{path}: no APIResourceList"))?;
    let (index, swagger) = tokio::join!(
        backend.fetch(&endpoint, "/openapi/v3", JSON),
        backend.fetch(&endpoint, "/openapi/v2", JSON)
    );
    let parsed = |body: Result<bytes::Bytes, String>| serde_json::from_slice::<Value>(&body.ok()?).ok();
    let schema = parsed(index).and_then(|index| {
        let url = &index["paths"][path.trim_start_matches('/')]["serverRelativeURL"];
        url.as_str().filter(|url| url.starts_with(&format!("/openapi/v3{path}"))).map(str::to_owned)
    });
    let swagger = parsed(swagger).and_then(|swagger| super::swagger::part_of(&swagger, &path));
    Ok(Learned { resources, stale: false, schema, swagger })
}
