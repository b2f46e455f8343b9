//! Endpoints of more addresses than one object should have are cut, the same share of each subset.

use serde_json::Value;

use super::super::read;

/// The most addresses of one object.
const MOST: usize = 1000;

/// Cuts what is too much; addresses that are not ready go first. Whether something was.
pub(super) fn truncate(subsets: &mut [Value]) -> bool {
    let count = |field: &str, subsets: &[Value]| -> usize {
        subsets.iter().map(|subset| read::list(&subset[field]).len()).sum()
    };
    let ready = count("addresses", subsets);
    let unready = count("notReadyAddresses", subsets);
    if ready + unready <= MOST {
        return false;
    }
    let (field, total, most) =
        if ready > MOST { ("addresses", ready, MOST) } else { ("notReadyAddresses", unready, MOST - ready) };
    let mut left = most;
    for subset in subsets {
        let own = read::list(&subset[field]).len();
        // Rounded up: the last subset has what the others left.
        let kept = (own * most).div_ceil(total).min(left).min(own);
        left -= kept;
        let Some(fields) = subset.as_object_mut() else { continue };
        if let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) {
            list.truncate(kept);
        }
        if field == "addresses" {
            fields.remove("notReadyAddresses");
        }
        fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    true
}
