//! Points in time and durations: seconds and nanoseconds on the wire, text in JSON.

use jiff::Timestamp;

/// RFC 3339 to the second, as `2024-01-02T03:04:05Z`.
pub(crate) fn seconds_text(seconds: i64, nanos: i32) -> Option<String> {
    let at = Timestamp::new(seconds, nanos).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// RFC 3339 with six digits of the second.
pub(crate) fn micros_text(seconds: i64, nanos: i32) -> Option<String> {
    let at = Timestamp::new(seconds, nanos).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// Seconds and nanoseconds of a text in RFC 3339.
pub(crate) fn parse(text: &str) -> Option<(i64, i32)> {
    let at: Timestamp = text.parse().ok()?;
    Some((at.as_second(), at.subsec_nanosecond()))
}

/// Go's notation of a duration in nanoseconds, as `1h2m3.5s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    if all == 0 {
        return "0s".to_owned();
    }
    if all < 1_000_000_000 {
        let (unit, size) = match all {
            1_000_000.. => ("ms", 1_000_000),
            1_000.. => ("µs", 1_000),
            _ => ("ns", 1),
        };
        return format!("{sign}{}{unit}", decimal(all / size, all % size, size));
    }
    let (seconds, fraction) = (all / 1_000_000_000, all % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = format!("{}s", decimal(seconds % 60, fraction, 1_000_000_000));
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}"),
        (0, minutes) => format!("{sign}{minutes}m{rest}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}"),
    }
}

fn decimal(whole: u64, fraction: u64, size: u64) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let width = size.to_string().len() - 1;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Nanoseconds of a duration in Go's notation.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let units =
            [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
        let (unit, size) = units.into_iter().find(|(unit, _)| {
            after.strip_prefix(unit).is_some_and(|tail| !tail.starts_with(|c: char| c.is_ascii_alphabetic()))
        })?;
        nanos += number.parse::<f64>().ok()? * size;
        rest = &after[unit.len()..];
    }
    let nanos = (sign * nanos).round();
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
    (nanos.is_finite() && nanos.abs() < 9.2e18).then_some(nanos as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (1_500_000_000, "1.5s"),
            (61_000_000_000, "1m1s"),
            (3_600_000_000_000, "1h0m0s"),
            (-5_000_000_000, "-5s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration_text(nanos), text);
            assert_eq!(duration(text), Some(nanos), "{text}");
        }
        for odd in ["", "x", "1", "1x", "1.2.3s"] {
            assert!(duration(odd).is_none() || odd.is_empty(), "{odd}");
        }
    }
}
