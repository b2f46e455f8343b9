//! What a mutating webhook's patch makes of an object.

use std::sync::Arc;

use litek8s_machinery::patch;
use litek8s_machinery::status::Status;
use serde_json::Value;

use super::super::attributes::{Attributes, Operation, converted};
use crate::endpoints::refine;
use crate::registry::Served;
use crate::response::Failure;

/// Applies a JSON patch in the version the webhook saw; whether anything changed.
pub(super) fn apply(
    attributes: &Attributes<'_>,
    served: &Arc<Served>,
    object: &mut Value,
    patch: &Value,
) -> Result<bool, Failure> {
    let seen = converted(object, attributes.served, served)?;
    let patched = patch::json(&seen, patch).map_err(|status| Status::internal(status.message))?;
    let mut patched = converted(&patched, served, attributes.served)?.into_owned();
    if !patched.is_object() {
        return Err(Status::internal("the patch of a webhook leaves no object"));
    }
    // The options of a stream are no object of the resource.
    if attributes.operation != Operation::Connect {
        refine(&attributes.served.resource, &mut patched);
    }
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}
