//! Writing a CertificateSigningRequest: the server says who asks, and three doors change three different parts.

use std::collections::BTreeSet;

use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupResource;
use litek8s_machinery::status::Status;
use serde_json::{Value, json};

use super::asked::Asked;
use super::{APPROVED, DENIED, FAILED, GROUP, RESOURCE, has_condition, signer};
use crate::authorization::Attributes;
use crate::endpoints::metadata;
use crate::request::MASTERS;
use crate::response::Failure;
use crate::strategy::{Strategy, WriteContext};

/// What a certificate may be used for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The shortest life that may be asked for, seconds.
const SHORTEST: i64 = 600;

/// The behaviour of CertificateSigningRequests.
pub(crate) struct CertificateRequests;

impl Strategy for CertificateRequests {
    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        let spec = metadata::object(object, "spec");
        let user = cx.user;
        put(spec, "username", json!(user.name), user.name.is_empty());
        put(spec, "uid", json!(user.uid), user.uid.is_empty());
        put(spec, "groups", json!(user.groups), user.groups.is_empty());
        put(spec, "extra", json!(user.extra), user.extra.is_empty());
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        object["spec"] = old["spec"].clone();
        let approving = cx.subresource == "approval";
        if approving {
            // Through this door the answer comes, and metadata as everywhere; the certificate and the signer's word stay.
            let mut kept = old.clone();
            kept["metadata"] = object["metadata"].clone();
            set_conditions(&mut kept, conditions(object));
            *object = kept;
        }
        if approving || cx.subresource == "status" {
            let foreign: &[&str] = if approving { &[FAILED] } else { &[APPROVED, DENIED] };
            let mut list = preserved(conditions(object), conditions(old), foreign);
            list.iter_mut().for_each(|condition| stamp(condition, &conditions(old), cx.now));
            set_conditions(object, list);
        }
        Ok(())
    }

    fn validate(&self, cx: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            None => check_spec(&object["spec"]),
            Some(old) => check_status(cx, object, old),
        }
    }

    fn authorize(&self, cx: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
        let signer_name = object["spec"]["signerName"].as_str().unwrap_or_default();
        let name = metadata::text(object, "name");
        let refuse = |why: String| Err(Status::forbidden(&GroupResource::new(GROUP, RESOURCE), name, why));
        let Some(old) = old else {
            let asked = Asked::read(object["spec"]["request"].as_str().unwrap_or_default());
            let masters = asked.is_ok_and(|asked| asked.organizations.iter().any(|o| o == MASTERS));
            if signer_name == signer::CLIENT && masters {
                return refuse(format!("use of {signer_name} signer with {MASTERS} group is not allowed"));
            }
            return Ok(());
        };
        let signs = object["status"]["certificate"] != old["status"]["certificate"]
            || has_condition(object, FAILED) != has_condition(old, FAILED);
        let (verb, what) = match cx.subresource {
            "approval" => ("approve", "approve"),
            "status" if signs => ("sign", "sign"),
            _ => return Ok(()),
        };
        if may(cx, verb, signer_name) {
            return Ok(());
        }
        refuse(format!("user not permitted to {what} requests with signerName {signer_name:?}"))
    }
}

/// The conditions of `new`, those of the types `foreign` as they are in `old`, at their places.
fn preserved(new: Vec<Value>, old: Vec<Value>, foreign: &[&str]) -> Vec<Value> {
    let mut kept: Vec<Value> = old.into_iter().filter(|condition| is_one_of(condition, foreign)).collect();
    let mut list = Vec::new();
    for condition in new {
        if !is_one_of(&condition, foreign) {
            list.push(condition);
        } else if let Some(at) = kept.iter().position(|old| old["type"] == condition["type"]) {
            list.push(kept.remove(at));
        }
    }
    list.append(&mut kept);
    list
}

