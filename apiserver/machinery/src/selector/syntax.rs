//! The syntax of label keys and values, with the reasons that kube-apiserver gives.

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with a label key; empty when it is one.
pub(super) fn key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut parts = key.split('/');
    let first = parts.next().unwrap_or_default();
    let name = match (parts.next(), parts.next()) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(subdomain_problems(first).into_iter().map(|p| format!("prefix part {p}")));
            }
            name
        }
        (Some(_), Some(_)) => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

/// What is wrong with a label value; empty when it is one.
pub(super) fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(VALUE_RULE.to_owned());
    }
    problems
}

fn subdomain_problems(prefix: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if prefix.len() > 253 {
        problems.push("must be no more than 253 bytes".to_owned());
    }
    let label = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        part.bytes().all(|b| inner(b) || b == b'-')
            && part.bytes().next().is_some_and(inner)
            && part.bytes().next_back().is_some_and(inner)
    };
    if !prefix.split('.').all(label) {
        problems.push(SUBDOMAIN_RULE.to_owned());
    }
    problems
}

fn is_name(name: &str) -> bool {
    let edge = |b: u8| b.is_ascii_alphanumeric();
    name.bytes().all(|b| edge(b) || matches!(b, b'-' | b'_' | b'.'))
        && name.bytes().next().is_some_and(edge)
        && name.bytes().next_back().is_some_and(edge)
}
