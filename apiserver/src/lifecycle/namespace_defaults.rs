//! What every namespace has: the ServiceAccount `default`, and the cluster's CA for its pods.

use bytes::Bytes;
use litek8s_store::{Command, GroupResource, ObjectKey};
use serde_json::{Value, json};

use super::decide::Facts;
use super::edit;
use super::subject::namespace_key;
use crate::endpoints::metadata;

const ACCOUNT: &str = "default";
const CA: &str = "kube-root-ca.crt";

/// Makes what is missing in a namespace that stays, and mends the CA.
pub(super) fn decide(facts: &Facts<'_>, name: &str) -> Vec<Command> {
    let Some(namespace) = facts.view.get(&namespace_key(name)) else { return Vec::new() };
    if namespace.meta.is_terminating() {
        return Vec::new();
    }
    let account = ObjectKey::new(GroupResource::new("", "serviceaccounts"), name, ACCOUNT);
    let ca = ObjectKey::new(GroupResource::new("", "configmaps"), name, CA);
    let data = json!({"ca.crt": facts.ca});
    let mut commands = Vec::new();
    if facts.view.get(&account).is_none() {
        commands.push(create(facts, account, "ServiceAccount", json!({})));
    }
    match facts.view.get(&ca) {
        None => commands.push(create(facts, ca, "ConfigMap", json!({"data": data}))),
        Some(found) => {
            if let Some(mut value) = edit::value(found).filter(|v| v.get("data") != Some(&data)) {
                value["data"] = data;
                commands.extend(edit::update(found, &value));
            }
        }
    }
    commands
}

fn create(facts: &Facts<'_>, key: ObjectKey, kind: &str, mut object: Value) -> Command {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(kind);
    object["metadata"] = json!({
        "name": &*key.name,
        "namespace": &*key.namespace,
        "uid": uuid::Uuid::new_v4().to_string(),
        "creationTimestamp": metadata::time(facts.now),
    });
    Command::Create { key, object: Bytes::from(object.to_string()), claims: Vec::new() }
}
