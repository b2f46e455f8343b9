//! The names of schemas: those that upstream gives its own types, and the reversed group for custom ones.

use crate::resource::Resource;
use crate::schema::{SchemaRef, Wire};

/// The name of a built-in type by its short name in the table: `core/v1.Pod` → `io.k8s.api.core.v1.Pod`.
pub fn model_name(short: &str) -> String {
    let Some((package, version, kind)) = crate::types::parts(short) else { return short.to_owned() };
    let prefix = match package {
        "meta" => "io.k8s.apimachinery.pkg.apis.meta",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        other => return format!("io.k8s.api.{other}.{version}.{kind}"),
    };
    format!("{prefix}.{version}.{kind}")
}

/// The name of the schema of a resource.
pub(super) fn resource_name(resource: &Resource) -> String {
    match &resource.schema {
        SchemaRef::Type(ty) => model_name(ty.as_str()),
        SchemaRef::Inline(_) => custom_name(resource, &resource.kind),
    }
}

/// The name of the schema of a list of a resource.
pub fn list_name(resource: &Resource) -> String {
    match &resource.schema {
        SchemaRef::Type(ty) => format!("{}List", model_name(ty.as_str())),
        SchemaRef::Inline(_) => custom_name(resource, &resource.list_kind),
    }
}

fn custom_name(resource: &Resource, kind: &str) -> String {
    let reversed: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", reversed.join("."), resource.version)
}

/// The name of the schema of a special scalar; `None` for plain ones.
pub(super) fn wire_name(wire: Wire) -> Option<&'static str> {
    Some(match wire {
        Wire::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        Wire::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        Wire::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Wire::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Wire::RawExtension => "io.k8s.apimachinery.pkg.runtime.RawExtension",
        Wire::SchemaOrArray => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        }
        Wire::SchemaOrBool => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
        }
        Wire::SchemaOrStrings => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
        }
        Wire::Plain | Wire::ItemsMessage | Wire::Bytes | Wire::Double | Wire::Duration | Wire::RawJson => {
            return None;
        }
    })
}
