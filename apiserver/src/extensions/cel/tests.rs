//! Rules: what they see, when they run, what they say, and that none of them runs away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litek8s_machinery::schema::{ListType, Property, Rule, Schema, SchemaRef, Type};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Rules;

/// A schema from a few keywords of OpenAPI.
fn schema(from: &Value) -> Schema {
    let text = |name: &str| from.get(name).and_then(Value::as_str);
    let ty = match text("type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ if from.get("x-int-or-string").is_some() => Type::IntOrString,
        _ => Type::Any,
    };
    let fields = from.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let rules = from.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
    let rule = |rule: &Value| {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).map(Arc::from);
        Rule {
            rule: text("rule").unwrap_or_default(),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").is_some(),
        }
    };
    let list = match from.get("keys").and_then(Value::as_array) {
        Some(keys) => ListType::Map { keys: keys.iter().filter_map(Value::as_str).map(Arc::from).collect() },
        None => ListType::Atomic,
    };
    Schema {
        list,
        format: text("format").map(Arc::from),
        properties: fields
            .iter()
            .map(|(n, s)| (Arc::from(n.as_str()), Property::custom(schema(s))))
            .collect(),
        items: from.get("items").map(|s| SchemaRef::from(schema(s))),
        additional: from.get("values").map(|s| SchemaRef::from(schema(s))),
        rules: rules.iter().map(rule).collect(),
        ..Schema::of(ty)
    }
}

fn compile(from: Value) -> Result<Rules, String> {
    let (rules, errors) = Rules::compile(&SchemaRef::from(schema(&from)), "schema");
    match errors.first() {
        Some(error) => Err(error.to_string()),
        None => Ok(rules),
    }
}

fn spec(spec: Value) -> Rules {
    compile(json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn says(rules: &Rules, object: Value, old: Option<Value>) -> Vec<String> {
    rules.check(&object, old.as_ref()).iter().map(ToString::to_string).collect()
}

fn replicas(rule: Value) -> Rules {
    let integer = json!({"type": "integer"});
    spec(
        json!({"type": "object", "properties": {"min": integer, "max": integer, "replicas": integer}, "rules": [rule]}),
    )
}

/// Texts made of what means something in a rule.
fn any_expression() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "self",
        "self.min",
        "oldSelf",
        "self.list",
        "x",
        "1",
        "-1",
        "0u",
        "1.5",
        "9223372036854775807",
        "'a'",
        "\"\\x41\"",
        "b'a'",
        "null",
        "true",
        "has(self.min)",
        "size(self.list)",
        "self.list.all(x, x > 1)",
        "self.list.map(x, x)",
        "self.list.exists(x,",
        "int(",
        "string(",
        "duration('1h')",
        "timestamp(",
        "quantity('1Gi')",
        "url(",
        "ip('::1')",
        "cidr(",
        "semver(",
        "format.named('uri')",
        ".matches('(a+)+')",
        ".split(',')",
        ".substring(1)",
        ".format([1])",
        "optional.of(1)",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ",",
        ":",
        " in ",
        " + ",
        " - ",
        " * ",
        " / ",
        " % ",
        " == ",
        " < ",
        " && ",
        " || ",
        "!",
        " ? ",
        ".",
        "?",
        "cel.bind(",
    ]);
    prop::collection::vec(token, 1..9).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn rules_of_any_text_are_refused_or_judge(text in any_expression(), min in any::<i64>(), list in any::<Vec<u8>>()) {
        let integer = json!({"type": "integer"});
        let fields = json!({"min": integer, "list": {"type": "array", "items": integer}});
        let rule = json!({"type": "object", "properties": fields, "rules": [{"rule": text}]});
        if let Ok(rules) = compile(json!({"type": "object", "properties": {"spec": rule}})) {
            let object = json!({"spec": {"min": min, "list": list}});
            says(&rules, object.clone(), Some(object.clone()));
            says(&rules, object, None);
        }
    }
}

#[test]
fn a_rule_is_as_long_and_as_deep_as_the_limits_and_no_more() {
    let rule = |text: String| compile(json!({"type": "object", "rules": [{"rule": text}]})).map(drop);
    let long = |length: usize| format!("'{}' != ''", "x".repeat(length - "'' != ''".len()));
    assert_eq!(rule(long(16 * 1024)), Ok(()));
    assert!(rule(long(16 * 1024 + 1)).unwrap_err().contains("longer than 16384 bytes"));
    let deep = |levels: usize| format!("{}true{}", "!(".repeat(levels), ")".repeat(levels));
    assert_eq!(rule(deep(20)), Ok(()));
    assert!(rule(deep(70)).is_err());
    assert!(rule(deep(5000)).is_err());
}

