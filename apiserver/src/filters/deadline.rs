//! How long a request may take: the server's limit, or less when the client asks for less.

use std::time::Duration;

use litek8s_machinery::status::Status;

use crate::request::RequestInfo;

/// The limit of a request; none for watches and streams, which say themselves when they end.
pub(super) fn of(info: &RequestInfo, limit: Duration) -> Result<Option<Duration>, Status> {
    if info.is_long_running() {
        return Ok(None);
    }
    let Some(text) = info.query.get("timeout").filter(|text| !text.is_empty()) else {
        return Ok(Some(limit));
    };
    let wanted = parse(text).ok_or_else(|| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {text:?}"))
    })?;
    // Zero asks for the server's own limit.
    Ok(Some(if wanted.is_zero() { limit } else { wanted.min(limit) }))
}

/// A duration as Go writes it: `1m30s`, `500ms`, `1.5h`, `0`.
fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(url: &str) -> Result<Option<u128>, Status> {
        let info = RequestInfo::parse(&http::Method::GET, &url.parse().unwrap()).unwrap();
        of(&info, Duration::from_secs(60)).map(|limit| limit.map(|limit| limit.as_millis()))
    }

    #[test]
    fn a_client_may_ask_for_less_than_the_limit() {
        assert_eq!(limit("/api/v1/pods").unwrap(), Some(60_000));
        assert_eq!(limit("/api/v1/pods?timeout=1.5s").unwrap(), Some(1_500));
        assert_eq!(limit("/api/v1/pods?timeout=1m30s").unwrap(), Some(60_000));
        assert_eq!(limit("/api/v1/pods?timeout=0s").unwrap(), Some(60_000));
        assert_eq!(limit("/api/v1/pods?watch=1&timeout=1s").unwrap(), None);
        for bad in ["x", "1", "s", "-1s", "1x", "."] {
            assert_eq!(limit(&format!("/api/v1/pods?timeout={bad}")).unwrap_err().code, 400, "{bad}");
        }
    }
}
