//! Formats of strings: those that kube-apiserver checks in custom resources and that are seen in practice.
//! A format that is not known is not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a text has a format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(text),
        "byte" => is_base64(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        "hostname" => is_hostname(text),
        "uri" => has_scheme(text),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    let shaped = text.len() >= 20 && matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    shaped && text.parse::<jiff::Timestamp>().is_ok()
}

/// Go's notation, as `1h30m`, or words, as `3 days`.
fn is_duration(text: &str) -> bool {
    let units = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim();
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let end = after.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let word = unit.trim_end_matches('s');
        let known = units.contains(&unit)
            || matches!(
                word,
                "sec"
                    | "second"
                    | "min"
                    | "minute"
                    | "hr"
                    | "hour"
                    | "day"
                    | "week"
                    | "milli"
                    | "micro"
                    | "nano"
            );
        if number.parse::<f64>().is_err() || !known {
            return false;
        }
        rest = next.trim_start();
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_uuid(text: &str) -> bool {
    let plain: String = text.chars().filter(|&c| c != '-').collect();
    plain.len() == 32
        && plain.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (text.len() == 32 || text.bytes().filter(|&byte| byte == b'-').count() == 4)
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (1..=255).contains(&text.len()) && text.trim_end_matches('.').split('.').all(label)
}

fn has_scheme(text: &str) -> bool {
    text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                && !rest.is_empty()
                && !rest.contains(' ')
        })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn known_formats_are_told_apart() {
        let cases = [
            ("date-time", "2024-01-02T03:04:05Z", "2024-01-02"),
            ("date", "2024-01-02", "2024-13-02"),
            ("duration", "1h30m", "1x"),
            ("ipv4", "192.0.2.1", "::1"),
            ("ipv6", "2001:db8::1", "192.0.2.1"),
            ("cidr", "192.0.2.0/24", "192.0.2.0/33"),
            ("mac", "02:00:00:00:00:01", "02:00"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("byte", "aGk=", "a"),
            ("email", "a@example.org", "example.org"),
            ("hostname", "a.example.org", "-a"),
            ("uri", "https://example.org", "example org"),
        ];
        for (format, good, bad) in cases {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("never-heard-of", "anything"));
    }
}
