//! Nobody gives away what they do not have: the checks behind writes of roles and bindings, as kube-apiserver makes them.

use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::{GroupKind, GroupResource};
use litek8s_machinery::status::Status;
use litek8s_store::View;
use serde_json::Value;

use super::{Attributes, Authorizer, PolicyRule, RBAC_GROUP, RoleRef};
use crate::request::{MASTERS, UserInfo};

impl Authorizer {
    /// Whether `user` may store this Role, ClusterRole, RoleBinding or ClusterRoleBinding.
    ///
    /// `old` is the stored object, `new` the one to store; other kinds pass.
    ///
    /// # Errors
    /// 403 when it would grant more than the user has, 404 when a binding points at no role, 422 when a binding changes its role.
    pub fn check_escalation(
        &self,
        user: &UserInfo,
        view: &View,
        kind: &str,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Status> {
        if old.is_some_and(|old| same_but_for_deletion(old, new)) {
            return Ok(());
        }
        let write = Write { user, view, old, new };
        match kind {
            "Role" => self.check_role(&write, "roles"),
            "ClusterRole" => self.check_role(&write, "clusterroles"),
            "RoleBinding" => self.check_binding(&write, "rolebindings", kind),
            "ClusterRoleBinding" => self.check_binding(&write, "clusterrolebindings", kind),
            _ => Ok(()),
        }
    }

    fn check_role(&self, write: &Write<'_>, resource: &str) -> Result<(), Status> {
        if self.may(write, "escalate", resource, write.name()) {
            return Ok(());
        }
        let refused =
            |why: String| Status::forbidden(&GroupResource::new(RBAC_GROUP, resource), write.name(), why);
        let aggregates = |role: &Value| !role["aggregationRule"].is_null();
        if aggregates(write.new) || write.old.is_some_and(aggregates) {
            // What a role gathers cannot be foreseen, so only who may do everything may let it gather.
            let everything = PolicyRule {
                verbs: vec!["*".to_owned()],
                api_groups: vec!["*".to_owned()],
                resources: vec!["*".to_owned()],
                ..PolicyRule::default()
            };
            self.confirm(write, &[everything]).map_err(|_| {
                refused("must have cluster-admin privileges to use an aggregationRule".to_owned())
            })?;
        }
        let rules = serde_json::from_value::<Option<Vec<PolicyRule>>>(write.new["rules"].clone());
        let rules = rules.map_err(|error| Status::bad_request(error.to_string()))?.unwrap_or_default();
        self.confirm(write, &rules).map_err(refused)
    }

    fn check_binding(&self, write: &Write<'_>, resource: &str, kind: &str) -> Result<(), Status> {
        let role: RoleRef = serde_json::from_value(write.new["roleRef"].clone())
            .map_err(|error| Status::bad_request(format!("roleRef: {error}")))?;
        if write.old.is_some_and(|old| old["roleRef"] != write.new["roleRef"]) {
            let error = FieldError::invalid("roleRef", write.new["roleRef"].clone(), "cannot change roleRef");
            return Err(Status::invalid(&GroupKind::new(RBAC_GROUP, kind), write.name(), &[error]));
        }
        let roles = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
        if write.user.in_group(MASTERS) || self.may(write, "bind", roles, &role.name) {
            return Ok(());
        }
        let rules = self.with_index(write.view, |index| index.rules(&role, write.namespace()).cloned());
        let Some(rules) = rules else {
            return Err(Status::not_found(&GroupResource::new(RBAC_GROUP, roles), &role.name));
        };
        self.confirm(write, &rules)
            .map_err(|why| Status::forbidden(&GroupResource::new(RBAC_GROUP, resource), write.name(), why))
    }

    fn may(&self, write: &Write<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let wanted = Attributes {
            verb,
            namespace: write.namespace(),
            group: RBAC_GROUP,
            resource,
            name,
            is_resource: true,
            ..Attributes::default()
        };
        self.authorize(write.user, &wanted, write.view).allowed()
    }

    /// Whether the user has every permission of `rules`; otherwise what to say.
    fn confirm(&self, write: &Write<'_>, rules: &[PolicyRule]) -> Result<(), String> {
        if write.user.in_group(MASTERS) {
            return Ok(());
        }
        let own = self.rules_for(write.user, write.namespace(), write.view);
        let parts = rules.iter().flat_map(PolicyRule::parts);
        let missing: Vec<String> = parts
            .filter(|part| !own.iter().any(|rule| rule.covers(part)))
            .map(|part| part.to_string())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = write.user.groups.iter().map(|group| format!("{group:?}")).collect();
        Err(format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            write.user.name,
            groups.join(" "),
            missing.join("\n")
        ))
    }
}

/// One write to check.
struct Write<'a> {
    user: &'a UserInfo,
    view: &'a View,
    old: Option<&'a Value>,
    new: &'a Value,
}

impl Write<'_> {
    fn name(&self) -> &str {
        self.new["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.new["metadata"]["namespace"].as_str().unwrap_or_default()
    }
}

/// Whether only what garbage collection writes differs: owners, finalizers and bookkeeping.
fn same_but_for_deletion(old: &Value, new: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    without(old) == without(new)
}