/// Whether the user may do this for the signer, or for all signers of its domain.
fn may(cx: &WriteContext<'_>, verb: &str, signer_name: &str) -> bool {
    let domain = signer_name.split('/').next().unwrap_or_default();
    let every = format!("{domain}/*");
    [signer_name, &every].into_iter().any(|name| {
        let wanted = Attributes {
            verb,
            group: GROUP,
            resource: "signers",
            name,
            is_resource: true,
            ..Attributes::default()
        };
        cx.api.authorizer.authorize(cx.user, &wanted, cx.view).allowed()
    })
}

fn check_spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let request = spec["request"].as_str().unwrap_or_default();
    if let Err(why) = Asked::read(request) {
        errors.push(FieldError::invalid("spec.request", request, why));
    }
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", "usages is required"));
    }
    let mut seen = BTreeSet::new();
    for (at, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(format!("spec.usages[{at}]"), *usage, USAGES));
        }
        if !seen.insert(usage) {
            errors.push(FieldError::duplicate(format!("spec.usages[{at}]"), *usage));
        }
    }
    let name = spec["signerName"].as_str().unwrap_or_default();
    if name == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid("spec.signerName", name, detail));
    } else if !is_qualified(name) {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid("spec.signerName", name, detail));
    }
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < SHORTEST) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, detail));
    }
    errors
}

/// `domain/path`, both of sensible characters and the domain with a dot.
fn is_qualified(name: &str) -> bool {
    let Some((domain, path)) = name.split_once('/') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    let domain_good = domain.contains('.')
        && domain
            .split('.')
            .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'))
        && domain.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'));
    domain_good && !path.is_empty() && path.chars().all(plain)
}

fn check_status(cx: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, condition) in conditions(object).iter().enumerate() {
        let kind = condition["type"].as_str().unwrap_or_default();
        let path = format!("status.conditions[{at}]");
        if is_one_of(condition, &[APPROVED, DENIED, FAILED]) && condition["status"] != "True" {
            let status = condition["status"].clone();
            errors.push(FieldError::not_supported(
                format!("{path}.status"),
                status.as_str().unwrap_or_default(),
                ["True"],
            ));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), ""));
        }
    }
    if has_condition(object, APPROVED) && has_condition(object, DENIED) {
        let detail = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid("status.conditions", DENIED, detail));
    }
    for kind in [APPROVED, DENIED, FAILED] {
        if has_condition(old, kind) && !has_condition(object, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden("status.conditions", detail));
        }
    }
    let before = old["status"]["certificate"].as_str().unwrap_or_default();
    let after = object["status"]["certificate"].as_str().unwrap_or_default();
    if cx.subresource == "status" && before != after {
        if !before.is_empty() {
            let detail = "updates may not replace an existing certificate";
            errors.push(FieldError::forbidden("status.certificate", detail));
        } else if !is_certificate(after) {
            errors.push(FieldError::invalid(
                "status.certificate",
                "<certificate data>",
                "must contain one or more PEM blocks",
            ));
        }
    }
    errors
}

fn is_certificate(encoded: &str) -> bool {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
    std::str::from_utf8(&bytes).is_ok_and(|pem| litek8s_daemon::pki::inspect(pem).is_ok())
}

fn conditions(object: &Value) -> Vec<Value> {
    object["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

fn set_conditions(object: &mut Value, list: Vec<Value>) {
    let status = metadata::object(object, "status");
    if list.is_empty() {
        status.as_object_mut().map(|status| status.remove("conditions"));
    } else {
        status["conditions"] = Value::Array(list);
    }
}

fn is_one_of(condition: &Value, kinds: &[&str]) -> bool {
    condition["type"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

/// A new or changed condition has the time of the write.
fn stamp(condition: &mut Value, before: &[Value], now: jiff::Timestamp) {
    let known = before.iter().find(|c| c["type"] == condition["type"]);
    for field in ["lastUpdateTime", "lastTransitionTime"] {
        if condition[field].is_null() {
            let kept = known.map(|c| c[field].clone()).filter(|at| !at.is_null());
            condition[field] = kept.unwrap_or_else(|| json!(metadata::time(now)));
        }
    }
}

fn put(spec: &mut Value, field: &str, value: Value, empty: bool) {
    let Some(map) = spec.as_object_mut() else { return };
    if empty {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}
