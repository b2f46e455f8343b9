//! ClusterRoles that gather others by label: their rules follow the roles they select.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use litek8s_machinery::selector::LabelSelector;
use litek8s_raft::Replica;
use litek8s_store::{Command, GroupResource, Object, Precondition, Revision, View};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::RBAC_GROUP;

/// How long the cluster may settle before roles are gathered again.
const SETTLE: Duration = Duration::from_millis(100);
/// Events looked at in one step.
const STEP: usize = 1_000;
/// How long after a write that failed the roles are gathered again.
const RETRY: Duration = Duration::from_millis(500);

/// Keeps aggregated ClusterRoles right while this server leads in `term`.
pub async fn run(replica: Replica, term: u64, shutdown: CancellationToken) {
    let mut applied = replica.applied();
    let mut seen: Option<Revision> = None;
    loop {
        let view = replica.view();
        let mut failed = false;
        if roles_changed(&view, seen) {
            for update in updates(&view) {
                if let Err(error) = replica.propose(update, Some(term)).await {
                    failed = true;
                    tracing::debug!(%error, "an aggregated ClusterRole was not written, will try again");
                }
            }
        }
        // What was not written is looked for again, also when nothing else changes.
        seen = if failed { None } else { Some(view.revision()) };
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = applied.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if failed => {}
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(SETTLE) => {}
        }
    }
}

fn roles_changed(view: &View, seen: Option<Revision>) -> bool {
    let Some(mut at) = seen else { return true };
    while at < view.revision() {
        let Ok(events) = view.events_after(at, STEP) else { return true };
        let Some(last) = events.last() else { return false };
        at = last.revision;
        let is_role = |object: &Object| {
            let resource = &object.key.resource;
            &*resource.group == RBAC_GROUP && &*resource.resource == "clusterroles"
        };
        if events.iter().any(|event| is_role(&event.object)) {
            return true;
        }
    }
    false
}

/// The updates that make every aggregated role what its selectors gather.
fn updates(view: &View) -> Vec<Command> {
    let resource = GroupResource::new(RBAC_GROUP, "clusterroles");
    let roles: Vec<(Arc<Object>, Value)> = view
        .list(&resource, None)
        .filter_map(|object| Some((object.clone(), serde_json::from_slice(&object.json).ok()?)))
        .collect();
    roles.iter().filter_map(|(object, role)| update(object, role, &roles)).collect()
}

fn update(object: &Object, role: &Value, roles: &[(Arc<Object>, Value)]) -> Option<Command> {
    let rules = gathered(role, object, roles)?;
    let current = role["rules"].as_array().map_or(&[][..], Vec::as_slice);
    if current == rules {
        return None;
    }
    let mut role = role.clone();
    role["rules"] = Value::Array(rules);
    role["metadata"].as_object_mut()?.remove("resourceVersion");
    Some(Command::Update {
        key: object.key.clone(),
        object: Bytes::from(serde_json::to_vec(&role).ok()?),
        precondition: Precondition::at(object.revision),
        claims: object.claims.to_vec(),
    })
}

/// The rules an aggregated role should have: those of the selected roles in the order of their names, each once.
fn gathered(role: &Value, object: &Object, roles: &[(Arc<Object>, Value)]) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let selectors: Vec<LabelSelector> =
        selectors.iter().filter_map(|s| LabelSelector::from_json(s).ok()).collect();
    let mut rules: Vec<Value> = Vec::new();
    let selected: BTreeMap<&str, &Value> = roles
        .iter()
        .filter(|(other, _)| other.key != object.key && other.meta.deletion_timestamp.is_none())
        .filter(|(other, _)| selectors.iter().any(|selector| selector.matches(&other.meta.labels)))
        .map(|(other, value)| (&*other.key.name, value))
        .collect();
    for rule in selected.values().filter_map(|value| value["rules"].as_array()).flatten() {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use litek8s_store::{Entry, Limits, ObjectKey, Store};
    use serde_json::json;

    use super::*;

    fn apply(store: &mut Store, command: Command) {
        store.apply(1, Entry { session: 0, sequence: 0, acknowledged: 0, bound_term: None, command });
    }

    fn role(store: &mut Store, name: &str, object: Value) {
        let key = ObjectKey::new(GroupResource::new(RBAC_GROUP, "clusterroles"), "", name);
        apply(store, Command::Create { key, object: Bytes::from(object.to_string()), claims: vec![] });
    }

    fn rules(store: &Store, name: &str) -> Value {
        let key = ObjectKey::new(GroupResource::new(RBAC_GROUP, "clusterroles"), "", name);
        serde_json::from_slice::<Value>(&store.view().get(&key).unwrap().json).unwrap()["rules"].clone()
    }

    #[test]
    fn roles_that_gather_settle_also_through_each_other() {
        let mut store = Store::new(Limits::default());
        let gathers = |label: &str| json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        let rule = |verb: &str| json!({"verbs": [verb]});
        role(
            &mut store,
            "admin",
            json!({"metadata": {"name": "admin"}, "aggregationRule": gathers("to-admin")}),
        );
        role(
            &mut store,
            "edit",
            json!({"metadata": {"name": "edit", "labels": {"to-admin": "true"}}, "aggregationRule": gathers("to-edit")}),
        );
        let labels = json!({"to-edit": "true", "to-admin": "true"});
        role(
            &mut store,
            "a",
            json!({"metadata": {"name": "a", "labels": labels}, "rules": [rule("get"), rule("list")]}),
        );
        role(
            &mut store,
            "b",
            json!({"metadata": {"name": "b", "labels": {"to-edit": "true"}}, "rules": [rule("get")]}),
        );
        let mut rounds = 0;
        loop {
            let commands = updates(&store.view());
            if commands.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 5, "it settles");
            commands.into_iter().for_each(|command| apply(&mut store, command));
        }
        let both = json!([rule("get"), rule("list")]);
        assert_eq!((rules(&store, "edit"), rules(&store, "admin")), (both.clone(), both));
    }
}
