//! The leader's part in the end of a namespace: what backends keep in it goes too. A dead backend is named and not
//! waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http::Method;
use litek8s_store::{GroupResource, Object, View};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::api_services;
use super::backend::Backend;
use super::learned::Learned;
use crate::api::Api;

/// How often a namespace that is not empty is looked at.
const RETRY: Duration = Duration::from_millis(500);
/// How many namespaces are emptied at a time.
const AT_ONCE: usize = 32;
/// How many objects a page of a list has.
const PAGE: usize = 500;

/// What backends have of a terminating namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Group versions of which nothing can be known, each with the reason.
    pub(crate) unknown: Vec<String>,
    /// What went wrong with others.
    pub(crate) failed: Vec<String>,
    /// How many objects of a resource are left.
    pub(crate) remaining: BTreeMap<String, usize>,
}

impl Content {
    /// Whether the namespace waits for it: a backend that is not there holds nothing up.
    pub(crate) fn holds(&self) -> bool {
        !self.failed.is_empty() || !self.remaining.is_empty()
    }
}

/// By the namespace's uid.
pub(crate) type Contents = BTreeMap<String, Content>;

/// Empties terminating namespaces at the backends until `over`; none waits for another one.
pub(crate) async fn run(api: Arc<Api>, over: CancellationToken) {
    let mut changes = api.replica.changes(&GroupResource::new("", "namespaces"));
    let mut services = api.replica.changes(&api_services());
    let mut learned = api.aggregation.learned_changes();
    let (places, mut emptying) = (Semaphore::new(AT_ONCE), FuturesUnordered::new());
    let (mut busy, mut changed) = (BTreeSet::new(), true);
    loop {
        if changed {
            changes.borrow_and_update();
            services.borrow_and_update();
            learned.borrow_and_update();
            let ending = terminating(&api.replica.view());
            api.aggregation.keep_contents(|uid| ending.iter().any(|namespace| namespace.meta.uid == uid));
            let idle = ending.into_iter().filter(|namespace| busy.insert(namespace.meta.uid.clone()));
            emptying.extend(idle.map(|namespace| until_empty(&api, &places, namespace)));
        }
        let seen = tokio::select! {
            () = over.cancelled() => return,
            seen = changes.changed() => seen,
            seen = services.changed() => seen,
            seen = learned.changed() => seen,
            Some(uid) = emptying.next() => {
                busy.remove(&uid);
                changed = false;
                continue;
            }
        };
        if seen.is_err() {
            return;
        }
        changed = true;
    }
}

/// Looks at a namespace until no backend holds it up any more, or it is gone; its uid.
async fn until_empty(api: &Api, places: &Semaphore, namespace: Arc<Object>) -> String {
    let uid = namespace.meta.uid.clone();
    loop {
        let content = {
            // The semaphore is never closed.
            let _place = places.acquire().await;
            look(api, &namespace.key.name).await
        };
        let gone = api.replica.view().get(&namespace.key).is_none_or(|now| now.meta.uid != uid);
        let done = gone || !content.holds();
        if !gone {
            api.aggregation.set_content(&uid, content);
        }
        if done {
            return uid;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Deletes what backends have in a namespace; what is left of it.
async fn look(api: &Api, namespace: &str) -> Content {
    let (backends, known) = (api.aggregation.backends(&api.replica), api.aggregation.learned());
    let looks = backends.iter().map(|(key, backend)| {
        let known = known.get(key).map(|known| &**known);
        async move {
            let mut content = Content::default();
            empty(api, backend, known, namespace, &mut content).await;
            content
        }
    });
    let mut all = Content::default();
    for content in join_all(looks).await {
        all.unknown.extend(content.unknown);
        all.failed.extend(content.failed);
        all.remaining.extend(content.remaining);
    }
    if !all.unknown.is_empty() {
        let unknown = &all.unknown;
        tracing::warn!(namespace, ?unknown, "ends without what these APIServices may keep of it");
    }
    all
}

/// The namespaces that end.
fn terminating(view: &View) -> Vec<Arc<Object>> {
    let namespaces = view.list(&GroupResource::new("", "namespaces"), None);
    namespaces.filter(|namespace| namespace.meta.is_terminating()).cloned().collect()
}

/// Deletes what one backend has in a namespace.
async fn empty(
    api: &Api,
    backend: &Backend,
    learned: Option<&Learned>,
    namespace: &str,
    content: &mut Content,
) {
    let version = format!("{}/{}", backend.group, backend.version);
    let learned = match (&backend.unavailable, learned) {
        (Some(why), _) => return content.unknown.push(format!("{version}: {why}")),
        (None, Some(learned)) if learned.stale => {
            return content.unknown.push(format!("{version}: stale GroupVersion discovery: {version}"));
        }
        (None, Some(learned)) => learned,
        // It has just come: it says what it has in a moment.
        (None, None) => return content.failed.push(format!("{version}: not discovered yet")),
    };
    for resource in learned.resources.iter().filter(|resource| resource["scope"] == "Namespaced") {
        let has =
            |verb: &str| resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|v| v == verb));
        let Some(plural) = resource["resource"].as_str() else { continue };
        if !has("list") || !(has("deletecollection") || has("delete")) {
            continue;
        }
        let path = format!("{}/namespaces/{namespace}/{plural}", backend.discovery_path());
        match clear(api, backend, &path, has("deletecollection")).await {
            Ok(0) => {}
            Ok(left) => drop(content.remaining.insert(format!("{plural}.{}", backend.group), left)),
            Err(why) => content.failed.push(format!("{version}, Resource={plural}: {why}")),
        }
    }
}

/// Deletes a collection, as one or one by one; how much of it is left.
async fn clear(api: &Api, backend: &Backend, path: &str, as_one: bool) -> Result<usize, String> {
    let endpoint = backend.service.pick(&api.replica.view())?;
    let page = format!("{path}?limit={PAGE}");
    let ask = |method, path: String| {
        let endpoint = endpoint.clone();
        async move { backend.ask(&endpoint, method, &path, "application/json").await }
    };
    if as_one {
        ask(Method::DELETE, path.to_owned()).await?;
    } else {
        for name in names(&ask(Method::GET, page.clone()).await?)? {
            ask(Method::DELETE, format!("{path}/{name}")).await?;
        }
    }
    Ok(names(&ask(Method::GET, page).await?)?.len())
}

fn names(list: &[u8]) -> Result<Vec<String>, String> {
    let list: Value = serde_json::from_slice(list).map_err(|error| error.to_string())?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}
