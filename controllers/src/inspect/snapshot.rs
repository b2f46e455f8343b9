//! Everything the VIP controller knows, read once.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use litek8s_crds::{Finding, names};
use serde::de::DeserializeOwned;

use crate::vip::{Facts, LeaseFact, Objects, facts};

/// How many objects an answer holds; the rest is asked for.
const PAGE: u32 = 500;
/// After that a Lease that was not renewed says that its agent is silent: agents renew every 2 s, and clocks differ.
const SILENT: SignedDuration = SignedDuration::from_secs(10);

/// What an agent says.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    pub(super) node: String,
    /// Since when it was not heard, if that is long.
    pub(super) silent: Option<Timestamp>,
    pub(super) findings: Vec<Finding>,
}

/// The objects at one time, and what the controller makes of them.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) facts: Facts,
    pub(super) objects: Objects,
    pub(super) agents: Vec<Agent>,
    /// The suite's definitions by name, those that could be looked at; none for one that is not there.
    pub(super) definitions: BTreeMap<String, Option<CustomResourceDefinition>>,
}

impl Snapshot {
    /// `agents` is the namespace of the agents' Leases.
    pub(super) async fn read(client: &Client, agents: &str) -> anyhow::Result<Self> {
        let leases: Vec<Arc<Lease>> = list(&Api::namespaced(client.clone(), agents)).await?;
        let now = Timestamp::now();
        let objects = Objects {
            services: all(client).await?,
            slices: all(client).await?,
            nodes: all(client).await?,
            configs: all(client).await?,
            networks: all(client).await?,
            gateways: all(client).await?,
            addresses: all(client).await?,
            guards: all(client).await?,
            leases: leases.iter().filter_map(|lease| LeaseFact::read(lease, renewed(lease)?)).collect(),
        };
        Ok(Self { definitions: definitions(client).await?, ..Self::new(objects, &leases, now) })
    }

    pub(super) fn new(objects: Objects, leases: &[Arc<Lease>], now: Timestamp) -> Self {
        let facts = facts(&objects, &manager(&objects), now);
        let agents = leases.iter().filter_map(|lease| agent(lease, now)).collect();
        Self { facts, objects, agents, definitions: BTreeMap::new() }
    }
}

/// Who may not look at definitions learns nothing of them.
async fn definitions(client: &Client) -> anyhow::Result<BTreeMap<String, Option<CustomResourceDefinition>>> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut found = BTreeMap::new();
    for name in litek8s_crds::definitions().iter().map(ResourceExt::name_any) {
        match api.get_opt(&name).await {
            Ok(definition) => {
                found.insert(name, definition);
            }
            Err(kube::Error::Api(status)) if status.is_forbidden() => {}
            Err(error) => return Err(error).with_context(|| format!("get {name}")),
        }
    }
    Ok(found)
}

/// Whose VipAddresses are looked at: those of the manager that made some, or of the default one.
fn manager(objects: &Objects) -> String {
    let found = objects.addresses.iter().find_map(|address| address.labels().get(names::LABEL_MANAGED_BY));
    found.cloned().unwrap_or_else(|| names::DEFAULT_MANAGER.to_owned())
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

fn agent(lease: &Lease, now: Timestamp) -> Option<Agent> {
    let node = lease.name_any().strip_prefix(names::AGENT_LEASE_PREFIX)?.to_owned();
    let findings = lease.annotations().get(names::ANNOTATION_FINDINGS);
    let findings = findings.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let silent = renewed(lease).filter(|&renewed| now.duration_since(renewed) > SILENT);
    Some(Agent { node, silent, findings })
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<Arc<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    list(&Api::all(client.clone())).await
}

async fn list<K>(api: &Api<K>) -> anyhow::Result<Vec<Arc<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match api.list(&params).await {
            // The kind has no definition, so there is none of it.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(found),
            page => page.with_context(|| format!("list {}", K::plural(&())))?,
        };
        found.extend(page.items.into_iter().map(Arc::new));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}
