//! The one notation of quantities and times.

use serde_json::Value;

use crate::protobuf::time;
use crate::quantity;
use crate::schema::Wire;

/// Rewrites a scalar in its one notation; what is no quantity or time stays as it is.
pub(super) fn normalize(wire: Wire, value: &mut Value) {
    let rewritten = match (wire, &*value) {
        (Wire::Quantity, Value::String(text)) => quantity::canonical(text.trim()),
        (Wire::Quantity, Value::Number(number)) => quantity::canonical(&number.to_string()),
        (Wire::Time, Value::String(text)) => {
            time::parse(text).and_then(|(seconds, _)| time::seconds_text(seconds, 0))
        }
        (Wire::MicroTime, Value::String(text)) => {
            time::parse(text).and_then(|(seconds, nanos)| time::micros_text(seconds, nanos))
        }
        _ => None,
    };
    if let Some(text) = rewritten {
        *value = Value::String(text);
    }
}
