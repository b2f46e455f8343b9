//! Schedules and their times.

use super::*;

fn times(text: &str, name: &str, from: &str, count: usize) -> Vec<String> {
    let zone = TimeZone::get(name).unwrap();
    let schedule = Schedule::parse(text, zone.clone()).unwrap();
    let mut at: Timestamp = from.parse().unwrap();
    (0..count)
        .map(|_| {
            at = schedule.next(at).unwrap();
            at.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M").to_string()
        })
        .collect()
}

#[test]
fn the_next_time_is_what_robfig_cron_says() {
    // The cases of its own tests, where seconds do not matter.
    let cases = [
        ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09 15:00"),
        ("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09 15:00"),
        ("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09 16:20"),
        ("*/15 * * * *", "2012-12-31T23:59:45Z", "2013-01-01 00:00"),
        ("20-35/15 1/2 */10 7 *", "2012-07-09T23:46:00Z", "2012-07-11 01:20"),
        ("0 0 9 Apr-Oct ?", "2012-07-09T23:35:00Z", "2012-08-09 00:00"),
        ("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35:00Z", "2012-08-01 00:00"),
        ("0 0 */5 Oct Mon", "2012-07-09T23:35:00Z", "2012-10-01 00:00"),
        ("0 0 * Feb Mon", "2012-07-09T23:35:00Z", "2013-02-04 00:00"),
        ("0 0 * Feb Mon/2", "2012-07-09T23:35:00Z", "2013-02-01 00:00"),
        ("0 0 29 Feb ?", "2012-07-09T23:35:00Z", "2016-02-29 00:00"),
        ("@hourly", "2012-07-09T14:45:00Z", "2012-07-09 15:00"),
        ("@weekly", "2012-07-09T14:45:00Z", "2012-07-15 00:00"),
        ("@yearly", "2012-07-09T14:45:00Z", "2013-01-01 00:00"),
        ("@every 1h30m", "2012-07-09T14:45:00Z", "2012-07-09 16:15"),
    ];
    for (text, from, wanted) in cases {
        assert_eq!(times(text, "UTC", from, 1)[0][4..], *wanted, "{text} after {from}");
    }
}

#[test]
fn a_day_is_either_of_two_only_when_both_are_said() {
    let days = |text: &str| times(text, "UTC", "2024-01-01T00:00:00Z", 3);
    assert_eq!(
        days("0 12 15 * Fri"),
        ["Fri 2024-01-05 12:00", "Fri 2024-01-12 12:00", "Mon 2024-01-15 12:00"]
    );
    assert_eq!(days("0 12 * * Fri")[2], "Fri 2024-01-19 12:00");
    assert_eq!(days("0 12 15 * *")[2], "Fri 2024-03-15 12:00");
    assert_eq!(days("0 12 */20 * Fri")[0], "Mon 2024-01-01 12:00", "a step says something");
}

#[test]
fn the_clock_of_the_zone_counts() {
    let berlin = |text: &str, from: &str| times(text, "Europe/Berlin", from, 2);
    assert_eq!(
        berlin("30 2 * * *", "2024-03-30T12:00:00Z"),
        ["Mon 2024-04-01 02:30", "Tue 2024-04-02 02:30"],
        "an hour that is not there is skipped"
    );
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let schedule = Schedule::parse("30 2 * * *", zone).unwrap();
    let first = schedule.next("2024-10-26T12:00:00Z".parse().unwrap()).unwrap();
    assert_eq!(first.to_string(), "2024-10-27T00:30:00Z");
    assert_eq!(schedule.next(first).unwrap().to_string(), "2024-10-27T01:30:00Z", "it comes twice");
    assert_eq!(berlin("0 9 * * *", "2024-01-01T07:59:00Z")[0], "Mon 2024-01-01 09:00");
}

#[test]
fn what_never_comes_is_said_to() {
    let schedule = Schedule::parse("59 23 31 2 *", TimeZone::UTC).unwrap();
    assert_eq!(schedule.next("2024-01-01T00:00:00Z".parse().unwrap()), None);
    assert!(
        schedule
            .latest("2024-01-01T00:00:00Z".parse().unwrap(), "2024-06-01T00:00:00Z".parse().unwrap())
            .is_none()
    );
}

#[test]
fn the_latest_time_is_found_however_long_ago() {
    let latest = |text: &str, after: &str, now: &str| {
        let schedule = Schedule::parse(text, TimeZone::UTC).unwrap();
        schedule
            .latest(after.parse().unwrap(), now.parse().unwrap())
            .map(|(at, missed)| (at.to_string(), missed))
    };
    let found = |at: &str, missed: i64| Some((at.to_owned(), missed));
    assert_eq!(latest("*/5 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:04:59Z"), None);
    assert_eq!(
        latest("*/5 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:05:00Z"),
        found("2024-01-01T00:05:00Z", 1)
    );
    assert_eq!(
        latest("0 * * * *", "2024-01-01T00:00:00Z", "2024-01-08T00:30:00Z"),
        found("2024-01-08T00:00:00Z", 168)
    );
    assert_eq!(
        latest("30 6-16/4 * * 1-5", "2024-01-01T00:00:00Z", "2024-01-07T12:00:00Z").unwrap().0,
        "2024-01-05T14:30:00Z"
    );
    assert_eq!(
        latest("@every 90s", "2024-01-01T00:00:10Z", "2024-01-01T00:05:00Z"),
        found("2024-01-01T00:04:40Z", 3)
    );
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("", "expected exactly 5 fields, found 0: []"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("0 0 0 0 0 0", "expected exactly 5 fields, found 6: [0 0 0 0 0 0]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x"),
        ("* * L * *", "failed to parse int from L"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", "failed to parse duration @every soon"),
    ];
    for (text, wanted) in cases {
        assert_eq!(Schedule::parse(text, TimeZone::UTC).unwrap_err(), wanted, "{text}");
    }
    assert!(zone(Some("Mars/Olympus")).is_err() && zone(None).is_ok());
}

#[test]
fn durations_are_those_of_go() {
    let cases = [
        ("1h30m", Some(5400)),
        ("1.5h", Some(5400)),
        ("300ms", Some(0)),
        ("2m3s", Some(123)),
        ("5", None),
        ("h", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(seconds(text), wanted, "{text}");
    }
}
