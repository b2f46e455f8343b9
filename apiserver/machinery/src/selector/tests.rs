//! Selectors: what is accepted, what it selects, and the words of a refusal.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::json;

use super::{FieldSelector, LabelSelector};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn selects(selector: &str, pairs: &[(&str, &str)]) -> bool {
    LabelSelector::parse(selector).unwrap().matches(&labels(pairs))
}

fn refusal(selector: &str) -> String {
    LabelSelector::parse(selector).unwrap_err().to_string()
}

#[test]
fn every_form_of_a_label_requirement_selects_as_it_says() {
    assert!(selects("", &[]));
    assert!(selects("app=web", &[("app", "web")]));
    assert!(selects("app==web", &[("app", "web")]));
    assert!(!selects("app=web", &[("app", "db")]));
    assert!(selects("app!=web", &[]));
    assert!(selects("app!=web", &[("app", "db")]));
    assert!(selects("app in (web,db)", &[("app", "db")]));
    assert!(!selects("app in (web,db)", &[]));
    assert!(selects("app notin (web,db)", &[]));
    assert!(!selects("app notin (web)", &[("app", "web")]));
    assert!(selects("app", &[("app", "")]));
    assert!(selects("!app", &[("other", "1")]));
    assert!(selects("weight>5", &[("weight", "6")]));
    assert!(!selects("weight>5", &[("weight", "many")]));
    assert!(selects("weight<5,app", &[("weight", "4"), ("app", "x")]));
    assert!(selects("app=", &[("app", "")]));
    assert!(selects("app in (,web)", &[("app", "")]));
    assert!(selects("app in ()", &[("app", "")]));
    assert!(selects("in in (in)", &[("in", "in")]));
    assert!(selects(" example.com/a = b , c ", &[("example.com/a", "b"), ("c", "")]));
}

#[test]
fn a_selector_prints_in_the_order_of_its_keys() {
    let parsed = LabelSelector::parse("z in (b,a),!y,x==1,w>3").unwrap();
    assert_eq!(parsed.to_string(), "w>3,x==1,!y,z in (a,b)");
}

#[test]
fn a_refused_label_selector_names_the_place() {
    assert_eq!(refusal("a,"), "found '', expected: identifier after ','");
    assert_eq!(refusal("=b"), "found '=', expected: !, identifier, or 'end of string'");
    assert_eq!(
        refusal("a b"),
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
    );
    assert_eq!(refusal("a in b"), "unable to parse requirement: found 'b' expected: '('");
    assert_eq!(refusal("a in (b c)"), "unable to parse requirement: found 'c', expected: ',' or ')'");
    assert_eq!(refusal("a=b=c"), "found '=', expected: ',' or 'end of string'");
    assert_eq!(
        refusal("app@=web"),
        "unable to parse requirement: <nil>: Invalid value: \"app@\": name part must consist of alphanumeric characters, \
         '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
         '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    );
    assert!(refusal("app=-x").starts_with(
        "unable to parse requirement: values[0][app]: Invalid value: \"-x\": a valid label must be an empty string"
    ));
    assert!(
        refusal("a>b").contains(
            "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    );
}

#[test]
fn a_label_selector_object_selects_by_labels_and_expressions() {
    let selector = LabelSelector::from_json(&json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}, {"key": "x", "operator": "DoesNotExist"}],
    }))
    .unwrap();
    assert!(selector.matches(&labels(&[("app", "web"), ("tier", "front")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "db")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("x", "")])));
    assert!(LabelSelector::from_json(&json!({})).unwrap().is_everything());
    assert!(!LabelSelector::from_json(&json!(null)).unwrap().matches(&labels(&[])));
    assert_eq!(
        LabelSelector::from_json(&json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}))
            .unwrap_err()
            .to_string(),
        "\"Near\" is not a valid label selector operator"
    );
}

#[test]
fn field_selectors_compare_texts_and_unescape_values() {
    let object = |field: &str| match field {
        "metadata.name" => Some(Cow::Borrowed("a,b=c\\d")),
        "status.phase" => Some(Cow::Borrowed("Running")),
        _ => None,
    };
    let selects = |text: &str| FieldSelector::parse(text).unwrap().matches(object);
    assert!(selects("metadata.name=a\\,b\\=c\\\\d,status.phase==Running"));
    assert!(selects("status.phase!=Pending,spec.nodeName="));
    assert!(!selects("status.phase=Pending"));
    assert_eq!(FieldSelector::parse("metadata.name=a\\,b").unwrap().exact("metadata.name"), Some("a,b"));
    assert_eq!(FieldSelector::parse("metadata.name=a\\,b").unwrap().to_string(), "metadata.name=a\\,b");
}

#[test]
fn a_refused_field_selector_says_why() {
    let refusal = |text: &str| FieldSelector::parse(text).unwrap_err().to_string();
    assert_eq!(refusal("a"), "invalid selector: 'a'; can't understand 'a'");
    assert_eq!(refusal("a=b\\n"), "invalid field selector: invalid escape sequence: \\n");
    assert_eq!(refusal("a=b=c"), "invalid field selector: unescaped character in value: 61");
    let checked = FieldSelector::parse("spec.x=1").unwrap().check(|label| label == "metadata.name");
    assert_eq!(checked.unwrap_err().to_string(), "field label not supported: spec.x");
}
