//! A pod runs as a ServiceAccount of its namespace and finds its token in a volume. As `ServiceAccount` upstream.

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource as StoreResource, ObjectKey};
use serde_json::{Value, json};

use crate::endpoints::{metadata, random_name};
use crate::response::Failure;
use crate::strategy::WriteContext;

/// The annotation of pods that a node made by itself: they have no ServiceAccount.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Where a container finds the token, the CA and its namespace.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime a token is asked for, in seconds: an hour, and a little so that servers can tell the default.
const TOKEN_SECONDS: u32 = 3607;

/// Names the default ServiceAccount where none is named, and mounts its token; one that does not exist is refused.
pub(super) fn admit_create(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    if metadata::field(object, "annotations").is_some_and(|a| a.get(MIRROR).is_some()) {
        return Ok(());
    }
    let spec = metadata::object(object, "spec");
    let given = spec["serviceAccountName"].as_str().or(spec["serviceAccount"].as_str()).unwrap_or_default();
    let name = if given.is_empty() { "default".to_owned() } else { given.to_owned() };
    spec["serviceAccountName"] = Value::from(name.clone());
    spec["serviceAccount"] = Value::from(name.clone());
    let accounts = StoreResource::new("", "serviceaccounts");
    let stored = cx.view.get(&ObjectKey::new(accounts, cx.namespace, &name));
    let account: Value = match stored {
        Some(account) => serde_json::from_slice(&account.json).unwrap_or_default(),
        // The default account is made by a controller soon after its namespace: a pod need not wait for it.
        None if name == "default" => Value::Null,
        None => {
            let ns = cx.namespace;
            let why =
                format!("error looking up service account {ns}/{name}: serviceaccount {name:?} not found");
            let pod = metadata::text(object, "name");
            return Err(Status::forbidden(&GroupResource::new("", "pods"), pod, why));
        }
    };
    if spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
        && account["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty())
    {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    let automount = spec["automountServiceAccountToken"]
        .as_bool()
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if automount {
        mount_token(spec);
    }
    if let Some(map) = spec.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    Ok(())
}

/// Adds the volume and mounts it wherever nothing else is mounted there.
fn mount_token(spec: &mut Value) {
    let name = random_name("kube-api-access-");
    let mut used = false;
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mount = json!({"name": name, "mountPath": MOUNT_PATH, "readOnly": true});
            container["volumeMounts"] = mounts.into_iter().chain([mount]).collect();
            used = true;
        }
    }
    if !used {
        return;
    }
    let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}});
    let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    spec["volumes"] = volumes.into_iter().chain([volume]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_once_where_nothing_else_is() {
        let mut spec = json!({"containers": [
            {"name": "a"},
            {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]},
        ]});
        mount_token(&mut spec);
        assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], spec["volumes"][0]["name"]);
        assert_eq!(spec["containers"][1]["volumeMounts"][0]["name"], "own");
        let mut own = json!({"containers": [{"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]});
        mount_token(&mut own);
        assert!(own.get("volumes").is_none_or(Value::is_null));
    }
}
