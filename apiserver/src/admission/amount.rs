//! Quantities of resources as whole billionths, added up and shown again.

use std::collections::BTreeMap;

use litek8s_machinery::quantity;
use serde_json::Value;

/// One, in billionths.
pub(super) const ONE: i128 = 1_000_000_000;
const BINARY: [(&str, i128); 6] =
    [("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Amounts by the name of what they are of.
pub(super) type Amounts = BTreeMap<String, i128>;

/// A quantity of an object, which may be a number.
pub(super) fn of(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => quantity::nanos(text),
        Value::Number(number) => quantity::nanos(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The quantities of a map.
pub(super) fn all(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), of(value)?))).collect()
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let slot = sum.entry(name.clone()).or_default();
        *slot = slot.saturating_add(*amount);
    }
}

/// The larger of both, of everything.
fn at_least(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let slot = sum.entry(name.clone()).or_default();
        *slot = (*slot).max(*amount);
    }
}

/// An amount as text, in powers of two when `like` is written so.
pub(super) fn show(amount: i128, like: &str) -> String {
    if amount % ONE != 0 {
        let milli = ONE / 1000;
        return if amount % milli == 0 { format!("{}m", amount / milli) } else { format!("{amount}n") };
    }
    let whole = amount / ONE;
    let unit = BINARY.iter().find(|(_, size)| like.ends_with('i') && whole != 0 && whole % size == 0);
    match unit {
        Some((unit, size)) => format!("{}{unit}", whole / size),
        None => quantity::canonical(&whole.to_string()).unwrap_or_else(|| whole.to_string()),
    }
}

/// What a pod needs of `field` (`requests` or `limits`): its containers together, or more while it starts.
pub(super) fn of_pod(spec: &Value, field: &str) -> Amounts {
    let of = |container: &Value| all(&container["resources"][field]);
    let mut running = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut running, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            at_least(&mut starting, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            at_least(&mut starting, &now);
        }
    }
    at_least(&mut running, &starting);
    let overhead = all(&spec["overhead"]);
    let counted = overhead.into_iter().filter(|(name, _)| field == "requests" || running.contains_key(name));
    let counted: Amounts = counted.collect();
    add(&mut running, &counted);
    running
}

/// All containers of a pod with their names.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    ["initContainers", "containers"].into_iter().flat_map(|list| {
        let list = spec[list].as_array().into_iter().flatten();
        list.map(|container| (container["name"].as_str().unwrap_or_default(), container))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_needs_what_runs_together_or_more_while_it_starts() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let spec = json!({
            "containers": [{"resources": cpu("1")}, {"resources": cpu("500m")}],
            "initContainers": [
                {"restartPolicy": "Always", "resources": cpu("250m")}, {"resources": cpu("3")}, {"resources": cpu("1")},
            ],
        });
        assert_eq!(show(of_pod(&spec, "requests")["cpu"], "1"), "3250m");
    }

    #[test]
    fn amounts_are_shown_as_the_limit_is_written() {
        let gib = of(&json!("2Gi")).unwrap();
        assert_eq!((show(gib, "1Gi").as_str(), show(gib, "1").as_str()), ("2Gi", "2147483648"));
        assert_eq!(show(of(&json!("1.5")).unwrap(), "2"), "1500m");
        assert_eq!(show(3 * ONE, "10"), "3");
    }
}
