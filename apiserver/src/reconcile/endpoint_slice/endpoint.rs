//! One endpoint: what it says of its pod, what makes it the same as another, and what makes it differ.

use serde_json::{Value, json};

use super::super::facts::Facts;
use super::super::kind::Kind;
use super::super::read;
use super::super::service::{self, Backend, Family, Service};

/// An endpoint is the same while its addresses, its name and its pod are: everything else may change in place.
pub(super) type Identity = (Vec<String>, String, String, String);

/// An endpoint that there is to be.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The endpoint.
    pub(super) value: Value,
    /// When its pod became what it is.
    pub(super) since: Option<String>,
}

/// The endpoint of a pod; `None` when it has no address of the family, or its node is not known.
pub(super) fn endpoint(
    facts: &Facts<'_>,
    service: &Service<'_>,
    pod: &Backend<'_>,
    family: Family,
) -> Option<Wanted> {
    let addresses = pod.addresses(family);
    if addresses.is_empty() {
        return None;
    }
    let node = facts.view.get(&Kind::Node.key("", pod.node()));
    if node.is_none() && !service.publishes_unready() {
        return None;
    }
    let (serving, terminating) = (pod.is_ready(), pod.object.meta.is_terminating());
    let ready = service.publishes_unready() || (serving && !terminating);
    let mut value = json!({
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": pod.reference(),
    });
    if !pod.node().is_empty() {
        value["nodeName"] = json!(pod.node());
    }
    let zone = node.and_then(|node| node.meta.labels.get(service::ZONE)).filter(|zone| !zone.is_empty());
    if let Some(zone) = zone {
        value["zone"] = json!(zone);
    }
    if let Some(hostname) = pod.hostname(&service.object.key.name) {
        value["hostname"] = json!(hostname);
    }
    if ready && let Some(hints) = hints(service.distribution(), &value) {
        value["hints"] = hints;
    }
    Some(Wanted { value, since: pod.since() })
}

/// For whom a ready endpoint is the nearest, when the Service cares.
fn hints(distribution: &str, endpoint: &Value) -> Option<Value> {
    if !matches!(distribution, "PreferClose" | "PreferSameZone" | "PreferSameNode") {
        return None;
    }
    let mut hints = json!({});
    if endpoint["zone"].is_string() {
        hints["forZones"] = json!([{"name": endpoint["zone"]}]);
    }
    if distribution == "PreferSameNode" && endpoint["nodeName"].is_string() {
        hints["forNodes"] = json!([{"name": endpoint["nodeName"]}]);
    }
    hints.as_object().is_some_and(|hints| !hints.is_empty()).then_some(hints)
}

/// What makes an endpoint the same as another.
pub(super) fn identity(endpoint: &Value) -> Identity {
    let addresses = read::list(&endpoint["addresses"]).iter();
    let mut addresses: Vec<String> = addresses.map(|address| read::text(address).to_owned()).collect();
    addresses.sort();
    let text = |value: &Value| read::text(value).to_owned();
    let target = &endpoint["targetRef"];
    (addresses, text(&endpoint["hostname"]), text(&target["namespace"]), text(&target["name"]))
}

/// Whether two endpoints of the same identity say the same of it.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    let target = |endpoint: &Value| {
        let target = &endpoint["targetRef"];
        (target["kind"].clone(), target["uid"].clone())
    };
    let fields = ["nodeName", "zone", "conditions", "hints"];
    fields.iter().all(|field| a[*field] == b[*field]) && target(a) == target(b)
}
