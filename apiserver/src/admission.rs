//! What may be written at all, beyond who asks and what the schema says: namespaces that end, ServiceAccounts of pods.

mod namespace;
mod service_account;

use serde_json::Value;

use crate::response::Failure;
use crate::strategy::WriteContext;

pub(crate) use namespace::check_home;

/// May change or refuse a new object.
pub(crate) fn admit_create(cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
    namespace::admit_create(cx, object)?;
    service_account::admit_create(cx, object)
}

/// May change or refuse a changed object.
pub(crate) fn admit_update(_cx: &WriteContext<'_>, _object: &mut Value, _old: &Value) -> Result<(), Failure> {
    Ok(())
}

/// May refuse a delete.
pub(crate) fn admit_delete(cx: &WriteContext<'_>, name: &str) -> Result<(), Failure> {
    namespace::admit_delete(cx, name)
}
