//! Which writes a policy, a binding or a webhook is about: rules, and selectors of namespaces and objects.

use std::sync::Arc;

use litek8s_machinery::selector::LabelSelector;
use serde_json::{Map, Value};

use super::attributes::Attributes;
use crate::endpoints::metadata;
use crate::registry::Served;

/// What is matched.
pub(super) struct Matching {
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    /// One of these must match; `None` is anything.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether a rule about another version of the same objects counts too.
    equivalent: bool,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    names: Vec<String>,
}

impl Matching {
    /// Of `matchConstraints` or `matchResources`.
    pub(super) fn of_policy(value: &Value) -> Self {
        let rules = value["resourceRules"].as_array().filter(|rules| !rules.is_empty());
        Self {
            namespaces: selector(&value["namespaceSelector"]),
            objects: selector(&value["objectSelector"]),
            rules: rules.map(|rules| rules.iter().map(Rule::of).collect()),
            excluded: value["excludeResourceRules"].as_array().into_iter().flatten().map(Rule::of).collect(),
            equivalent: value["matchPolicy"] != "Exact",
        }
    }

    /// Of a webhook.
    pub(super) fn of_webhook(value: &Value) -> Self {
        Self {
            namespaces: selector(&value["namespaceSelector"]),
            objects: selector(&value["objectSelector"]),
            rules: Some(value["rules"].as_array().into_iter().flatten().map(Rule::of).collect()),
            excluded: Vec::new(),
            equivalent: value["matchPolicy"] != "Exact",
        }
    }

    /// The version in which the write is matched; an error only when the write would match but for a bad selector.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<Served>>, String> {
        if self.excluded.iter().any(|rule| rule.matches(attributes, attributes.served)) {
            return Ok(None);
        }
        let found = match &self.rules {
            None => Some(attributes.served.clone()),
            Some(rules) => self.version(rules, attributes),
        };
        let Some(found) = found else { return Ok(None) };
        if let Some(labels) = attributes.namespace_labels(object)
            && !self.namespaces.as_ref().map_err(Clone::clone)?.matches_with(|name| text(&labels, name))
        {
            return Ok(None);
        }
        let selector = self.objects.as_ref().map_err(Clone::clone)?;
        let selected = |object: &Value| {
            let labels = metadata::field(object, "labels").and_then(Value::as_object);
            selector.matches_with(|name| labels.and_then(|labels| text(labels, name)))
        };
        let selected = selector.is_everything() || object.into_iter().chain(attributes.old).any(selected);
        Ok(selected.then_some(found))
    }

    fn version(&self, rules: &[Rule], attributes: &Attributes<'_>) -> Option<Arc<Served>> {
        let own = attributes.served;
        if rules.iter().any(|rule| rule.matches(attributes, own)) {
            return Some(own.clone());
        }
        if !self.equivalent {
            return None;
        }
        let table = attributes.cx.api.registry.table();
        rules.iter().find_map(|rule| {
            let mut others = table.resources().filter(|other| {
                other.key == own.key
                    && other.api_version != own.api_version
                    && other.resource.namespaced == own.resource.namespaced
            });
            others.find(|other| rule.matches(attributes, other)).cloned()
        })
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let list = |field: &str| {
            let items = value[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: value["scope"].as_str().unwrap_or("*").to_owned(),
            names: list("resourceNames"),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, served: &Served) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let resource = &served.resource;
        let namespaced = !attributes.cx.namespace.is_empty();
        let in_scope = match self.scope.as_str() {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        };
        let named = |rule: &String| {
            let (plural, sub) = rule.split_once('/').unwrap_or((rule, ""));
            (plural == "*" || *plural == *resource.plural) && (sub == "*" || sub == attributes.cx.subresource)
        };
        in_scope
            && has(&self.operations, attributes.operation.as_str())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(named)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

fn selector(value: &Value) -> Result<LabelSelector, String> {
    if value.is_null() {
        return Ok(LabelSelector::everything());
    }
    LabelSelector::from_json(value).map_err(|error| error.to_string())
}

fn text<'a>(labels: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    labels.get(name).and_then(Value::as_str)
}
