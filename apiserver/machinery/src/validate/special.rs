//! The checks of built-in types that look at more than one field.

use serde_json::Value;

use super::{is_dns_label, is_dns_subdomain};
use crate::field::{FieldError, Path};
use crate::selector::LabelSelector;

/// A check by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// `spec.selector` selects the labels of `spec.template`.
    SelectorMatchesTemplate,
    /// A selector's map or expressions are well-formed.
    Selector,
    /// The template of a workload restarts always.
    RestartsAlways,
    /// A port's name, or its number as a target.
    PortNameOrNumber,
    /// An environment variable's name.
    EnvironmentName,
    /// Every mount names a volume of the pod.
    MountsHaveVolumes,
    /// Containers of all sorts have names of their own.
    ContainerNames,
    /// Ports of several are named.
    PortsNamed,
    /// A quantity is one, and not negative.
    Quantities,
    /// The keys of a ConfigMap or Secret.
    DataKeys,
    /// A role reference names a role the binding may name.
    RoleRef,
    /// A cluster-wide definition is named `plural.group`.
    DefinitionName,
    /// An APIService is named `version.group`.
    ServiceName,
    /// A pod's spec is fixed but for a few fields.
    PodSpecFixed,
    /// An IP block and its exceptions.
    IpBlock,
    /// The address of an endpoint.
    Address,
    /// An address range.
    Cidr,
    /// The cluster IP is fixed once it is there.
    ClusterIp,
}

impl Check {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "selector-matches-template" => Self::SelectorMatchesTemplate,
            "selector" => Self::Selector,
            "restarts-always" => Self::RestartsAlways,
            "port" => Self::PortNameOrNumber,
            "environment-name" => Self::EnvironmentName,
            "mounts" => Self::MountsHaveVolumes,
            "container-names" => Self::ContainerNames,
            "ports-named" => Self::PortsNamed,
            "quantities" => Self::Quantities,
            "data-keys" => Self::DataKeys,
            "role-ref" => Self::RoleRef,
            "definition-name" => Self::DefinitionName,
            "service-name" => Self::ServiceName,
            "pod-spec-fixed" => Self::PodSpecFixed,
            "ip-block" => Self::IpBlock,
            "address" => Self::Address,
            "cidr" => Self::Cidr,
            "cluster-ip" => Self::ClusterIp,
            _ => return None,
        })
    }

    pub(super) fn run(
        self,
        value: Option<&Value>,
        before: Option<&Value>,
        object: &Value,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(value) = value else { return };
        match self {
            Self::SelectorMatchesTemplate => selects_template(value, path, errors),
            Self::Selector => selector(value, path, errors),
            Self::RestartsAlways => {
                if value.as_str().is_some_and(|policy| policy != "Always") {
                    errors.push(FieldError::not_supported(path, value.clone(), ["Always"]));
                }
            }
            Self::PortNameOrNumber => port(value, path, errors),
            Self::EnvironmentName => environment_name(value, path, errors),
            Self::MountsHaveVolumes => mounts(value, path, errors),
            Self::ContainerNames => container_names(value, path, errors),
            Self::PortsNamed => ports_named(value, path, errors),
            Self::Quantities => quantities(value, path, errors),
            Self::DataKeys => data_keys(value, path, errors),
            Self::RoleRef => role_ref(value, object, path, errors),
            Self::DefinitionName => definition_name(value, path, errors),
            Self::ServiceName => service_name(value, path, errors),
            Self::PodSpecFixed => pod_spec_fixed(value, before, path, errors),
            Self::IpBlock => ip_block(value, path, errors),
            Self::Address => {
                let text = value.as_str().unwrap_or("");
                if object.get("addressType").is_none() && text.parse::<std::net::IpAddr>().is_err() {
                    errors.push(FieldError::invalid(path, text, IP));
                }
            }
            Self::Cidr => {
                let text = value.as_str().unwrap_or("");
                if !super::format::matches("cidr", text) {
                    errors.push(FieldError::invalid(path, text, CIDR));
                }
            }
            Self::ClusterIp => {
                let was = before.and_then(Value::as_str).unwrap_or("");
                let kind = object.get("spec").and_then(|spec| spec.get("type")).and_then(Value::as_str);
                if !was.is_empty() && kind != Some("ExternalName") && Some(was) != value.as_str() {
                    errors.push(FieldError::invalid(path, value.clone(), super::meta::IMMUTABLE));
                }
            }
        }
    }
}

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

