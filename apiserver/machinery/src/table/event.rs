//! The cells of events, in their core form and in that of events.k8s.io.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::printer::{at, number, text};

pub(super) fn print(name: &str, event: &Value, now: Timestamp) -> Value {
    let either = |core: &str, new: &str| match text(event, core) {
        found if found.is_empty() => text(event, new),
        found => found,
    };
    let cell = match name {
        "event.last_seen" => {
            let series = at(event, "series.lastObservedTime");
            let last = series.or_else(|| first(event, &["lastTimestamp", "deprecatedLastTimestamp"]));
            age::since(last.or_else(|| first_seen(event)), now)
        }
        "event.first_seen" => age::since(first_seen(event), now),
        "event.object" => {
            let kind = either("involvedObject.kind", "regarding.kind").to_lowercase();
            let name = either("involvedObject.name", "regarding.name");
            if name.is_empty() { kind } else { format!("{kind}/{name}") }
        }
        "event.source" => source(event),
        "event.message" => either("message", "note").trim().to_owned(),
        "event.count" => {
            let series = number(event, "series.count");
            let count = number(event, "count").max(number(event, "deprecatedCount"));
            series.max(count).max(1).to_string()
        }
        _ => String::new(),
    };
    Value::from(cell)
}

fn first<'a>(event: &'a Value, paths: &[&str]) -> Option<&'a Value> {
    paths.iter().find_map(|path| at(event, path))
}

fn first_seen(event: &Value) -> Option<&Value> {
    first(event, &["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"])
}

fn source(event: &Value) -> String {
    let part = |core: &str, old: &str, new: &str| {
        [core, old, new]
            .iter()
            .map(|path| text(event, path))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = part("source.component", "deprecatedSource.component", "reportingComponent");
    let component = if component.is_empty() { text(event, "reportingController") } else { component };
    let host = part("source.host", "deprecatedSource.host", "reportingInstance");
    if host.is_empty() { component } else { format!("{component}, {host}") }
}
