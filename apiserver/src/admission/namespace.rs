//! Objects live only in namespaces that exist and stay; some namespaces stay for ever. As `NamespaceLifecycle` upstream.

use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource as StoreResource, ObjectKey};
use serde_json::Value;

use crate::endpoints::metadata;
use crate::response::Failure;
use crate::strategy::WriteContext;

/// The namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The namespace of a new object must exist and must not be ending.
pub(super) fn admit_create(cx: &WriteContext<'_>, object: &Value) -> Result<(), Failure> {
    // Whether a namespace is there is nothing that a review gives away.
    if *cx.resource.group == *"authorization.k8s.io" {
        return Ok(());
    }
    check_namespace(cx, metadata::text(object, "name"))
}

/// What an object lives in must still be there: its namespace, and for a custom resource its definition.
pub(crate) fn check_home(cx: &WriteContext<'_>) -> Result<(), Failure> {
    if cx.resource.custom {
        let name = format!("{}.{}", cx.resource.plural, cx.resource.group);
        let definitions = StoreResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let definition = cx.view.get(&ObjectKey::new(definitions, "", &name));
        if definition.is_none_or(|d| d.meta.is_terminating()) {
            return Err(Status::unknown_resource());
        }
    }
    check_namespace(cx, "")
}

fn check_namespace(cx: &WriteContext<'_>, name: &str) -> Result<(), Failure> {
    if cx.namespace.is_empty() {
        return Ok(());
    }
    let namespaces = StoreResource::new("", "namespaces");
    let found = cx.view.get(&ObjectKey::new(namespaces, "", cx.namespace));
    let Some(namespace) = found else {
        return Err(Status::not_found(&GroupResource::new("", "namespaces"), cx.namespace));
    };
    if !namespace.meta.is_terminating() {
        return Ok(());
    }
    let gr = GroupResource::new(cx.resource.group.clone(), cx.resource.plural.clone());
    let ns = cx.namespace;
    let why = format!("unable to create new content in namespace {ns} because it is being terminated");
    let status = Status::forbidden(&gr, name, why);
    Err(status.with_cause(
        "NamespaceTerminating",
        format!("namespace {ns} is being terminated"),
        "metadata.namespace",
    ))
}

/// Some namespaces cannot be deleted.
pub(super) fn admit_delete(cx: &WriteContext<'_>, name: &str) -> Result<(), Failure> {
    let namespace = cx.resource.group.is_empty() && *cx.resource.plural == *"namespaces";
    if namespace && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            &GroupResource::new("", "namespaces"),
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}