fn strings(value: &Value, pointer: &str) -> std::collections::BTreeMap<String, String> {
    let map = value.pointer(pointer).and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    map.into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

fn selects_template(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(selector) = spec.get("selector") else {
        errors.push(FieldError::required(path.child("selector"), ""));
        return;
    };
    let labels = strings(spec, "/template/metadata/labels");
    let empty = selector.as_object().is_some_and(|fields| {
        fields.values().all(|field| match field {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        })
    });
    if empty {
        let at = path.child("selector");
        errors.push(FieldError::invalid(at, selector.clone(), "empty selector is invalid for deployment"));
        return;
    }
    let matches = LabelSelector::from_json(selector).is_ok_and(|selector| selector.matches(&labels));
    if !matches {
        let (template, labels) = (path.child("template"), labels.into_iter());
        let labels: serde_json::Map<String, Value> = labels.map(|(key, value)| (key, value.into())).collect();
        let meta = template.child("metadata");
        let at = meta.child("labels");
        errors.push(FieldError::invalid(
            at,
            Value::Object(labels),
            "`selector` does not match template `labels`",
        ));
    }
}

fn selector(selector: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    super::meta::labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    let list = path.child("matchExpressions");
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (at, expression) in expressions.into_iter().flatten().enumerate() {
        let at = list.index(at);
        let values = expression.get("values").and_then(Value::as_array).map_or(0, Vec::len);
        let operator = expression.get("operator").and_then(Value::as_str).unwrap_or("");
        match operator {
            "In" | "NotIn" if values == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(at.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at.child("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(at.child("operator"), other, "not a valid selector operator"))
            }
        }
        let key = expression.get("key").and_then(Value::as_str).unwrap_or("");
        for detail in super::qualified_name_errors(key) {
            errors.push(FieldError::invalid(at.child("key"), key, detail));
        }
    }
}

fn port(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Number(number) => {
            if !number.as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(path, value.clone(), detail));
            }
        }
        Value::String(name) => {
            let well = (1..=15).contains(&name.len())
                && is_dns_label(name)
                && !name.contains("--")
                && name.contains(|c: char| c.is_ascii_lowercase());
            let detail = if name.len() > 15 {
                "must be no more than 15 characters"
            } else {
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter (a-z)"
            };
            if !well {
                errors.push(FieldError::invalid(path, name.as_str(), detail));
            }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

fn environment_name(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let name = value.as_str().unwrap_or("");
    // Printable ASCII without `=`.
    if name.is_empty() || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

fn mounts(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
    let volumes: Vec<String> = list(spec, "volumes").iter().map(name).collect();
    for kind in CONTAINER_LISTS {
        let containers = path.child(kind);
        for (at, container) in list(spec, kind).iter().enumerate() {
            let container_path = containers.index(at);
            let mounts = container_path.child("volumeMounts");
            for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
                let volume = name(mount);
                if !volumes.contains(&volume) {
                    let mount = mounts.index(at);
                    errors.push(FieldError::not_found(mount.child("name"), volume));
                }
            }
        }
    }
}

fn container_names(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for kind in CONTAINER_LISTS {
        let list = path.child(kind);
        for (at, container) in spec.get(kind).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let name = container.get("name").and_then(Value::as_str).unwrap_or("");
            let item = list.index(at);
            if name.is_empty() {
                errors.push(FieldError::required(item.child("name"), ""));
            } else if seen.contains(&name) {
                errors.push(FieldError::duplicate(item.child("name"), name));
            }
            if !name.is_empty() && !is_dns_label(name) {
                errors.push(FieldError::invalid(item.child("name"), name, super::name::LABEL));
            }
            seen.push(name);
        }
    }
}

fn ports_named(ports: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let items = ports.as_array().map_or(&[][..], Vec::as_slice);
    for (at, port) in items.iter().enumerate().filter(|_| items.len() > 1) {
        let item = path.index(at);
        match port.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            None => errors.push(FieldError::required(item.child("name"), "")),
            Some(name) if !is_dns_label(name) => {
                errors.push(FieldError::invalid(item.child("name"), name, super::name::LABEL));
            }
            Some(_) => {}
        }
    }
}

/// Whether a text is a quantity, as `1`, `1.5Gi`, `100m`, `1e3`.
pub(super) fn is_quantity(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(digits);
    let number_fits = number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|&byte| byte == b'.').count() <= 1;
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|power| {
        !power.is_empty()
            && power.strip_prefix(['+', '-']).unwrap_or(power).bytes().all(|b| b.is_ascii_digit())
    });
    const SUFFIXES: [&str; 16] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    number_fits && (SUFFIXES.contains(&suffix) || exponent)
}

