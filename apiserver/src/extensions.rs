//! CustomResourceDefinitions: what they may be, what they make the server serve, and the rules of their objects.

pub(crate) mod cel;
mod condition;
mod conversion;
mod custom;
mod definition;
mod names;
mod served;
mod validate;
mod versions;

pub(crate) use condition::{Condition, is_condition_true, set_condition};
pub(crate) use definition::Definitions;
pub(crate) use names::settle_among;
pub(crate) use served::{follow, load};

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Group, version and plural name of the definitions themselves.
pub(crate) const DEFINITIONS: (&str, &str, &str) =
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions");

#[cfg(test)]
mod tests;
