//! Discovery and OpenAPI of this server and its backends together; without backends, this server's own as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};

use litek8s_machinery::discovery::{compare_versions, priorities};
use litek8s_machinery::openapi;
use serde_json::{Value, json};

use super::learned::LearnedOf;
use super::{Aggregation, Backends, swagger};
use crate::api::Api;
use crate::registry::{Document, Table};

/// The versions of a group by name, each with its priority and its entry in aggregated discovery.
type Versions = BTreeMap<String, (i64, Value)>;

/// The documents of one moment.
pub(crate) struct Shown {
    pub(crate) table: Arc<Table>,
    merged: Option<Arc<Merged>>,
}

/// The documents of this server and its backends, each made when it is first asked for.
pub(super) struct Merged {
    table: Arc<Table>,
    backends: Arc<Backends>,
    learned: Arc<LearnedOf>,
    groups: OnceLock<Document>,
    aggregated: OnceLock<Document>,
    index: OnceLock<Document>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

impl Aggregation {
    /// The documents to show now.
    pub(crate) fn documents(&self, api: &Api) -> Shown {
        let table = api.registry.table();
        let backends = self.backends(&api.replica);
        if backends.is_empty() {
            return Shown { table, merged: None };
        }
        let learned = self.learned();
        let same = |merged: &Arc<Merged>| {
            Arc::ptr_eq(&merged.table, &table)
                && Arc::ptr_eq(&merged.backends, &backends)
                && Arc::ptr_eq(&merged.learned, &learned)
        };
        let mut slot = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = slot.take().filter(same).unwrap_or_else(|| {
            Arc::new(Merged {
                table: table.clone(),
                backends,
                learned,
                groups: OnceLock::new(),
                aggregated: OnceLock::new(),
                index: OnceLock::new(),
                v2: OnceLock::new(),
                v2_protobuf: OnceLock::new(),
            })
        });
        *slot = Some(merged.clone());
        Shown { table, merged: Some(merged) }
    }
}

impl Shown {
    /// Aggregated discovery of `/api` (`core`) or `/apis`.
    pub(crate) fn aggregated(&self, core: bool) -> &Document {
        match &self.merged {
            Some(merged) if !core => merged.aggregated.get_or_init(|| Document::of(&merged.aggregated())),
            _ => self.table.aggregated(core),
        }
    }

    /// `/apis`: the groups and their versions; those of dead backends are missing.
    pub(crate) fn group_list(&self) -> &Document {
        match &self.merged {
            Some(merged) => merged.groups.get_or_init(|| Document::of(&merged.group_list())),
            None => self.table.group_list(),
        }
    }

    /// `/apis/GROUP`.
    pub(crate) fn group(&self, group: &str) -> Option<Value> {
        let Some(merged) = &self.merged else { return self.table.group(group) };
        let list = merged.group_list();
        let mut found = list["groups"].as_array()?.iter().find(|found| found["name"] == group)?.clone();
        found["kind"] = json!("APIGroup");
        found["apiVersion"] = json!("v1");
        Some(found)
    }

    /// `/openapi/v3`.
    pub(crate) fn openapi_index(&self) -> &Document {
        match &self.merged {
            Some(merged) => merged.index.get_or_init(|| Document::of(&merged.index())),
            None => self.table.openapi_index(),
        }
    }

    /// `/openapi/v2`.
    pub(crate) fn openapi_v2(&self) -> &Document {
        match &self.merged {
            Some(merged) => merged.v2.get_or_init(|| Document::of(&merged.v2())),
            None => self.table.openapi_v2(),
        }
    }

