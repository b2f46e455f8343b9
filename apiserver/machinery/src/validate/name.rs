//! Names, label keys and label values, with the texts of apimachinery.

use crate::resource::NameRule;

/// What a name of RFC 1123 dots must be.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// What a label of RFC 1123 must be.
pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn edges(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if edge(first) && edge(last))
        && bytes.iter().all(|&byte| inner(byte))
}

/// One label of RFC 1123, without its length.
fn label_shape(text: &str) -> bool {
    edges(text, lower_alnum, |byte| lower_alnum(byte) || byte == b'-')
}

/// A label of RFC 1123 of 63 bytes at most.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && label_shape(text)
}

/// A label of RFC 1035 of 63 bytes at most.
pub fn is_dns1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Labels of RFC 1123 joined by dots, 253 bytes at most.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(label_shape)
}

/// What is wrong with an object's name; `prefix` for a `generateName`, which may end in a dash.
pub fn name_errors(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked;
    let name = match name.strip_suffix('-') {
        Some(rest) if prefix && rule != NameRule::PathSegment => {
            masked = format!("{rest}a");
            &masked
        }
        _ => name,
    };
    let mut errors = Vec::new();
    let (most, fits, text) = match rule {
        NameRule::Subdomain => (253, name.split('.').all(label_shape), SUBDOMAIN),
        NameRule::Label => (63, label_shape(name), LABEL),
        NameRule::Dns1035 => {
            let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
            (63, label_shape(name) && starts, DNS1035)
        }
        NameRule::PathSegment => return path_segment(name, prefix),
        NameRule::Address => return address(name),
    };
    if name.len() > most {
        errors.push(too_long(most));
    }
    if !fits {
        errors.push(text.to_owned());
    }
    errors
}

fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|&&odd| name.contains(odd))
        .map(|odd| format!("may not contain '{odd}'"))
        .collect()
}

/// An address as it is written by everybody, so that one address is one name.
fn address(name: &str) -> Vec<String> {
    match name.parse::<std::net::IpAddr>() {
        Err(_) => vec![super::special::IP.to_owned()],
        Ok(std::net::IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
        }
        Ok(address) if address.to_string() != name => {
            vec![format!("must be in canonical form ({:?})", address.to_string())]
        }
        Ok(_) => Vec::new(),
    }
}

pub(super) fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// What is wrong with the key of a label or annotation: `prefix/name` or `name`.
pub fn qualified_name_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else if prefix.len() > 253 {
                errors.push(format!("prefix part {}", too_long(253)));
            } else if !is_dns_subdomain(prefix) {
                errors.push(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
        _ => {
            let shape = QUALIFIED.strip_prefix("name part must ").unwrap_or(QUALIFIED);
            return vec![format!(
                "a qualified name must {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63)));
    }
    if !label_name_shape(name) {
        errors.push(QUALIFIED.to_owned());
    }
    errors
}

/// What is wrong with the value of a label.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(too_long(63));
    }
    if !value.is_empty() && !label_name_shape(value) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}

fn label_name_shape(text: &str) -> bool {
    edges(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
    )
}
