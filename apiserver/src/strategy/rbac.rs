//! Roles and bindings: nobody gives away what they do not have; the check itself is the authorizer's.

use serde_json::Value;

use super::{Strategy, WriteContext};
use crate::response::Failure;

/// The behaviour of the kinds of `rbac.authorization.k8s.io`.
pub(super) struct Rbac;

impl Strategy for Rbac {
    fn authorize(&self, cx: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
        cx.api.authorizer.check_escalation(cx.user, cx.view, &cx.resource.kind, old, object)
    }
}