    /// `/openapi/v2` as protobuf.
    pub(crate) fn openapi_v2_protobuf(&self) -> &Document {
        match &self.merged {
            Some(merged) => merged
                .v2_protobuf
                .get_or_init(|| Document::of_bytes(openapi::v2_protobuf(&merged.v2()).into())),
            None => self.table.openapi_v2_protobuf(),
        }
    }
}

impl Merged {
    /// Groups and versions in their order, each with its entry in aggregated discovery.
    fn groups(&self) -> Vec<(String, Vec<Value>)> {
        let own: Value = serde_json::from_slice(&self.table.aggregated(false).bytes).unwrap_or_default();
        let mut groups: BTreeMap<String, (i64, Versions)> = BTreeMap::new();
        for item in own["items"].as_array().into_iter().flatten() {
            let group = item["metadata"]["name"].as_str().unwrap_or_default();
            let entry = groups.entry(group.to_owned()).or_default();
            for version in item["versions"].as_array().into_iter().flatten() {
                let name = version["version"].as_str().unwrap_or_default();
                let (of_group, of_version) = priorities(group, name);
                entry.0 = entry.0.max(of_group.into());
                entry.1.insert(name.to_owned(), (of_version.into(), version.clone()));
            }
        }
        for ((group, version), backend) in &*self.backends {
            let learned = self.learned.get(&(group.clone(), version.clone()));
            let current = backend.unavailable.is_none() && learned.is_some_and(|learned| !learned.stale);
            let freshness = if current { "Current" } else { "Stale" };
            let resources = learned.map(|learned| learned.resources.as_slice()).unwrap_or_default();
            let shown = json!({"version": version, "resources": resources, "freshness": freshness});
            let entry = groups.entry(group.clone()).or_default();
            entry.0 = entry.0.max(backend.group_priority);
            entry.1.insert(version.clone(), (backend.version_priority, shown));
        }
        groups.remove("");
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(a, (x, _)), (b, (y, _))| y.cmp(x).then_with(|| a.cmp(b)));
        let ordered = |versions: Versions| {
            let mut versions: Vec<_> = versions.into_iter().collect();
            versions.sort_by(|(a, (x, _)), (b, (y, _))| y.cmp(x).then_with(|| compare_versions(b, a)));
            versions.into_iter().map(|(_, (_, shown))| shown).collect()
        };
        groups.into_iter().map(|(group, (_, versions))| (group, ordered(versions))).collect()
    }

    fn aggregated(&self) -> Value {
        let item = |(group, versions)| json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": Value::Array(versions)});
        let items: Vec<Value> = self.groups().into_iter().map(item).collect();
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        })
    }

    fn group_list(&self) -> Value {
        let group = |(group, versions): (String, Vec<Value>)| {
            let current = versions.iter().filter(|version| version["freshness"] == "Current");
            let versions: Vec<Value> = current
                .filter_map(|version| version["version"].as_str())
                .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
                .collect();
            let preferred = versions.first()?.clone();
            Some(json!({"name": group, "preferredVersion": preferred, "versions": versions}))
        };
        let groups: Vec<Value> = self.groups().into_iter().filter_map(group).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// What backends that are there have learned.
    fn current(&self) -> impl Iterator<Item = (&super::Backend, &super::learned::Learned)> {
        self.backends.iter().filter(|(_, backend)| backend.unavailable.is_none()).filter_map(
            |(key, backend)| {
                let learned = self.learned.get(key).filter(|learned| !learned.stale)?;
                Some((&**backend, &**learned))
            },
        )
    }

    fn index(&self) -> Value {
        let mut index: Value = serde_json::from_slice(&self.table.openapi_index().bytes).unwrap_or_default();
        for (backend, learned) in self.current() {
            if let Some(url) = &learned.schema {
                let path = backend.discovery_path();
                index["paths"][path.trim_start_matches('/')] = json!({"serverRelativeURL": url});
            }
        }
        index
    }

    fn v2(&self) -> Value {
        let mut document: Value = serde_json::from_slice(&self.table.openapi_v2().bytes).unwrap_or_default();
        for swagger in self.current().filter_map(|(_, learned)| learned.swagger.as_ref()) {
            swagger::merge(&mut document, swagger);
        }
        document
    }
}
