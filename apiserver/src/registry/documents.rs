//! The discovery and OpenAPI documents of one table: built when first asked for, kept while what they describe stays.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use litek8s_machinery::gvk::GroupVersion;
use litek8s_machinery::resource::Resource;
use litek8s_machinery::{discovery, openapi};
use serde_json::Value;
use sha2::{Digest, Sha512};

use super::{GroupVersionTable, Groups, Table};

/// A document with the tag by which clients keep it.
#[derive(Debug, Clone)]
pub struct Document {
    /// What is sent: JSON, but for [`Table::openapi_v2_protobuf`].
    pub bytes: Bytes,
    /// The SHA-512 of the bytes, in upper-case hex.
    pub hash: String,
}

impl Document {
    pub(crate) fn of(value: &Value) -> Self {
        Self::of_bytes(value.to_string().into())
    }

    pub(crate) fn of_bytes(bytes: Bytes) -> Self {
        let hash = Sha512::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        Self { bytes, hash }
    }
}

type Lazy = Arc<OnceLock<Document>>;

/// What is kept for one group and version.
#[derive(Default, Clone)]
struct Kept {
    resources: Lazy,
    schema: Lazy,
}

/// The documents of one [`Table`].
#[derive(Default)]
pub struct Documents {
    /// Legacy discovery of all groups.
    groups: OnceLock<Document>,
    /// Aggregated discovery of `/api` and of `/apis`.
    aggregated: [OnceLock<Document>; 2],
    index: OnceLock<Document>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
    versions: BTreeMap<(Arc<str>, Arc<str>), Kept>,
}

impl Documents {
    /// The documents of a table; those of group versions that did not change come along.
    pub(super) fn of(groups: &Groups, before: Option<(&Groups, &Documents)>) -> Self {
        let mut versions = BTreeMap::new();
        for (group, table) in groups {
            for (version, resources) in table {
                let key = (group.clone(), version.clone());
                let unchanged = before.and_then(|(old, documents)| {
                    let same = old.get(group)?.get(version).is_some_and(|t| Arc::ptr_eq(t, resources));
                    documents.versions.get(&key).filter(|_| same).cloned()
                });
                versions.insert(key, unchanged.unwrap_or_default());
            }
        }
        Self { versions, ..Self::default() }
    }

    fn kept(&self, group: &str, version: &str) -> Option<&Kept> {
        self.versions.get(&(Arc::from(group), Arc::from(version)))
    }
}

fn resources(table: &GroupVersionTable) -> Vec<Arc<Resource>> {
    table.values().map(|served| served.resource.clone()).collect()
}

impl Table {
    fn all(&self, core: Option<bool>) -> Vec<Arc<Resource>> {
        self.resources()
            .filter(|served| core.is_none_or(|core| served.resource.group.is_empty() == core))
            .map(|served| served.resource.clone())
            .collect()
    }

    /// `/apis`: the groups and their versions.
    pub fn group_list(&self) -> &Document {
        self.documents().groups.get_or_init(|| Document::of(&discovery::group_list(&self.all(Some(false)))))
    }

    /// `/apis/GROUP`.
    pub fn group(&self, group: &str) -> Option<Value> {
        discovery::group(group, &self.all(Some(false)))
    }

    /// `/api/v1` or `/apis/GROUP/VERSION`: the resources.
    pub fn resource_list(&self, group: &str, version: &str) -> Option<&Document> {
        let table = self.group_version(group, version)?;
        let kept = self.documents().kept(group, version)?;
        let gv = GroupVersion::new(group, version);
        Some(kept.resources.get_or_init(|| Document::of(&discovery::resource_list(&gv, &resources(table)))))
    }

    /// Everything at `/api` (`core`) or `/apis`, in one document.
    pub fn aggregated(&self, core: bool) -> &Document {
        let [api, apis] = &self.documents().aggregated;
        let slot = if core { api } else { apis };
        slot.get_or_init(|| Document::of(&discovery::aggregated(&self.all(Some(core)))))
    }

    /// `/openapi/v3`: where the documents are, with their hashes.
    pub fn openapi_index(&self) -> &Document {
        self.documents().index.get_or_init(|| {
            let versions: Vec<GroupVersion> =
                self.group_versions().map(|(group, version, _)| GroupVersion::new(group, version)).collect();
            let hashed = versions
                .iter()
                .filter_map(|gv| Some((gv, self.openapi(&gv.group, &gv.version)?.hash.clone())));
            Document::of(&openapi::v3_index(hashed))
        })
    }

    /// `/openapi/v3/…`: the schemas and paths of one group and version.
    pub fn openapi(&self, group: &str, version: &str) -> Option<&Document> {
        let table = self.group_version(group, version)?;
        let kept = self.documents().kept(group, version)?;
        let gv = GroupVersion::new(group, version);
        Some(kept.schema.get_or_init(|| Document::of(&openapi::v3(&gv, &resources(table)))))
    }

    /// `/openapi/v2` as protobuf, the only form in which client-go reads it.
    pub fn openapi_v2_protobuf(&self) -> &Document {
        self.documents()
            .v2_protobuf
            .get_or_init(|| Document::of_bytes(openapi::v2_protobuf(&openapi::v2(&self.all(None))).into()))
    }

    /// `/openapi/v2`: everything in the older format.
    pub fn openapi_v2(&self) -> &Document {
        self.documents().v2.get_or_init(|| Document::of(&openapi::v2(&self.all(None))))
    }
}