#[test]
fn a_false_rule_says_where_and_what() {
    let rules = replicas(json!({"rule": "self.min <= self.max", "message": "min must not exceed max"}));
    assert_eq!(
        says(&rules, json!({"spec": {"min": 3, "max": 2}}), None),
        ["spec: Invalid value: min must not exceed max"]
    );
    assert!(says(&rules, json!({"spec": {"min": 1, "max": 2}}), None).is_empty());
    assert!(says(&rules, json!({}), None).is_empty());
    let rules = replicas(json!({"rule": "self.min <= self.max"}));
    assert_eq!(
        says(&rules, json!({"spec": {"min": 3, "max": 2}}), None),
        ["spec: Invalid value: failed rule: self.min <= self.max"]
    );
}

#[test]
fn a_rule_on_a_scalar_shows_the_value() {
    let rules = spec(
        json!({"type": "object", "properties": {"x": {"type": "integer", "rules": [{"rule": "self > 3", "message": "too low"}]}}}),
    );
    assert_eq!(says(&rules, json!({"spec": {"x": 1}}), None), ["spec.x: Invalid value: 1: too low"]);
}

#[test]
fn message_reason_and_field_path_shape_the_error() {
    let rules = replicas(json!({
        "rule": "self.replicas <= self.max",
        "messageExpression": "'at most ' + string(self.max)",
        "reason": "FieldValueForbidden",
        "fieldPath": ".replicas",
    }));
    assert_eq!(
        says(&rules, json!({"spec": {"max": 2, "replicas": 3}}), None),
        ["spec.replicas: Forbidden: at most 2"]
    );
    let rules = replicas(
        json!({"rule": "has(self.min)", "reason": "FieldValueRequired", "fieldPath": ".min", "message": "needed"}),
    );
    assert_eq!(says(&rules, json!({"spec": {"max": 2}}), None), ["spec.min: Required value: needed"]);
}

#[test]
fn transition_rules_wait_for_an_old_value() {
    let rules = replicas(json!({"rule": "self.replicas == oldSelf.replicas", "message": "is immutable"}));
    assert!(says(&rules, json!({"spec": {"replicas": 3}}), None).is_empty());
    assert!(
        says(&rules, json!({"spec": {"replicas": 3}}), Some(json!({"spec": {"replicas": 3}}))).is_empty()
    );
    let changed = says(&rules, json!({"spec": {"replicas": 3}}), Some(json!({"spec": {"replicas": 2}})));
    assert_eq!(changed, ["spec: Invalid value: is immutable"]);
    let rules = replicas(json!({
        "rule": "oldSelf.hasValue() ? self.replicas >= oldSelf.value().replicas : self.replicas > 0",
        "optionalOldSelf": true,
        "message": "only up",
    }));
    assert_eq!(says(&rules, json!({"spec": {"replicas": 0}}), None).len(), 1);
    assert!(says(&rules, json!({"spec": {"replicas": 1}}), None).is_empty());
    assert_eq!(
        says(&rules, json!({"spec": {"replicas": 1}}), Some(json!({"spec": {"replicas": 2}}))).len(),
        1
    );
}

