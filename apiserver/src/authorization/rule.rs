//! One RBAC rule: what it allows and what it covers, as kube-apiserver's evaluation helpers decide.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Attributes;

/// Every value of a list.
const ALL: &str = "*";

/// A rule of a Role or ClusterRole (rbac.authorization.k8s.io/v1 PolicyRule).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The verbs.
    pub verbs: Vec<String>,
    /// The API groups, `""` for the core group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources, `pods` or `pods/status` or `*/status` or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names; empty allows every name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The paths, with `*` as the last character for a prefix.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Whether the rule allows this.
    pub fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !has(&self.verbs, wanted.verb) {
            return false;
        }
        if !wanted.is_resource {
            return self.non_resource_urls.iter().any(|url| path_matches(url, wanted.path));
        }
        has(&self.api_groups, wanted.group)
            && self.resources.iter().any(|r| resource_matches(r, wanted.resource, wanted.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == wanted.name))
    }

    /// The rule as one rule for each verb, group, resource and name, or path.
    pub(super) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let part = Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                    } else {
                        let named = |n: &String| Self { resource_names: vec![n.clone()], ..part.clone() };
                        parts.extend(self.resource_names.iter().map(named));
                    }
                }
            }
            let paths = self.non_resource_urls.iter();
            parts.extend(paths.map(|url| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether everything that `part` allows is allowed by this one rule.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let verbs = covers_all(&self.verbs, &part.verbs);
        if !part.non_resource_urls.is_empty() {
            let path = |url: &String| self.non_resource_urls.iter().any(|own| path_covers(own, url));
            return verbs && part.non_resource_urls.iter().all(path);
        }
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| self.resource_names.contains(name)));
        verbs
            && names
            && covers_all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(|r| self.resources.iter().any(|own| resource_covers(own, r)))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

fn covers_all(own: &[String], wanted: &[String]) -> bool {
    own.iter().any(|item| item == ALL) || wanted.iter().all(|item| own.contains(item))
}

/// `*/sub` is for every resource, `resource/*` is not a thing in RBAC.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some((own, sub)) => !subresource.is_empty() && sub == subresource && (own == ALL || own == resource),
    }
}

fn resource_covers(own: &str, wanted: &str) -> bool {
    let any_with_subresource = |(own, own_sub): (&str, &str)| {
        own == ALL && wanted.split_once('/').is_some_and(|(_, sub)| sub == own_sub)
    };
    own == ALL || own == wanted || own.split_once('/').is_some_and(any_with_subresource)
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == ALL || rule == path || rule.strip_suffix(ALL).is_some_and(|prefix| path.starts_with(prefix))
}

fn path_covers(own: &str, wanted: &str) -> bool {
    path_matches(own, wanted)
}

/// The form in which a refused escalation lists what is missing.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = fields
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                format!("{name}:[{}]", values.join(" "))
            })
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        PolicyRule {
            verbs: own(verbs),
            api_groups: own(groups),
            resources: own(resources),
            resource_names: own(names),
            non_resource_urls: vec![],
        }
    }

    fn paths(verbs: &[&str], urls: &[&str]) -> PolicyRule {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        PolicyRule { verbs: own(verbs), non_resource_urls: own(urls), ..PolicyRule::default() }
    }

    fn ask<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes { verb, group, resource, subresource, name, is_resource: true, ..Attributes::default() }
    }

    #[test]
    fn resources_and_subresources_match_as_upstream() {
        #[rustfmt::skip]
        let table = [
            ("*", "pods", true), ("*", "pods/status", true), ("pods", "pods", true), ("pods", "pods/status", false),
            ("pods/status", "pods/status", true), ("pods/status", "pods", false), ("*/status", "pods/status", true),
            ("*/status", "pods", false), ("*/scale", "pods/status", false), ("pods/*", "pods/status", false),
        ];
        for (own, wanted, expected) in table {
            let rule = rule(&["get"], &[""], &[own], &[]);
            assert_eq!(rule.allows(&ask("get", "", wanted, "")), expected, "{own} for {wanted}");
        }
    }

    #[test]
    fn verbs_groups_and_names_all_have_to_match() {
        let narrow = rule(&["get", "list"], &["apps"], &["deployments"], &["web"]);
        assert!(narrow.allows(&ask("get", "apps", "deployments", "web")));
        assert!(!narrow.allows(&ask("get", "apps", "deployments", "")));
        assert!(!narrow.allows(&ask("get", "apps", "deployments", "db")));
        assert!(!narrow.allows(&ask("delete", "apps", "deployments", "web")));
        assert!(!narrow.allows(&ask("get", "", "deployments", "web")));
        assert!(rule(&["*"], &["*"], &["*"], &[]).allows(&ask("create", "x.dev", "things", "a")));
    }

    #[test]
    fn paths_match_whole_or_by_a_star_at_the_end() {
        let ask = |path| Attributes { verb: "get", path, ..Attributes::default() };
        assert!(paths(&["get"], &["/healthz"]).allows(&ask("/healthz")));
        assert!(!paths(&["get"], &["/healthz"]).allows(&ask("/healthz/ping")));
        assert!(paths(&["get"], &["/healthz/*"]).allows(&ask("/healthz/ping")));
        assert!(paths(&["*"], &["*"]).allows(&ask("/")));
        assert!(!paths(&["get"], &["/api"]).allows(&super::super::Attributes {
            verb: "get",
            is_resource: true,
            ..ask("/api")
        }));
    }

    #[test]
    fn a_rule_covers_what_it_allows() {
        let own = rule(&["get", "list"], &["", "apps"], &["pods", "*/status"], &[]);
        assert!(own.covers(&rule(&["get"], &[""], &["pods"], &[])));
        assert!(own.covers(&rule(&["get"], &["apps"], &["deployments/status"], &["a"])));
        assert!(!own.covers(&rule(&["get"], &[""], &["*"], &[])));
        assert!(!own.covers(&rule(&["*"], &[""], &["pods"], &[])));
        let named = rule(&["get"], &[""], &["pods"], &["a", "b"]);
        assert!(named.covers(&rule(&["get"], &[""], &["pods"], &["a"])));
        assert!(!named.covers(&rule(&["get"], &[""], &["pods"], &[])));
        assert!(paths(&["get"], &["/a/*"]).covers(&paths(&["get"], &["/a/b/*"])));
        assert!(!paths(&["get"], &["/a/b"]).covers(&paths(&["get"], &["/a/*"])));
    }

    #[test]
    fn parts_are_single_permissions() {
        let parts = rule(&["get", "list"], &["", "apps"], &["pods"], &["a", "b"]).parts();
        assert_eq!(parts.len(), 8);
        assert_eq!(
            parts[0].to_string(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#
        );
    }
}
