//! Groups, versions, kinds and resources: the names by which the API tells one type from another.

use std::fmt;
use std::sync::Arc;

/// An API group and version; the core group is the empty string and prints as `v1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The version, as in `v1`.
    pub version: Arc<str>,
}

impl GroupVersion {
    /// A group and version from their parts.
    pub fn new(group: impl Into<Arc<str>>, version: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`: `v1` or `apps/v1`; nothing else has one slash or none and both parts filled.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None if !api_version.is_empty() => Some(Self::new("", api_version)),
            Some((group, version)) if !group.is_empty() && !version.is_empty() && !version.contains('/') => {
                Some(Self::new(group, version))
            }
            _ => None,
        }
    }

    /// This group and version with a kind.
    pub fn with_kind(&self, kind: impl Into<Arc<str>>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A kind in a group and version: what `apiVersion` and `kind` of an object say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The kind, as in `Pod`.
    pub kind: Arc<str>,
}

impl GroupVersionKind {
    /// A kind from its parts.
    pub fn new(group: impl Into<Arc<str>>, version: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` of an object of this kind.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// The group and version alone.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The group and kind alone.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// What an object says it is; absent when `apiVersion` or `kind` is missing or malformed.
    pub fn of(object: &serde_json::Value) -> Option<Self> {
        let group_version = GroupVersion::parse(object.get("apiVersion")?.as_str()?)?;
        let kind = object.get("kind")?.as_str().filter(|kind| !kind.is_empty())?;
        Some(group_version.with_kind(kind))
    }
}

impl fmt::Display for GroupVersionKind {
    /// As Go prints it: `apps/v1, Kind=Deployment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource in a group and version: what a URL says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The plural resource name, as in `pods`.
    pub resource: Arc<str>,
}

impl GroupVersionResource {
    /// A resource from its parts.
    pub fn new(
        group: impl Into<Arc<str>>,
        version: impl Into<Arc<str>>,
        resource: impl Into<Arc<str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The group and version alone.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The group and resource alone.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl fmt::Display for GroupVersionResource {
    /// As Go prints it: `apps/v1, Resource=deployments`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// A resource without its version; prints as `pods` or `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The plural resource name.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// A resource from its parts.
    pub fn new(group: impl Into<Arc<str>>, resource: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

/// A kind without its version; prints as `Pod` or `Deployment.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

impl GroupKind {
    /// A kind from its parts.
    pub fn new(group: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_parsed_as_upstream_does() {
        assert_eq!(GroupVersion::parse("v1"), Some(GroupVersion::new("", "v1")));
        assert_eq!(GroupVersion::parse("apps/v1"), Some(GroupVersion::new("apps", "v1")));
        for bad in ["", "/", "/v1", "apps/", "a/b/c"] {
            assert_eq!(GroupVersion::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_print_as_go_prints_them() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
        assert_eq!(GroupVersion::new("apps", "v1").to_string(), "apps/v1");
    }
}
