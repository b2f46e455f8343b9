//! What is served: path to resource, built-in or custom, as one immutable table that is swapped whole; never an object.

mod documents;
mod served;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use litek8s_machinery::resource::{Resource, builtin};
use litek8s_store::GroupResource;

pub use documents::{Document, Documents};
pub use served::Served;

use crate::strategy::{Strategy, for_builtin};

/// One served version of a custom resource.
#[derive(Clone)]
pub struct CustomVersion {
    /// The resource in this version.
    pub resource: Arc<Resource>,
    /// The version objects are stored in.
    pub storage_version: Arc<str>,
    /// Its defaults on read, its rules and everything else beyond the schema.
    pub strategy: Arc<dyn Strategy>,
}

/// The resources of one group and version, by plural name.
pub type GroupVersionTable = BTreeMap<Arc<str>, Arc<Served>>;

/// The tables by group, then by version.
type Groups = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<GroupVersionTable>>>;

/// Everything served at one moment.
pub struct Table {
    groups: Groups,
    documents: Documents,
}

impl Table {
    /// The resource at `/apis/GROUP/VERSION/PLURAL`.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.group_version(group, version)?.get(plural)
    }

    /// The resources of one group and version.
    pub fn group_version(&self, group: &str, version: &str) -> Option<&Arc<GroupVersionTable>> {
        self.groups.get(group)?.get(version)
    }

    /// Every group and version with its resources, in order.
    pub fn group_versions(&self) -> impl Iterator<Item = (&str, &str, &Arc<GroupVersionTable>)> {
        self.groups.iter().flat_map(|(group, versions)| {
            versions.iter().map(|(version, table)| (&**group, &**version, table))
        })
    }

    /// Every served resource.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.group_versions().flat_map(|(_, _, table)| table.values())
    }

    /// The resource of a kind, in the given version or, when that is empty, any.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.resources().find(|s| {
            *s.resource.group == *group
                && (version.is_empty() || *s.resource.version == *version)
                && *s.resource.kind == *kind
        })
    }

    /// The discovery and OpenAPI documents of this table.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }
}

/// The current [`Table`].
pub struct Registry {
    changed: tokio::sync::watch::Sender<()>,
    custom: RwLock<BTreeMap<String, Vec<CustomVersion>>>,
    table: RwLock<Arc<Table>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry of the built-in resources.
    pub fn new() -> Self {
        Self {
            changed: tokio::sync::watch::Sender::new(()),
            custom: RwLock::default(),
            table: RwLock::new(Arc::new(build(&BTreeMap::new(), None))),
        }
    }

    /// What is served now.
    pub fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wakes whenever the table was swapped.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether requests that begin now find exactly this.
    pub(crate) fn still_serves(&self, served: &Arc<Served>) -> bool {
        let resource = &served.resource;
        self.get(&resource.group, &resource.version, &resource.plural)
            .is_some_and(|now| Arc::ptr_eq(&now, served))
    }

    /// The resource at `/apis/GROUP/VERSION/PLURAL`.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(group, version, plural).cloned()
    }

    /// Serves these versions for the definition `name`, in place of what it had; none removes it.
    ///
    /// When this returns, requests that begin see the change.
    pub fn set_custom(&self, name: &str, versions: Vec<CustomVersion>) {
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        if versions.is_empty() {
            if custom.remove(name).is_none() {
                return;
            }
        } else {
            custom.insert(name.to_owned(), versions);
        }
        let before = self.table();
        let after = Arc::new(build(&custom, Some(&before)));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = after;
        self.changed.send_replace(());
    }
}

/// Builds the table; group versions that did not change keep their maps, so that their documents stay cached.
fn build(custom: &BTreeMap<String, Vec<CustomVersion>>, before: Option<&Table>) -> Table {
    let mut groups: BTreeMap<Arc<str>, BTreeMap<Arc<str>, GroupVersionTable>> = BTreeMap::new();
    let mut add = |served: Arc<Served>| {
        let resource = &served.resource;
        let versions = groups.entry(Arc::from(&*resource.group)).or_default();
        let table = versions.entry(Arc::from(&*resource.version)).or_default();
        table.insert(Arc::from(&*resource.plural), served);
    };
    let known = |resource: &Arc<Resource>| {
        before
            .and_then(|t| t.get(&resource.group, &resource.version, &resource.plural))
            .filter(|s| Arc::ptr_eq(&s.resource, resource))
            .cloned()
    };
    for resource in builtin() {
        add(known(resource)
            .unwrap_or_else(|| Arc::new(Served::builtin(resource.clone(), for_builtin(resource)))));
    }
    for version in custom.values().flatten().filter(|version| !is_built_in(&version.resource)) {
        let served = known(&version.resource).filter(|s| Arc::ptr_eq(&s.strategy, &version.strategy));
        add(served.unwrap_or_else(|| Arc::new(Served::custom(version))));
    }
    let keep = |group: &str, version: &str, table: GroupVersionTable| {
        let kept = before.and_then(|t| t.group_version(group, version)).filter(|old| same(old, &table));
        kept.cloned().unwrap_or_else(|| Arc::new(table))
    };
    let groups: Groups = groups
        .into_iter()
        .map(|(group, versions)| {
            let versions = versions.into_iter().map(|(version, table)| {
                let table = keep(&group, &version, table);
                (version, table)
            });
            let versions = versions.collect();
            (group, versions)
        })
        .collect();
    let documents = Documents::of(&groups, before.map(|t| (&t.groups, &t.documents)));
    Table { groups, documents }
}

/// Whether a custom resource has the plural name or the kind of a built-in one of its group, in whatever version.
///
/// It is not served then: both would be stored under one key, and the built-in one's rules would not hold for it.
fn is_built_in(custom: &Resource) -> bool {
    let same = |b: &Resource| b.group == custom.group && (b.plural == custom.plural || b.kind == custom.kind);
    builtin().iter().any(|resource| same(resource))
}

/// Whether objects of a built-in resource are stored under this key.
pub(crate) fn is_stored_by_builtin(key: &GroupResource) -> bool {
    builtin().iter().any(|resource| *resource.group == *key.group && *resource.plural == *key.resource)
}

fn same(old: &GroupVersionTable, new: &GroupVersionTable) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|((a, x), (b, y))| a == b && Arc::ptr_eq(x, y))
}

#[cfg(test)]
mod tests;
