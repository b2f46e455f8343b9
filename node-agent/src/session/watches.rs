//! Watches of the kinds the owner needs. Each goes on for ever.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use litek8s_crds::{VipAddress, VipConfig, VipGateway, VipGuard, VipNetwork, VipRoute, names};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::index::Change;
use crate::owner::Event;

/// The pause after an error; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest value of a label; the label of a longer name holds a hash of it.
const LONGEST_LABEL: usize = 63;

pub(super) fn spawn(tasks: &mut JoinSet<()>, client: &Client, node: &str, events: &mpsc::Sender<Event>) {
    let mut mine = watcher::Config::default();
    if node.len() <= LONGEST_LABEL {
        mine = mine.labels(&format!("{}={node}", names::LABEL_NODE_NAME));
    }
    let all = watcher::Config::default;
    tasks.spawn(watch(Api::<VipAddress>::all(client.clone()), mine, events.clone(), |change| {
        Event::Address(Box::new(change))
    }));
    tasks.spawn(watch(Api::<VipNetwork>::all(client.clone()), all(), events.clone(), Event::Network));
    tasks.spawn(watch(Api::<VipConfig>::all(client.clone()), all(), events.clone(), Event::Config));
    tasks.spawn(watch(Api::<VipGateway>::all(client.clone()), all(), events.clone(), Event::Gateway));
    let own = all().fields(&format!("metadata.name={node}"));
    tasks.spawn(watch(Api::<VipGuard>::all(client.clone()), own, events.clone(), Event::Guard));
    tasks.spawn(watch(Api::<VipRoute>::all(client.clone()), all(), events.clone(), Event::Route));
    tasks.spawn(watch(Api::<Node>::all(client.clone()), all(), events.clone(), |change| {
        Event::Node(Box::new(change))
    }));
}

async fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    events: mpsc::Sender<Event>,
    wrap: fn(Change<K>) -> Event,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = K::kind(&()).into_owned();
    let mut stream = std::pin::pin!(watcher(api, config));
    let mut listed = Vec::new();
    let mut pause = PAUSE;
    let mut failing = false;
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(kind, %error, "watching fails");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = PAUSE;
        let change = match event {
            watcher::Event::Init => {
                listed.clear();
                continue;
            }
            watcher::Event::InitApply(object) => {
                listed.push(object);
                continue;
            }
            watcher::Event::InitDone => Change::Reset(std::mem::take(&mut listed)),
            watcher::Event::Apply(object) => Change::Apply(object),
            watcher::Event::Delete(object) => Change::Delete(object),
        };
        if std::mem::take(&mut failing) {
            tracing::info!(kind, "watching again");
        }
        if events.send(wrap(change)).await.is_err() {
            return;
        }
    }
}
