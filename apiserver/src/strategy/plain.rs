//! Which strategy a built-in kind has; and the traits of the kinds that have nothing else.

use std::sync::Arc;

use litek8s_machinery::resource::Resource;

use super::Strategy;
use super::autoscaler::Autoscaler;
use super::config::Config;
use super::cron_job::CronJob;
use super::job::Job;
use super::namespace::Namespace;
use super::persistent_volume::PersistentVolume;
use super::pod::Pod;
use super::rbac::Rbac;
use super::service::Service;
use super::service_cidr::ServiceCidr;
use crate::admission::{MutatingBindings, MutatingPolicies, Policies, WebhookConfigurations};
use crate::aggregation::ApiServices;
use crate::certificates::CertificateRequests;
use crate::extensions::Definitions;

/// A kind with traits and no behaviour.
#[derive(Default)]
struct Plain {
    returns_deleted: bool,
    keeps_status: bool,
    orphans: bool,
}

impl Strategy for Plain {
    fn returns_deleted(&self) -> bool {
        self.returns_deleted
    }

    fn keeps_status(&self) -> bool {
        self.keeps_status
    }

    fn orphans_by_default(&self) -> bool {
        self.orphans
    }
}

/// The strategy of a built-in resource.
pub(crate) fn for_builtin(resource: &Resource) -> Arc<dyn Strategy> {
    match (&*resource.group, &*resource.plural) {
        ("", "namespaces") => Arc::new(Namespace),
        ("", "persistentvolumes") => Arc::new(PersistentVolume),
        ("", "pods") => Arc::new(Pod),
        ("", "services") => Arc::new(Service),
        ("", "replicationcontrollers") => Arc::new(Plain { orphans: true, ..Plain::default() }),
        ("batch", "jobs") => Arc::new(Job),
        ("batch", "cronjobs") => Arc::new(CronJob),
        ("", "configmaps" | "secrets") => Arc::new(Config { secret: *resource.plural == *"secrets" }),
        ("apiextensions.k8s.io", "customresourcedefinitions") => Arc::new(Definitions::default()),
        ("apiregistration.k8s.io", "apiservices") => Arc::new(ApiServices),
        ("rbac.authorization.k8s.io", _) => Arc::new(Rbac),
        ("certificates.k8s.io", "certificatesigningrequests") => Arc::new(CertificateRequests),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => Arc::new(Policies),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => Arc::new(MutatingPolicies),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => Arc::new(MutatingBindings),
        ("autoscaling", "horizontalpodautoscalers") => Arc::new(Autoscaler),
        ("networking.k8s.io", "servicecidrs") => Arc::new(ServiceCidr),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => Arc::new(WebhookConfigurations),
        ("", "nodes") => Arc::new(Plain { keeps_status: true, ..Plain::default() }),
        ("", "serviceaccounts" | "persistentvolumeclaims" | "podtemplates" | "resourcequotas") => {
            Arc::new(Plain { returns_deleted: true, ..Plain::default() })
        }
        _ => Arc::new(Plain::default()),
    }
}
