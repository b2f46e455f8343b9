//! What may be written at all, beyond who asks and what the schema says, and what pods get that they do not ask for.

mod namespace;
mod service_account;
mod tolerations;

use serde_json::Value;

use crate::response::Failure;
use crate::strategy::WriteContext;

pub(crate) use namespace::check_home;

/// May change or refuse a new object.
pub(crate) fn admit_create(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    namespace::admit_create(cx, object)?;
    let is_pod = cx.resource.group.is_empty() && *cx.resource.plural == *"pods" && cx.subresource.is_empty();
    if is_pod {
        service_account::admit_create(cx, object)?;
        tolerations::admit_create(object);
    }
    own_of_node(cx, None, object)
}

/// May change or refuse a changed object.
pub(crate) fn admit_update(cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
    own_of_node(cx, Some(old), object)
}

/// A node writes its own objects only, and not every label of them.
fn own_of_node(cx: &WriteContext<'_>, old: Option<&Value>, object: &Value) -> Result<(), Failure> {
    cx.api.authorizer.check_node(cx.user, &cx.resource.group, &cx.resource.plural, old, object)
}

/// May refuse a delete.
pub(crate) fn admit_delete(cx: &WriteContext<'_>, name: &str) -> Result<(), Failure> {
    namespace::admit_delete(cx, name)
}
