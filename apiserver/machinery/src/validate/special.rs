//! The checks of built-in types that look at more than one field.

mod naming;
mod network;
mod workload;

use serde_json::Value;

use crate::field::{FieldError, Path};

pub(super) use network::IP;

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
    /// The ServiceAccounts of a cluster-wide binding say where they are.
    AccountNamespaces,
    /// A role reference names a role the binding may name.
    RoleRef,
    /// A cluster-wide definition is named `plural.group`.
    DefinitionName,
    /// An APIService is named `version.group`.
    ServiceName,
    /// An IP block and its exceptions.
    IpBlock,
    /// The address of an endpoint.
    Address,
    /// An address range.
    Cidr,
    /// The cluster IP is fixed once it is there.
    ClusterIp,
    /// The addresses of an EndpointSlice are of its type.
    SliceAddresses,
    /// The host of an Ingress: a name, or a wildcard of one label before it.
    IngressHost,
    /// The path of an Ingress begins with a slash.
    AbsolutePath,
    /// The port of an Ingress' backend has a name or a number.
    BackendPort,
    /// A number that is not negative, or a percentage.
    IntOrPercent,
    /// `example.com/name`.
    DomainPath,
    /// An event is in the namespace of what it is about.
    EventNamespace,
    /// The ranges of a ServiceCIDR: one of a family, and none is taken back.
    ServiceCidrs,
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
            "account-namespaces" => Self::AccountNamespaces,
            "role-ref" => Self::RoleRef,
            "definition-name" => Self::DefinitionName,
            "service-name" => Self::ServiceName,
            "ip-block" => Self::IpBlock,
            "address" => Self::Address,
            "cidr" => Self::Cidr,
            "cluster-ip" => Self::ClusterIp,
            "service-cidrs" => Self::ServiceCidrs,
            "slice-addresses" => Self::SliceAddresses,
            "ingress-host" => Self::IngressHost,
            "absolute-path" => Self::AbsolutePath,
            "backend-port" => Self::BackendPort,
            "int-or-percent" => Self::IntOrPercent,
            "domain-path" => Self::DomainPath,
            "event-namespace" => Self::EventNamespace,
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
            Self::SelectorMatchesTemplate => workload::selects_template(value, path, errors),
            Self::Selector => workload::selector(value, path, errors),
            Self::RestartsAlways => {
                if value.as_str().is_some_and(|policy| policy != "Always") {
                    errors.push(FieldError::not_supported(path, value.clone(), ["Always"]));
                }
            }
            Self::PortNameOrNumber => network::port(value, path, errors),
            Self::EnvironmentName => workload::environment_name(value, path, errors),
            Self::MountsHaveVolumes => workload::mounts(value, path, errors),
            Self::ContainerNames => workload::container_names(value, path, errors),
            Self::PortsNamed => network::ports_named(value, path, errors),
            Self::Quantities => workload::quantities(value, path, errors),
            Self::DataKeys => naming::data_keys(value, path, errors),
            Self::AccountNamespaces => naming::account_namespaces(value, path, errors),
            Self::RoleRef => naming::role_ref(value, object, path, errors),
            Self::DefinitionName => naming::definition_name(value, path, errors),
            Self::ServiceName => naming::service_name(value, path, errors),
            Self::IpBlock => network::ip_block(value, path, errors),
            Self::Address => {
                let text = value.as_str().unwrap_or("");
                if object.get("addressType").is_none() && text.parse::<std::net::IpAddr>().is_err() {
                    errors.push(FieldError::invalid(path, text, network::IP));
                }
            }
            Self::Cidr => {
                let text = value.as_str().unwrap_or("");
                if !super::format::matches("cidr", text) {
                    errors.push(FieldError::invalid(path, text, network::CIDR));
                }
            }
            Self::ServiceCidrs => network::service_cidrs(value, path, errors),
            Self::SliceAddresses => network::slice_addresses(value, path, errors),
            Self::IngressHost => network::ingress_host(value, path, errors),
            Self::AbsolutePath => network::absolute_path(value, object, path, errors),
            Self::BackendPort => network::backend_port(value, path, errors),
            Self::IntOrPercent => workload::int_or_percent(value, path, errors),
            Self::DomainPath => naming::domain_path(value, path, errors),
            Self::EventNamespace => naming::event_namespace(value, path, errors),
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
