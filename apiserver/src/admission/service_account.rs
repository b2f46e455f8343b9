//! A pod runs as a ServiceAccount of its namespace; the token is left to the node. As `ServiceAccount` upstream.

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource as StoreResource, ObjectKey};
use serde_json::Value;

use crate::endpoints::metadata;
use crate::response::Failure;
use crate::strategy::WriteContext;

/// The annotation of pods that a node made by itself: they have no ServiceAccount.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Names the default ServiceAccount where none is named; one that does not exist is refused.
pub(super) fn admit_create(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    let pod = cx.resource.group.is_empty() && *cx.resource.plural == *"pods" && cx.subresource.is_empty();
    if !pod || metadata::field(object, "annotations").is_some_and(|a| a.get(MIRROR).is_some()) {
        return Ok(());
    }
    let spec = metadata::object(object, "spec");
    let given = spec["serviceAccountName"].as_str().or(spec["serviceAccount"].as_str()).unwrap_or_default();
    let name = if given.is_empty() { "default".to_owned() } else { given.to_owned() };
    spec["serviceAccountName"] = Value::from(name.clone());
    spec["serviceAccount"] = Value::from(name.clone());
    // The default account is made by a controller soon after its namespace: a pod need not wait for it.
    let accounts = StoreResource::new("", "serviceaccounts");
    let exists = cx.view.get(&ObjectKey::new(accounts, cx.namespace, &name)).is_some();
    if exists || name == "default" {
        return Ok(());
    }
    let gr = GroupResource::new("", "pods");
    let ns = cx.namespace;
    let why = format!("error looking up service account {ns}/{name}: serviceaccount {name:?} not found");
    Err(Status::forbidden(&gr, metadata::text(object, "name"), why))
}
