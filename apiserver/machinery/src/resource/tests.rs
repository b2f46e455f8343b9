//! Tests of the table of kinds.

use super::*;
use crate::schema::TypeName;

#[test]
fn every_kind_has_a_type_and_a_name_column() {
    assert!(builtin().len() > 50);
    for resource in builtin() {
        assert!(matches!(resource.schema, SchemaRef::Type(_)), "{} has no type", resource.kind);
        assert!(!resource.columns.is_empty(), "{} has no columns", resource.kind);
        assert!(resource.verbs.windows(2).all(|pair| pair[0] < pair[1]), "{} verbs", resource.kind);
        for sub in &resource.subresources {
            assert!(sub.schema.is_some(), "{}/{} has no type", resource.plural, sub.name);
        }
    }
}

#[test]
fn kinds_are_found_by_group_version_and_kind() {
    let deployment = find_kind(&GroupVersionKind::new("apps", "v1", "Deployment")).unwrap();
    assert_eq!(deployment.group_resource().to_string(), "deployments.apps");
    assert!(deployment.has_status && deployment.counts_generation && deployment.namespaced);
    let role = find_kind(&GroupVersionKind::new("rbac.authorization.k8s.io", "v1", "Role")).unwrap();
    assert_eq!(role.api_version(), "rbac.authorization.k8s.io/v1");
    assert_eq!(role.name_rule, NameRule::PathSegment);
    let options = type_of(&GroupVersionKind::new("apps", "v1", "DeleteOptions"));
    assert_eq!(options.map(TypeName::as_str), Some("meta/v1.DeleteOptions"));
}

#[test]
fn field_selectors_are_the_ones_of_the_kind() {
    let pods = find_kind(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
    assert!(pods.is_selectable("spec.nodeName") && pods.is_selectable("metadata.namespace"));
    assert!(!pods.is_selectable("spec.replicas"));
    let nodes = find_kind(&GroupVersionKind::new("", "v1", "Node")).unwrap();
    assert!(!nodes.is_selectable("metadata.namespace"));
}

#[test]
fn every_type_of_the_table_is_read() {
    let mut fields = 0;
    for ty in crate::types::all() {
        let schema = ty.schema();
        fields += schema.properties.len();
        for (name, property) in &schema.properties {
            let inner = property.schema.get();
            assert!(
                inner.ty != crate::schema::Type::Any || inner.wire != crate::schema::Wire::Plain,
                "{}.{name} has an unknown type",
                ty.as_str()
            );
        }
    }
    assert!(fields > 2000, "{fields}");
}
