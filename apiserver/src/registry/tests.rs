//! What is served, and how custom resources come and go.

use std::sync::Arc;

use litek8s_machinery::resource::{Resource, builtin};

use super::{CustomVersion, Registry};
use crate::strategy::for_builtin;

fn custom(kind: &str) -> CustomVersion {
    let template = builtin().iter().find(|r| &*r.plural == "configmaps").unwrap();
    let mut resource = Resource::clone(template);
    resource.group = Arc::from("example.com");
    resource.kind = Arc::from(kind);
    resource.plural = Arc::from(format!("{}s", kind.to_lowercase()));
    resource.custom = true;
    let strategy = for_builtin(&resource);
    CustomVersion { resource: Arc::new(resource), storage_version: Arc::from("v1"), strategy }
}

#[test]
fn built_in_resources_are_found_by_path_and_kind() {
    let registry = Registry::new();
    let served = registry.get("", "v1", "configmaps").unwrap();
    assert_eq!((&*served.api_version, &*served.resource.kind), ("v1", "ConfigMap"));
    assert!(registry.get("", "v2", "configmaps").is_none());
    assert!(registry.table().by_kind("apps", "", "Deployment").is_some());
}

#[test]
fn a_custom_resource_is_there_from_one_request_to_the_next() {
    let registry = Registry::new();
    let before = registry.table();
    let apps = before.openapi("apps", "v1").unwrap().clone();
    registry.set_custom("widgets.example.com", vec![custom("Widget")]);
    let table = registry.table();
    assert!(table.get("example.com", "v1", "widgets").is_some());
    assert!(before.get("example.com", "v1", "widgets").is_none());
    assert_eq!(table.openapi("apps", "v1").unwrap().bytes.as_ptr(), apps.bytes.as_ptr());
    assert_ne!(table.openapi_index().hash, before.openapi_index().hash);
    assert!(table.group("example.com").is_some());
    registry.set_custom("widgets.example.com", Vec::new());
    assert!(registry.get("example.com", "v1", "widgets").is_none());
}

#[test]
fn a_custom_resource_with_the_name_or_kind_of_a_built_in_one_is_not_served() {
    let registry = Registry::new();
    let shadow = |plural: &str, kind: &str, version: &str| {
        let mut custom = custom("Widget");
        let resource = Arc::make_mut(&mut custom.resource);
        (resource.group, resource.version) = (Arc::from("apps"), Arc::from(version));
        (resource.plural, resource.kind) = (Arc::from(plural), Arc::from(kind));
        custom
    };
    let versions = vec![
        shadow("deployments", "Thing", "v1"),
        shadow("deployments", "Thing", "v2"),
        shadow("aaa", "Deployment", "v1"),
        shadow("things", "Thing", "v1"),
    ];
    registry.set_custom("deployments.apps", versions);
    assert!(!registry.get("apps", "v1", "deployments").unwrap().resource.custom);
    assert!(registry.get("apps", "v2", "deployments").is_none());
    assert_eq!(*registry.table().by_kind("apps", "", "Deployment").unwrap().resource.plural, *"deployments");
    assert!(registry.get("apps", "v1", "things").is_some());
}
