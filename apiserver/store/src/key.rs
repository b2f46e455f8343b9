//! The names of things: revisions, resources and object keys.

use std::fmt;
use std::sync::Arc;

/// The cluster's resourceVersion: the number of mutations applied so far.
pub type Revision = u64;

/// An API group (`""` for the core group) and the plural name of a resource in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural, lower-case name of the resource.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// The resource `resource` of `group`.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// What identifies an object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The kind of thing, without its version: every version of a resource is one object.
    pub resource: GroupResource,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// The name, unique in its namespace.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of the object `name` in `namespace` (empty for cluster-scoped).
    pub fn new(resource: GroupResource, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.resource, self.name)
        } else {
            write!(f, "{}/{}/{}", self.resource, self.namespace, self.name)
        }
    }
}

/// The place of an object within its resource, in the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl From<&ObjectKey> for Name {
    fn from(key: &ObjectKey) -> Self {
        Self { namespace: key.namespace.clone(), name: key.name.clone() }
    }
}
