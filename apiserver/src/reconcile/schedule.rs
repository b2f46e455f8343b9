//! The times of a CronJob, in the dialect of `robfig/cron`'s standard parser that Kubernetes promises: five fields, names
//! of months and days, ranges, steps, `?`, `@daily` and its like, `@every 1h30m`. It is written out here because the crates
//! for cron differ in what they take (seconds, `7`, `L`, `#`) and in when `*/2` and a day of the week both count.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// Years after which a time that did not come never will.
const HORIZON: i16 = 5;
const MINUTE: i64 = 60;

/// A schedule.
#[derive(Debug, Clone)]
pub(crate) enum Schedule {
    /// Again after a time, whole seconds.
    Every(SignedDuration),
    /// By the clock on the wall of a time zone.
    At(Clock, TimeZone),
}

/// What the clock shows when it is time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

/// The numbers of a field, and whether they are all because nothing was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    any: bool,
}

impl Field {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits & (1 << number) != 0)
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The numbers a field may have, and names for them from the least on.
struct Bounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { least: 0, most: 59, names: &[] };
const HOURS: Bounds = Bounds { least: 0, most: 23, names: &[] };
const DAYS: Bounds = Bounds { least: 1, most: 31, names: &[] };
const MONTH: Bounds = Bounds { least: 1, most: 12, names: &MONTHS };
const WEEKDAY: Bounds = Bounds { least: 0, most: 6, names: &WEEKDAYS };

/// The time zone of a name; without one, UTC.
pub(crate) fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    match name {
        None => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| format!("unknown time zone {name}")),
    }
}

impl Schedule {
    /// Reads a schedule; the error says what is wrong with it.
    pub(crate) fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => text,
        };
        if let Some(duration) = fields.strip_prefix("@every ") {
            let seconds = seconds(duration).ok_or_else(|| format!("failed to parse duration {text}"))?;
            return Ok(Self::Every(SignedDuration::from_secs(seconds.max(1))));
        }
        if fields.starts_with('@') {
            return Err(format!("unrecognized descriptor: {text}"));
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            let found = fields.join(" ");
            return Err(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
        };
        let clock = Clock {
            minute: field(minute, &MINUTES)?,
            hour: field(hour, &HOURS)?,
            day: field(day, &DAYS)?,
            month: field(month, &MONTH)?,
            weekday: field(weekday, &WEEKDAY)?,
        };
        Ok(Self::At(clock, zone))
    }

    /// The first time after `after`; `None` when there is none in five years.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(every) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*every).ok(),
            Self::At(clock, zone) => clock.next(after, zone),
        }
    }

    /// The last time after `after` and not after `now`, and about how many there were.
    pub(crate) fn latest(&self, after: Timestamp, now: Timestamp) -> Option<(Timestamp, i64)> {
        let first = self.next(after).filter(|first| *first <= now)?;
        let elapsed = now.as_second() - first.as_second();
        if let Self::Every(every) = self {
            let times = elapsed / every.as_secs();
            return Some((first.checked_add(*every * i32::try_from(times).ok()?).ok()?, times + 1));
        }
        // The latest is what follows the last second that is followed by anything before now.
        let (mut low, mut high) = (after.as_second(), now.as_second());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let next = self.next(Timestamp::from_second(middle).ok()?);
            if next.is_some_and(|next| next <= now) { low = middle } else { high = middle }
        }
        let latest = self.next(Timestamp::from_second(low).ok()?).filter(|latest| *latest <= now)?;
        let gap = self.next(first).map_or(i64::MAX, |second| second.as_second() - first.as_second());
        Some((latest, elapsed / gap.max(1) + 1))
    }
}

impl Clock {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let minute = after.as_second().div_euclid(MINUTE) + 1;
        let mut at = Timestamp::from_second(minute * MINUTE).ok()?;
        let horizon = at.to_zoned(zone.clone()).year() + HORIZON;
        loop {
            let shown = at.to_zoned(zone.clone());
            if shown.year() > horizon {
                return None;
            }
            let date = shown.date();
            at = if !self.month.has(date.month()) {
                midnight(date.first_of_month().checked_add(1.month()).ok()?, zone)?
            } else if !self.is_day(date) {
                midnight(date.tomorrow().ok()?, zone)?
            } else if !self.hour.has(shown.hour()) {
                // By time that passes, so that an hour the clock skips is skipped.
                at.checked_add(SignedDuration::from_secs((60 - i64::from(shown.minute())) * MINUTE)).ok()?
            } else if !self.minute.has(shown.minute()) {
                at.checked_add(SignedDuration::from_secs(MINUTE)).ok()?
            } else {
                return Some(at);
            };
        }
    }

    /// When both the day of the month and that of the week are said, either will do.
    fn is_day(&self, date: Date) -> bool {
        let day = self.day.has(date.day());
        let weekday = self.weekday.has(date.weekday().to_sunday_zero_offset());
        if self.day.any || self.weekday.any { day && weekday } else { day || weekday }
    }
}

fn midnight(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    Some(date.to_zoned(zone.clone()).ok()?.timestamp())
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let mut field = Field { bits: 0, any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((_, step)) if step.contains('/') => return Err(format!("too many slashes: {part}")),
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let (low, high) = range.split_once('-').map_or((range, None), |(low, high)| (low, Some(high)));
        let all = matches!(low, "*" | "?");
        let (start, end) = if all {
            (bounds.least, bounds.most)
        } else {
            let start = named(low, bounds)?;
            match high {
                Some(high) if high.contains('-') => return Err(format!("too many hyphens: {part}")),
                Some(high) => (start, named(high, bounds)?),
                // With a step it goes on to the end.
                None => (start, if step.is_some() { bounds.most } else { start }),
            }
        };
        let Bounds { least, most, .. } = bounds;
        if start < *least {
            return Err(format!("beginning of range ({start}) below minimum ({least}): {part}"));
        }
        if end > *most {
            return Err(format!("end of range ({end}) above maximum ({most}): {part}"));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
        field.any |= all && step == 1;
        let mut at = start;
        while at <= end {
            field.bits |= 1 << at;
            at = at.saturating_add(step);
        }
    }
    Ok(field)
}

fn named(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let known = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match known.and_then(|at| u32::try_from(at).ok()) {
        Some(at) => Ok(at + bounds.least),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("failed to parse int from {text}"))
}

/// A duration as Go writes it, in whole seconds.
fn seconds(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("h", 3600.0),
        ("m", 60.0),
        ("s", 1.0),
    ];
    let mut rest = text;
    let mut total = SignedDuration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let (unit, size) = UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit))?;
        total = total.checked_add(SignedDuration::try_from_secs_f64(amount * size).ok()?)?;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then(|| total.as_secs())
}

#[cfg(test)]
mod tests;