#[test]
fn elements_of_keyed_lists_are_compared_with_their_old_selves() {
    let rules =
        spec(json!({"type": "object", "properties": {"ports": {"type": "array", "keys": ["name"], "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
            "rules": [{"rule": "self.port == oldSelf.port", "message": "ports stay"}],
        }}}}));
    let ports =
        |a: i64, b: i64| json!({"spec": {"ports": [{"name": "b", "port": b}, {"name": "a", "port": a}]}});
    let old = json!({"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
    assert!(says(&rules, ports(1, 2), Some(old.clone())).is_empty());
    assert_eq!(says(&rules, ports(9, 2), Some(old)), ["spec.ports[1]: Invalid value: ports stay"]);
}

#[test]
fn an_unchanged_value_may_stay_against_a_newer_rule() {
    let rules = replicas(json!({"rule": "self.replicas > 5", "message": "more"}));
    let stored = json!({"spec": {"replicas": 1}});
    assert!(says(&rules, stored.clone(), Some(stored)).is_empty());
    assert_eq!(
        says(&rules, json!({"spec": {"replicas": 2}}), Some(json!({"spec": {"replicas": 1}}))).len(),
        1
    );
}

#[test]
fn fields_maps_and_formats_look_as_upstream_shows_them() {
    let rules = spec(json!({
        "type": "object",
        "properties": {
            "a-b": {"type": "string"}, "namespace": {"type": "string"}, "under_score": {"type": "string"},
            "two__under": {"type": "string"}, "labels": {"type": "object", "values": {"type": "string"}},
            "ratio": {"type": "number"}, "since": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte"},
            "port": {"x-int-or-string": true},
        },
        "rules": [
            {"rule": "self.a__dash__b == 'x' && self.__namespace__ == 'n' && self.under_score == 'u'"},
            {"rule": "self.two__underscores__under == 't'"},
            {"rule": "self.labels['a.b/c-d'] == '1' && self.labels.all(k, k.size() > 3)"},
            {"rule": "self.ratio == 2.0 && self.since < timestamp('2030-01-01T00:00:00Z')"},
            {"rule": "self.wait < duration('2m') && size(self.data) == 3"},
            {"rule": "type(self.port) == int ? self.port > 0 : self.port == 'http'"},
        ],
    }));
    let object = json!({"spec": {
        "a-b": "x", "namespace": "n", "under_score": "u", "two__under": "t", "labels": {"a.b/c-d": "1"}, "ratio": 2,
        "since": "2020-01-01T00:00:00Z", "wait": "1m30s", "data": "AAEC", "port": "http",
    }});
    assert_eq!(says(&rules, object, None), Vec::<String>::new());
}

#[test]
fn the_functions_of_kubernetes_are_there() {
    let rules = spec(
        json!({"type": "object", "properties": {"cidr": {"type": "string"}, "list": {"type": "array", "items": {"type": "string"}}}, "rules": [
            {"rule": "isCIDR(self.cidr) && cidr(self.cidr).prefixLength() == 24", "message": "cidr"},
            {"rule": "ip.isCanonical('10.0.0.1') && ip('10.0.0.1').family() == 4", "message": "ip"},
            {"rule": "quantity('1Ki').isGreaterThan(quantity('1k'))", "message": "quantity"},
            {"rule": "'a,b'.split(',').join('-') == 'a-b' && 'x'.matches('^[a-z]$')", "message": "strings"},
            {"rule": "self.list.exists_one(x, x == 'a') && self.list.map(x, x + '!').size() == 2", "message": "macros"},
            {"rule": "sets.contains(self.list, ['a']) && self.list.isSorted()", "message": "sets"},
            {"rule": "'%s=%d'.format(['a', 1]) == 'a=1'", "message": "format"},
            {"rule": "self.?cidr.orValue('') != ''", "message": "optional"},
        ]}),
    );
    assert_eq!(
        says(&rules, json!({"spec": {"cidr": "10.0.0.0/24", "list": ["a", "b"]}}), None),
        Vec::<String>::new()
    );
}

#[test]
fn a_rule_that_is_none_is_refused_with_its_place() {
    let refused = |rule: Value| {
        compile(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}, "rules": [rule]}}})).err().unwrap()
    };
    let at = "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: ";
    assert!(
        refused(json!({"rule": "self.x >"})).starts_with(&format!("{at}\"self.x >\": compilation failed: "))
    );
    assert_eq!(
        refused(json!({"rule": "self.y > 1"})),
        format!("{at}\"self.y > 1\": compilation failed: undefined field 'y'")
    );
    assert_eq!(
        refused(json!({"rule": "other.x > 1"})),
        format!("{at}\"other.x > 1\": compilation failed: undeclared reference to 'other' (in container '')")
    );
    assert!(refused(json!({"rule": "frobnicate(self.x)"})).contains("undeclared reference to 'frobnicate'"));
    assert!(refused(json!({"rule": "Message{a: 1} == self"})).contains("compilation failed"));
    assert!(refused(json!({"rule": " "})).ends_with("Required value: rule is not specified"));
    assert!(
        refused(json!({"rule": format!("{}1{} == 1", "(".repeat(500), ")".repeat(500))}))
            .contains("compilation failed")
    );
    assert!(refused(json!({"rule": "self.x > 0", "optionalOldSelf": true})).contains("optionalOldSelf"));
}

