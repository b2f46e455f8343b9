//! One FlowSchema, as it is matched: by subject, and by what is asked. As `pkg/util/flowcontrol/rule.go`.

use std::sync::Arc;

use litek8s_store::{Object, View};
use serde_json::Value;

use super::{Flow, levels};
use crate::request::{RequestInfo, UserInfo};
use crate::service_account;

/// One whose level exists.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) precedence: i64,
    pub(super) flow: Arc<Flow>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    /// Verbs and paths.
    paths: Vec<(Vec<String>, Vec<String>)>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
    /// Namespace and name.
    ServiceAccount(String, String),
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    namespaces: Vec<String>,
    cluster: bool,
}

impl Schema {
    pub(super) fn of(object: &Object, view: &View) -> Option<Self> {
        let value: Value = serde_json::from_slice(&object.json).ok()?;
        let spec = &value["spec"];
        let level = text(&spec["priorityLevelConfiguration"]["name"]);
        let found = view.get(&litek8s_store::ObjectKey::new(levels(), "", level))?;
        let configuration: Value = serde_json::from_slice(&found.json).ok()?;
        let flow = Flow {
            schema: (object.key.name.to_string(), object.meta.uid.clone()),
            level: (level.to_owned(), found.meta.uid.clone()),
            exempt: configuration["spec"]["type"] == "Exempt",
        };
        let rules = list(&spec["rules"]).map(Rule::of).collect();
        Some(Self { precedence: spec["matchingPrecedence"].as_i64()?, flow: Arc::new(flow), rules })
    }

    pub(super) fn matches(&self, user: &UserInfo, info: &RequestInfo) -> bool {
        self.rules.iter().any(|rule| {
            let asked = if info.is_resource_request {
                rule.resources.iter().any(|resources| resources.matches(info))
            } else {
                rule.paths.iter().any(|(verbs, paths)| has(verbs, &info.verb) && is_below(paths, &info.path))
            };
            asked && rule.subjects.iter().any(|subject| subject.matches(user))
        })
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let resources = list(&value["resourceRules"]).map(|rule| ResourceRule {
            verbs: texts(&rule["verbs"]),
            groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            namespaces: texts(&rule["namespaces"]),
            cluster: rule["clusterScope"] == true,
        });
        let paths = list(&value["nonResourceRules"])
            .map(|rule| (texts(&rule["verbs"]), texts(&rule["nonResourceURLs"])));
        Self {
            subjects: list(&value["subjects"]).filter_map(Subject::of).collect(),
            resources: resources.collect(),
            paths: paths.collect(),
        }
    }
}

impl Subject {
    fn of(value: &Value) -> Option<Self> {
        let named = |field: &str| text(&value[field]["name"]).to_owned();
        Some(match text(&value["kind"]) {
            "User" => Self::User(named("user")),
            "Group" => Self::Group(named("group")),
            "ServiceAccount" => {
                let namespace = text(&value["serviceAccount"]["namespace"]).to_owned();
                Self::ServiceAccount(namespace, named("serviceAccount"))
            }
            _ => return None,
        })
    }

    fn matches(&self, user: &UserInfo) -> bool {
        match self {
            Self::User(name) => name == "*" || *name == user.name,
            Self::Group(name) => name == "*" || user.in_group(name),
            Self::ServiceAccount(namespace, name) => {
                let account = user.name.strip_prefix(service_account::USER_PREFIX);
                account
                    .and_then(|account| account.split_once(':'))
                    .is_some_and(|(of, account)| of == namespace && (name == "*" || name == account))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        let resource = match info.subresource.as_str() {
            "" => info.resource.clone(),
            sub => format!("{}/{sub}", info.resource),
        };
        let home =
            if info.namespace.is_empty() { self.cluster } else { has(&self.namespaces, &info.namespace) };
        home && has(&self.verbs, &info.verb)
            && has(&self.groups, &info.api_group)
            && has(&self.resources, &resource)
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn is_below(paths: &[String], path: &str) -> bool {
    paths.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == known,
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn info(method: &str, url: &str) -> RequestInfo {
        RequestInfo::parse(&method.parse().unwrap(), &url.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_rule_wants_a_subject_and_something_that_is_asked() {
        let rule = Rule::of(&json!({
            "subjects": [
                {"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}},
                {"kind": "Group", "group": {"name": "ops"}},
            ],
            "resourceRules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"], "namespaces": ["a"]},
                {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes"], "namespaces": ["*"], "clusterScope": true},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz/*"]}],
        }));
        let flow = Flow { schema: Default::default(), level: Default::default(), exempt: false };
        let schema = Schema { precedence: 1, flow: Arc::new(flow), rules: vec![rule] };
        let account = UserInfo::new("system:serviceaccount:a:b", ["x"]);
        let ops = UserInfo::new("jane", ["ops"]);
        for (user, method, url, matches) in [
            (&account, "GET", "/api/v1/namespaces/a/pods/p/log", true),
            (&ops, "GET", "/api/v1/namespaces/a/pods/p/log", true),
            (&account, "GET", "/api/v1/namespaces/b/pods/p/log", false),
            (&account, "GET", "/api/v1/namespaces/a/pods/p", false),
            (&account, "DELETE", "/api/v1/nodes/n", true),
            (&account, "GET", "/metrics", true),
            (&account, "GET", "/healthz/ping", true),
            (&account, "GET", "/healthz", false),
            (&UserInfo::new("system:serviceaccount:b:b", ["x"]), "GET", "/metrics", false),
        ] {
            assert_eq!(schema.matches(user, &info(method, url)), matches, "{} {method} {url}", user.name);
        }
    }
}