fn quantities(map: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (name, amount) in map.as_object().into_iter().flatten() {
        let text = crate::jsonpath::text(amount);
        if text.starts_with('-') {
            errors.push(FieldError::invalid(path.key(name), text, "must be greater than or equal to 0"));
        }
    }
}

fn data_keys(map: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for key in map.as_object().into_iter().flatten().map(|(key, _)| key) {
        let well = (1..=253).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            && key != "."
            && !key.starts_with("..");
        if !well {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            errors.push(FieldError::invalid(path.key(key), key.as_str(), detail));
        }
    }
}

fn role_ref(role: &Value, object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |name: &str| role.get(name).and_then(Value::as_str).unwrap_or("");
    if text("apiGroup") != "rbac.authorization.k8s.io" {
        let known = ["rbac.authorization.k8s.io"];
        errors.push(FieldError::not_supported(path.child("apiGroup"), text("apiGroup"), known));
    }
    let cluster = object.get("kind").and_then(Value::as_str) == Some("ClusterRoleBinding");
    let known: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    if !known.contains(&text("kind")) {
        errors.push(FieldError::not_supported(path.child("kind"), text("kind"), known));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
}

fn definition_name(object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let wanted = format!("{}.{}", text("/spec/names/plural"), text("/spec/group"));
    if text("/metadata/name") != wanted {
        let meta = path.child("metadata");
        errors.push(FieldError::invalid(
            meta.child("name"),
            text("/metadata/name"),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let group = text("/spec/group");
    let spec = path.child("spec");
    if !group.is_empty() && (!is_dns_subdomain(group) || !group.contains('.')) {
        errors.push(FieldError::invalid(
            spec.child("group"),
            group,
            "should be a domain with at least one dot",
        ));
    }
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    let stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    if versions.into_iter().flatten().filter(stored).count() != 1 {
        let list = versions.cloned().unwrap_or_default();
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(spec.child("versions"), Value::Array(list), detail));
    }
}

fn service_name(object: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let wanted = format!("{}.{}", text("/spec/version"), text("/spec/group"));
    if text("/metadata/name") != wanted {
        let meta = path.child("metadata");
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", crate::field::quote(&wanted));
        errors.push(FieldError::invalid(meta.child("name"), text("/metadata/name"), detail));
    }
}

const POD_CHANGES: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn pod_spec_fixed(spec: &Value, before: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(before) = before else { return };
    let mut masked = spec.clone();
    for kind in CONTAINER_LISTS {
        let old = before.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(Value::Array(new)) = masked.get_mut(kind) else { continue };
        for (new, old) in new.iter_mut().zip(old) {
            for field in ["image", "resources"] {
                if let (Some(place), Some(image)) = (new.get_mut(field), old.get(field)) {
                    *place = image.clone();
                }
            }
        }
    }
    if let (Value::Object(masked), Value::Object(before)) = (&mut masked, before) {
        for field in [
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "schedulingGates",
            "ephemeralContainers",
            "nodeName",
        ] {
            match before.get(field) {
                Some(value) => masked.insert(field.to_owned(), value.clone()),
                None => masked.remove(field),
            };
        }
    }
    if &masked != before {
        errors.push(FieldError::forbidden(path, POD_CHANGES));
    }
}

fn ip_block(block: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let cidr = block.get("cidr").and_then(Value::as_str).unwrap_or("");
    if cidr.is_empty() {
        errors.push(FieldError::required(path.child("cidr"), ""));
        return;
    }
    if !super::format::matches("cidr", cidr) {
        errors.push(FieldError::invalid(path.child("cidr"), cidr, CIDR));
        return;
    }
    let list = path.child("except");
    for (at, except) in block.get("except").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let except = except.as_str().unwrap_or("");
        if !super::format::matches("cidr", except) {
            errors.push(FieldError::invalid(list.index(at), except, CIDR));
        } else if !strictly_within(except, cidr) {
            let detail = format!("must be a strict subset of `cidr`: {}", crate::field::quote(cidr));
            errors.push(FieldError::invalid(list.index(at), except, detail));
        }
    }
}

/// Whether one range of addresses is a smaller part of another.
fn strictly_within(inner: &str, outer: &str) -> bool {
    let parse = |text: &str| -> Option<(bool, u128, u32)> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        Some(match address.parse().ok()? {
            std::net::IpAddr::V4(address) => (true, u128::from(address.to_bits()) << 96, length),
            std::net::IpAddr::V6(address) => (false, address.to_bits(), length),
        })
    };
    let (Some((v4, address, length)), Some((outer_v4, network, outer_length))) = (parse(inner), parse(outer))
    else {
        return false;
    };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(outer_length)).unwrap_or(0);
    v4 == outer_v4 && length > outer_length && address & mask == network & mask
}
