//! Durations for people.

use jiff::Timestamp;
use serde_json::Value;

/// The time from a timestamp to now, or `<unknown>`.
pub fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match timestamp.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(seconds_between(then, now)),
        None => "<unknown>".to_owned(),
    }
}

pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    // Whole seconds towards zero, as Go's conversion does.
    let millis = to.as_millisecond() - from.as_millisecond();
    millis / 1000
}

/// Two or three figures of a duration in seconds, as `2m30s`, `5h`, `3d4h`, `2y30d`.
pub fn human_duration(seconds: i64) -> String {
    let with = |whole: i64, unit: &str, part: i64, small: &str| {
        if part == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{part}{small}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => with(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => with(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 365 * 8 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}
