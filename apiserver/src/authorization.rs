//! Whether a user may do what a request asks for: masters, the node rules and RBAC, from an index that follows the store.
//!
//! No request scans the store: the index is brought up to date by the events since the last request.

mod aggregation;
mod escalation;
mod index;
mod node;
mod rule;

use std::sync::{PoisonError, RwLock};

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{Revision, View};

pub use aggregation::run as aggregate_cluster_roles;
pub use index::{Grant, RoleRef};
pub use rule::PolicyRule;

use crate::request::{MASTERS, RequestInfo, UserInfo};
use index::Index;

/// The API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Events taken from the history at a time while the index catches up.
const CATCH_UP: usize = 1_000;

/// What is to be authorized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The namespace, empty for cluster scope.
    pub namespace: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural resource name; empty when only a path is asked for.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The object's name, empty when the request names none.
    pub name: &'a str,
    /// The path of a request that is for no resource.
    pub path: &'a str,
    /// Whether it is about a resource.
    pub is_resource: bool,
}

impl<'a> From<&'a RequestInfo> for Attributes<'a> {
    fn from(info: &'a RequestInfo) -> Self {
        Self {
            verb: &info.verb,
            namespace: &info.namespace,
            group: &info.api_group,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
            path: &info.path,
            is_resource: info.is_resource_request,
        }
    }
}

/// What authorization says, with the reason that a review shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, and by what.
    Allow(String),
    /// Not allowed by anything; the reason may be empty.
    Deny(String),
}

impl Decision {
    /// Whether it is allowed.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// The cluster's authorizer; one for the process.
#[derive(Debug, Default)]
pub struct Authorizer {
    cached: RwLock<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    /// The revision the index shows; `None` before the first look.
    revision: Option<Revision>,
    index: Index,
}

impl Authorizer {
    /// Whether `user` may do this, by the roles of `view`.
    pub fn authorize(&self, user: &UserInfo, wanted: &Attributes<'_>, view: &View) -> Decision {
        if user.in_group(MASTERS) {
            return Decision::Allow(String::new());
        }
        let mut denial = String::new();
        if let Some(name) = user.node_name() {
            match node::authorize(name, wanted, view) {
                Decision::Allow(reason) => return Decision::Allow(reason),
                Decision::Deny(reason) => denial = reason,
            }
        }
        let grant = self.with_index(view, |index| index.allows(user, wanted));
        grant.map_or(Decision::Deny(denial), |grant| Decision::Allow(grant.to_string()))
    }

    /// As [`Self::authorize`], for whoever needs nothing but the 403.
    ///
    /// # Errors
    /// 403 when nothing allows it.
    pub fn demand(&self, user: &UserInfo, wanted: &Attributes<'_>, view: &View) -> Result<(), Status> {
        match self.authorize(user, wanted, view) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) => Err(Self::forbidden(user, wanted, &reason)),
        }
    }

    /// The 403 for a denied request.
    pub fn forbidden(user: &UserInfo, wanted: &Attributes<'_>, reason: &str) -> Status {
        let mut text = refusal(user, wanted);
        if !reason.is_empty() {
            text = format!("{text}: {reason}");
        }
        if wanted.is_resource {
            Status::forbidden(&GroupResource::new(wanted.group, wanted.resource), wanted.name, text)
        } else {
            Status::forbidden(&GroupResource::new("", ""), "", text)
        }
    }

    /// All rules that hold for `user` in `namespace`.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str, view: &View) -> Vec<PolicyRule> {
        self.with_index(view, |index| index.rules_for(user, namespace))
    }

    /// Runs `read` over an index that is at least as new as `view`.
    fn with_index<T>(&self, view: &View, read: impl FnOnce(&Index) -> T) -> T {
        let revision = view.revision();
        {
            let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
            if cached.revision.is_some_and(|at| at >= revision) {
                return read(&cached.index);
            }
        }
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.catch_up(view);
        read(&cached.index)
    }
}

impl Cached {
    /// Applies the events since the last time; starts over when they are gone.
    fn catch_up(&mut self, view: &View) {
        let target = view.revision();
        while let Some(at) = self.revision {
            if at >= target {
                return;
            }
            let Ok(events) = view.events_after(at, CATCH_UP) else { break };
            let Some(last) = events.last() else {
                self.revision = Some(target);
                return;
            };
            self.revision = Some(last.revision);
            for event in &events {
                self.index.observe(event);
            }
        }
        self.index = Index::build(view);
        self.revision = Some(target);
    }
}

/// What the user may not do, in kube-apiserver's words.
fn refusal(user: &UserInfo, wanted: &Attributes<'_>) -> String {
    if !wanted.is_resource {
        return format!("User {:?} cannot {} path {:?}", user.name, wanted.verb, wanted.path);
    }
    let resource = combined(wanted.resource, wanted.subresource);
    let scope = if wanted.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", wanted.namespace)
    };
    format!(
        "User {:?} cannot {} resource {:?} in API group {:?} {scope}",
        user.name, wanted.verb, resource, wanted.group
    )
}

fn combined(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") }
}

#[cfg(test)]
mod tests;
