//! PersistentVolumes: since when a volume is in its phase.

use serde_json::Value;

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::response::Failure;

const SINCE: &str = "lastPhaseTransitionTime";

/// The behaviour of PersistentVolumes.
pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, cx: &WriteContext<'_>, object: &mut Value) -> Result<(), Failure> {
        metadata::object(object, "status")[SINCE] = metadata::time(cx.now).into();
        Ok(())
    }

    fn prepare_update(&self, cx: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Failure> {
        if cx.subresource == "status" {
            let since = since(&object["status"], &old["status"], cx.now);
            metadata::object(object, "status")[SINCE] = since;
        }
        Ok(())
    }
}

/// The client's word, unless it says nothing new.
fn since(new: &Value, old: &Value, now: jiff::Timestamp) -> Value {
    let said = !new[SINCE].is_null();
    match new["phase"] == old["phase"] {
        true if said => new[SINCE].clone(),
        true => old[SINCE].clone(),
        false if said && new[SINCE] != old[SINCE] => new[SINCE].clone(),
        false => metadata::time(now).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_phase_has_a_new_time() {
        let now = jiff::Timestamp::from_second(60).unwrap();
        let status = |phase: &str, time: Value| json!({"phase": phase, SINCE: time});
        let old = status("Pending", json!("1970-01-01T00:00:01Z"));
        let cases = [
            (status("Pending", Value::Null), "1970-01-01T00:00:01Z"),
            (status("Bound", Value::Null), "1970-01-01T00:01:00Z"),
            (status("Bound", old[SINCE].clone()), "1970-01-01T00:01:00Z"),
            (status("Bound", json!("1970-01-01T00:00:07Z")), "1970-01-01T00:00:07Z"),
        ];
        for (new, wanted) in cases {
            assert_eq!(since(&new, &old, now), wanted, "{new}");
        }
    }
}