#[test]
fn a_rule_that_cannot_be_evaluated_refuses_the_object() {
    let rules = replicas(json!({"rule": "self.min / self.max > 0"}));
    let said = says(&rules, json!({"spec": {"min": 1, "max": 0}}), None);
    assert!(
        said[0].starts_with("spec: Invalid value: \"object\": ")
            && said[0].ends_with("evaluating rule: self.min / self.max > 0"),
        "{said:?}"
    );
    let said = says(&rules, json!({"spec": {"min": 1}}), None);
    assert!(said[0].contains("No such key: max"), "{said:?}");
}

#[test]
fn the_deepest_rule_fits_a_small_stack() {
    let nested = |n: usize| format!("{}'1'{} == 1", "size(string(".repeat(n), "))".repeat(n));
    let deepest =
        (1..64).rev().find_map(|n| compile(json!({"type": "object", "rules": [{"rule": nested(n)}]})).ok());
    assert!(says(&deepest.unwrap(), json!({}), None).is_empty());
}

#[test]
fn loops_and_growth_end_at_the_budget() {
    let list = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "integer"}}}, "rules": []});
    let with = |rule: &str| {
        let mut list = list.clone();
        list["rules"] = json!([{"rule": rule}]);
        spec(list)
    };
    let many: Vec<i64> = (0..400).collect();
    let object = json!({"spec": {"list": many}});
    for rule in [
        "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
        "self.list.map(a, self.list.map(b, self.list.map(c, c))).size() > 0",
        "self.list.all(a, self.list.all(b, self.list.exists(c, c < 0) || true))",
    ] {
        let begun = Instant::now();
        let said = says(&with(rule), object.clone(), None);
        assert_eq!(
            said,
            [
                "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
            ],
            "{rule}"
        );
        // A guard against a hang: it is seconds at most in a debug build, on a machine that does nothing else.
        assert!(begun.elapsed() < Duration::from_secs(100), "{rule}");
    }
    assert!(says(&with("self.list.all(a, self.list.exists(b, a == b))"), object, None).is_empty());
}

#[test]
fn no_single_call_makes_more_than_the_budget() {
    let with = |rule: &str| {
        let text = json!({"type": "string"});
        let list = json!({"type": "array", "items": {"type": "string"}});
        spec(json!({"type": "object", "properties": {"s": text, "l": list}, "rules": [{"rule": rule}]}))
    };
    let object = json!({"spec": {"s": "a".repeat(200_000), "l": vec!["b"; 2_000]}});
    for rule in [
        "self.s.replace('', self.s).size() > 0",
        "self.s.replace('a', self.s, 100000).size() > 0",
        "lists.range(9000000000).size() > 0",
        "self.l.map(x, self.s).join('').size() > 0",
        "self.l.join(self.s).size() > 0",
        "(self.s + self.s + self.s + self.s + self.s + self.s).split('').size() > 0",
        "(self.s + self.s + self.s + self.s + self.s + self.s).findAll('').size() > 0",
        "'%.4000000000f'.format([1.0]).size() > 0",
        "'%s'.format([self.l.map(x, self.s)]).size() > 0",
        "self.l.map(x, self.l).map(x, [x, x]).map(x, [x, x]).map(x, [x, x]).map(x, [x, x]).flatten().size() > 0",
        "sets.contains(self.s.split('', 20000), self.s.split('', 20000))",
        "self.s.split('', 20000).distinct().size() > 0",
        "self.s.indexOf(self.s.substring(0, 1000) + 'b') > 0",
    ] {
        let begun = Instant::now();
        let said = says(&with(rule), object.clone(), None);
        assert!(said.len() == 1 && said[0].contains("running out of cost budget"), "{rule}: {said:?}");
        // A guard against a hang: it is seconds at most in a debug build, on a machine that does nothing else.
        assert!(begun.elapsed() < Duration::from_secs(100), "{rule}");
    }
    for rule in [
        "'a-b-c'.replace('-', '') == 'abc' && 'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        "lists.range(3) == [0, 1, 2] && [[1], [2, 3]].flatten() == [1, 2, 3]",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "'%.2f %s %d'.format([1.5, ['a'], 7]) == '1.50 [\"a\"] 7'",
        "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1]) && [1, 1, 2].distinct() == [1, 2]",
        "'abc'.indexOf('c') == 2 && 'abcabc'.indexOf('a', 1) == 3 && [1, 2].indexOf(2) == 1",
    ] {
        assert_eq!(says(&with(rule), object.clone(), None), Vec::<String>::new(), "{rule}");
    }
}
