//! Roles by name and bindings by subject: what one authorization needs, in a few hash look-ups.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use litek8s_store::{Event, EventKind, GroupResource, Object, View};
use serde::Deserialize;

use super::rule::PolicyRule;
use super::{Attributes, RBAC_GROUP};
use crate::request::UserInfo;

/// What a binding points at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

/// Why something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    binding: BindingKey,
    role: RoleRef,
    subject: Subject,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = &self.binding;
        let role = &self.role;
        if namespace.is_empty() {
            write!(f, "RBAC: allowed by ClusterRoleBinding {name:?}")?;
        } else {
            write!(f, "RBAC: allowed by RoleBinding {:?}", format!("{name}/{namespace}"))?;
        }
        write!(f, " of {} {:?} to {}", role.kind, role.name, self.subject)
    }
}

/// Whom a binding is for; a service account is the user it acts as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::User(name) => ("User", name),
            Self::Group(name) => ("Group", name),
        };
        write!(f, "{kind} {name:?}")
    }
}

/// Namespace and name; the namespace of a ClusterRoleBinding is empty, as is that of a ClusterRole.
type BindingKey = (String, String);

/// Roles and bindings of the store.
#[derive(Debug, Default)]
pub(super) struct Index {
    roles: HashMap<BindingKey, Arc<[PolicyRule]>>,
    bindings: HashMap<BindingKey, Vec<Subject>>,
    by_subject: HashMap<Subject, BTreeMap<BindingKey, RoleRef>>,
}

#[derive(Deserialize)]
struct RoleObject {
    #[serde(default)]
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingObject {
    role_ref: RoleRef,
    #[serde(default)]
    subjects: Option<Vec<SubjectObject>>,
}

#[derive(Deserialize)]
struct SubjectObject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

impl Index {
    /// Reads all roles and bindings.
    pub(super) fn build(view: &View) -> Self {
        let mut index = Self::default();
        for resource in ["roles", "clusterroles", "rolebindings", "clusterrolebindings"] {
            let resource = GroupResource { group: RBAC_GROUP.into(), resource: resource.into() };
            for object in view.list(&resource, None) {
                index.put(object);
            }
        }
        index
    }

    /// Takes one event in; those of other resources cost a comparison.
    pub(super) fn observe(&mut self, event: &Event) {
        if &*event.object.key.resource.group != RBAC_GROUP {
            return;
        }
        match event.kind {
            EventKind::Added | EventKind::Modified => self.put(&event.object),
            EventKind::Deleted => self.remove(&event.object),
        }
    }

    fn put(&mut self, object: &Object) {
        let key = key_of(object);
        match &*object.key.resource.resource {
            "roles" | "clusterroles" => {
                let rules = serde_json::from_slice::<RoleObject>(&object.json).ok().and_then(|r| r.rules);
                self.roles.insert(key, rules.unwrap_or_default().into());
            }
            "rolebindings" | "clusterrolebindings" => {
                self.unbind(&key);
                // What cannot be read grants nothing.
                if let Ok(binding) = serde_json::from_slice::<BindingObject>(&object.json) {
                    self.bind(key, binding);
                }
            }
            _ => {}
        }
    }

    fn remove(&mut self, object: &Object) {
        let key = key_of(object);
        match &*object.key.resource.resource {
            "roles" | "clusterroles" => {
                self.roles.remove(&key);
            }
            "rolebindings" | "clusterrolebindings" => self.unbind(&key),
            _ => {}
        }
    }

    fn bind(&mut self, key: BindingKey, binding: BindingObject) {
        let subjects: Vec<Subject> =
            binding.subjects.unwrap_or_default().iter().filter_map(|s| subject(s, &key.0)).collect();
        for subject in &subjects {
            let bound = self.by_subject.entry(subject.clone()).or_default();
            bound.insert(key.clone(), binding.role_ref.clone());
        }
        self.bindings.insert(key, subjects);
    }

    fn unbind(&mut self, key: &BindingKey) {
        for subject in self.bindings.remove(key).unwrap_or_default() {
            if let Some(bound) = self.by_subject.get_mut(&subject) {
                bound.remove(key);
                if bound.is_empty() {
                    self.by_subject.remove(&subject);
                }
            }
        }
    }

    /// The first grant that allows this.
    pub(super) fn allows(&self, user: &UserInfo, wanted: &Attributes<'_>) -> Option<Grant> {
        self.grants(user, wanted.namespace).find_map(|(subject, binding, role)| {
            let rules = self.rules(role, &binding.0)?;
            rules.iter().any(|rule| rule.allows(wanted)).then(|| Grant {
                binding: binding.clone(),
                role: role.clone(),
                subject: subject.clone(),
            })
        })
    }

    /// All rules for the user: those of the cluster's bindings and of the namespace's.
    pub(super) fn rules_for(&self, user: &UserInfo, namespace: &str) -> Vec<PolicyRule> {
        self.grants(user, namespace)
            .filter_map(|(_, binding, role)| self.rules(role, &binding.0))
            .flat_map(|rules| rules.iter().cloned())
            .collect()
    }

    /// The rules of a role, seen from a binding in `namespace`; `None` when there is no such role.
    pub(super) fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&Arc<[PolicyRule]>> {
        let namespace = match role.kind.as_str() {
            "ClusterRole" => "",
            "Role" if !namespace.is_empty() => namespace,
            _ => return None,
        };
        self.roles.get(&(namespace.to_owned(), role.name.clone()))
    }

    fn grants<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Subject, &'a BindingKey, &'a RoleRef)> + 'a {
        let subjects = std::iter::once(Subject::User(user.name.clone()))
            .chain(user.groups.iter().cloned().map(Subject::Group));
        subjects.filter_map(|subject| self.by_subject.get_key_value(&subject)).flat_map(
            move |(subject, bound)| {
                bound
                    .iter()
                    .filter(move |((of, _), _)| of.is_empty() || of == namespace)
                    .map(move |(binding, role)| (subject, binding, role))
            },
        )
    }
}

fn key_of(object: &Object) -> BindingKey {
    (object.key.namespace.to_string(), object.key.name.to_string())
}

fn subject(subject: &SubjectObject, binding_namespace: &str) -> Option<Subject> {
    match subject.kind.as_str() {
        "User" => Some(Subject::User(subject.name.clone())),
        "Group" => Some(Subject::Group(subject.name.clone())),
        "ServiceAccount" => {
            let namespace =
                subject.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(binding_namespace);
            (!namespace.is_empty())
                .then(|| Subject::User(format!("system:serviceaccount:{namespace}:{}", subject.name)))
        }
        _ => None,
    }
}
