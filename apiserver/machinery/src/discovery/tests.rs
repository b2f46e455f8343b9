//! Tests of discovery.

use super::*;
use crate::resource::builtin;

#[test]
fn versions_are_ranked_as_upstream_ranks_them() {
    let mut versions = vec!["v1alpha1", "foo", "v2", "v1beta2", "v1", "v1beta1", "v10", "bar"];
    versions.sort_by(|a, b| compare_versions(b, a));
    assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo"]);
}

#[test]
fn the_resources_of_a_version_stand_with_their_subresources() {
    let list = resource_list(&GroupVersion::new("apps", "v1"), builtin());
    assert_eq!(list["groupVersion"], "apps/v1");
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    assert!(names.contains(&"deployments") && names.contains(&"deployments/scale"));
    let rows = list["resources"].as_array().unwrap();
    let scale = rows.iter().find(|row| row["name"] == "deployments/scale").unwrap();
    assert_eq!((scale["group"].as_str(), scale["kind"].as_str()), (Some("autoscaling"), Some("Scale")));
    let deployments = rows.iter().find(|row| row["name"] == "deployments").unwrap();
    assert_eq!(deployments["shortNames"], json!(["deploy"]));
    assert_eq!(deployments["singularName"], "deployment");
}

#[test]
fn groups_are_listed_with_their_preferred_version() {
    let list = group_list(builtin());
    let groups = list["groups"].as_array().unwrap();
    assert_eq!(groups[0]["name"], "apiregistration.k8s.io");
    assert_eq!(groups[1]["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
    assert!(groups.iter().all(|group| group["name"] != ""));
    assert_eq!(group("batch", builtin()).unwrap()["kind"], "APIGroup");
    assert_eq!(group("nope", builtin()), None);
}

#[test]
fn one_document_has_it_all() {
    let core: Vec<_> = builtin().iter().filter(|one| one.group.is_empty()).cloned().collect();
    let list = aggregated(&core);
    let resources = list["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let pods = resources.iter().find(|row| row["resource"] == "pods").unwrap();
    assert_eq!(pods["scope"], "Namespaced");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
    assert!(pods["subresources"].as_array().unwrap().iter().any(|sub| sub["subresource"] == "log"));
}

#[test]
fn a_list_of_resources_says_the_same_as_aggregated_discovery() {
    let version = GroupVersion::new("apps", "v1");
    let list = resource_list(&version, builtin());
    let apps: Vec<_> = builtin().iter().filter(|one| &*one.group == "apps").cloned().collect();
    let expected = aggregated(&apps)["items"][0]["versions"][0]["resources"].clone();
    let mut converted = json!(aggregated_resources(&list, "apps", "v1").unwrap());
    // Both orders are by name; the table has subresources in its own.
    let sort = |resources: &mut Value| {
        for resource in resources.as_array_mut().unwrap() {
            if let Some(subs) = resource["subresources"].as_array_mut() {
                subs.sort_by_key(|sub| sub["subresource"].to_string());
            }
        }
    };
    let mut expected = expected;
    sort(&mut expected);
    sort(&mut converted);
    assert_eq!(converted, expected);
    assert_eq!(aggregated_resources(&json!({"kind": "Status"}), "apps", "v1"), None);
}
