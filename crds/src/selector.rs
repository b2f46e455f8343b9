//! A label selector with a schema of its own; the same fields as `metav1.LabelSelector`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects objects by their labels. All that is said must hold; an empty selector takes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels that must be there with exactly this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How the label is compared with `values`.
    pub operator: Operator,
    /// The values; none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    #[allow(
        missing_docs,
        reason = "descriptions of variants make the schema a oneOf, which is not structural"
    )]
    In,
    #[allow(missing_docs, reason = "see In")]
    NotIn,
    #[allow(missing_docs, reason = "see In")]
    Exists,
    #[allow(missing_docs, reason = "see In")]
    DoesNotExist,
}

impl Selector {
    /// Whether labels are selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => !value.is_some_and(|value| self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requirements_must_hold() {
        let labels: BTreeMap<String, String> = [("rack".to_owned(), "1".to_owned())].into();
        let chosen = |operator, values: &[&str], key: &str| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let requirement = Requirement { key: key.to_owned(), operator, values };
            let selector = Selector { match_labels: labels.clone(), match_expressions: vec![requirement] };
            selector.matches(&labels)
        };
        assert!(Selector::default().matches(&labels));
        assert!(chosen(Operator::In, &["1", "2"], "rack") && !chosen(Operator::In, &["2"], "rack"));
        assert!(chosen(Operator::NotIn, &["2"], "rack") && chosen(Operator::NotIn, &["1"], "absent"));
        assert!(!chosen(Operator::NotIn, &["1"], "rack"));
        assert!(chosen(Operator::Exists, &[], "rack") && !chosen(Operator::Exists, &[], "absent"));
        assert!(
            chosen(Operator::DoesNotExist, &[], "absent") && !chosen(Operator::DoesNotExist, &[], "rack")
        );
        let other = Selector { match_labels: [("rack".into(), "2".into())].into(), ..Selector::default() };
        assert!(!other.matches(&labels));
    }
}
