//! Resources: what the API serves, under which names, with which verbs and columns. The built-in ones are the rows of
//! `types/kinds.txt`; the next kind is a row. Custom ones are made from their definitions by [`custom::resources`].

pub mod custom;
mod kinds;

use std::sync::{Arc, OnceLock};

use crate::gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
use crate::jsonpath::JsonPath;
use crate::schema::SchemaRef;

/// The verbs of a resource that does everything, in the order of names.
pub const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// How an object of a resource may be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRule {
    /// Dotted labels of RFC 1123, 253 bytes at most.
    #[default]
    Subdomain,
    /// One label of RFC 1123, 63 bytes at most.
    Label,
    /// One label of RFC 1035: the same, and starts with a letter.
    Dns1035,
    /// Anything that is one segment of a path.
    PathSegment,
    /// An IP address in its one spelling.
    Address,
}

/// A further endpoint of an object, as in `pods/log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last part of the path.
    pub name: Arc<str>,
    /// The group of its kind.
    pub group: Arc<str>,
    /// The version of its kind.
    pub version: Arc<str>,
    /// The kind of its bodies.
    pub kind: Arc<str>,
    /// What can be done with it, sorted.
    pub verbs: Vec<Arc<str>>,
    /// The type of its bodies, where it is one of the table.
    pub schema: Option<crate::schema::TypeName>,
}

/// Where the cells of a column come from.
#[derive(Debug, Clone)]
pub enum ColumnSource {
    /// The value at a path, or `absent` when there is none.
    Path {
        /// The path.
        path: JsonPath,
        /// What stands there when the path leads nowhere.
        absent: Arc<str>,
    },
    /// The time since `metadata.creationTimestamp`.
    Age,
    /// A printer of [`crate::table`], by name.
    Printer(Arc<str>),
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// The header.
    pub name: Arc<str>,
    /// The OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    pub ty: Arc<str>,
    /// The OpenAPI format; `name` marks the identifying column.
    pub format: Arc<str>,
    /// For people.
    pub description: Arc<str>,
    /// 0 is shown always, more only in wide output.
    pub priority: i64,
    /// Where the cells come from.
    pub source: ColumnSource,
}

/// A field that a field selector may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSelector {
    /// The name in the selector.
    pub label: Arc<str>,
    /// Where it is in the object, fields joined by dots: the first of these paths that leads to something.
    pub paths: Vec<Arc<str>>,
}

/// Another kind that objects of this one are kept as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The kind that is kept.
    pub kind: GroupVersionKind,
    /// The resource that is kept.
    pub resource: GroupResource,
    /// Top-level fields with another name there: ours, theirs.
    pub renames: Vec<(Arc<str>, Arc<str>)>,
}

/// The paths of the scale subresource of a custom resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// The number wanted, as in `.spec.replicas`.
    pub spec_replicas: Arc<str>,
    /// The number there is, as in `.status.replicas`.
    pub status_replicas: Arc<str>,
    /// The serialized label selector, where there is one.
    pub label_selector: Option<Arc<str>>,
}

/// One resource in one version.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The group, `""` for the core group.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The kind of a list.
    pub list_kind: Arc<str>,
    /// The name in paths.
    pub plural: Arc<str>,
    /// The name for one.
    pub singular: Arc<str>,
    /// Names for the hurried, as in `po`.
    pub short_names: Vec<Arc<str>>,
    /// Groups of resources, as in `all`.
    pub categories: Vec<Arc<str>>,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it, sorted.
    pub verbs: Vec<Arc<str>>,
    /// Further endpoints, sorted by name; `status` is among them.
    pub subresources: Vec<Subresource>,
    /// The type of the objects.
    pub schema: SchemaRef,
    /// The columns of a table.
    pub columns: Vec<Column>,
    /// Fields that selectors may name besides `metadata.name` and `metadata.namespace`.
    pub field_selectors: Vec<FieldSelector>,
    /// The status is written through its own endpoint only.
    pub has_status: bool,
    /// Changes of anything but metadata and status are counted in `metadata.generation`.
    pub counts_generation: bool,
    /// A PUT of a name that is not there creates it.
    pub creates_on_update: bool,
    /// A PUT may leave out the resource version.
    pub unconditional_update: bool,
    /// How objects are named.
    pub name_rule: NameRule,
    /// The kind that objects are kept as, where it is another one.
    pub stored: Option<Stored>,
    /// Made from a CustomResourceDefinition.
    pub custom: bool,
    /// The paths of the scale of a custom resource.
    pub scale: Option<ScalePaths>,
    /// A text to warn clients of this version with.
    pub deprecation: Option<Arc<str>>,
}

impl Resource {
    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone())
    }

    /// Group, version and plural.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), self.version.clone(), self.plural.clone())
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// Group and plural: the name in most messages.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Group and kind: the name in messages about invalid objects.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }

    /// The `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Whether the resource has this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| &**known == verb)
    }

    /// A further endpoint by its name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| &*sub.name == name)
    }

    /// Whether field selectors may name the label.
    pub fn is_selectable(&self, label: &str) -> bool {
        match label {
            "metadata.name" => true,
            "metadata.namespace" => self.namespaced,
            _ => self.field_selector(label).is_some(),
        }
    }

    /// The field, beside name and namespace, that field selectors call so.
    pub fn field_selector(&self, label: &str) -> Option<&FieldSelector> {
        self.field_selectors.iter().find(|field| &*field.label == label)
    }
}

/// All built-in resources, in the order of the table. Parsed once.
pub fn builtin() -> &'static [Arc<Resource>] {
    static BUILTIN: OnceLock<Vec<Arc<Resource>>> = OnceLock::new();
    BUILTIN.get_or_init(|| kinds::read().into_iter().map(Arc::new).collect())
}

/// The built-in resource of this group, version and kind.
pub fn find_kind(kind: &GroupVersionKind) -> Option<&'static Arc<Resource>> {
    builtin().iter().find(|resource| {
        resource.kind == kind.kind && resource.group == kind.group && resource.version == kind.version
    })
}

/// The type of a kind that a request may carry: a served one, or one of meta/v1 (DeleteOptions, Status), which every
/// group knows.
pub fn type_of(kind: &GroupVersionKind) -> Option<crate::schema::TypeName> {
    let package = kinds::package(&kind.group);
    crate::types::find(&format!("{package}/{}.{}", kind.version, kind.kind))
        .or_else(|| crate::types::find(&format!("meta/v1.{}", kind.kind)))
}

#[cfg(test)]
mod tests;
