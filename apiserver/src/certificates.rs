//! CertificateSigningRequests: who may approve them, which this server approves and signs itself, and when they go;
//! never another CA than the cluster's.

mod asked;
mod decide;
mod run;
mod signer;
mod strategy;

pub(crate) use run::run;
pub(crate) use strategy::CertificateRequests;

/// The API group.
const GROUP: &str = "certificates.k8s.io";
/// The resource.
const RESOURCE: &str = "certificatesigningrequests";
/// The condition that says yes.
const APPROVED: &str = "Approved";
/// The condition that says no.
const DENIED: &str = "Denied";
/// The condition that says that the signer cannot.
const FAILED: &str = "Failed";

/// Whether the object has the condition `kind`.
fn has_condition(object: &serde_json::Value, kind: &str) -> bool {
    object["status"]["conditions"].as_array().is_some_and(|list| list.iter().any(|c| c["type"] == kind))
}

#[cfg(test)]
mod tests;
