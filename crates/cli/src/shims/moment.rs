//! Points in time as Slurm writes them, in the time zone of the user.

use base::{Millis, Timestamp};
use chrono::{
    DateTime, Datelike as _, Days, FixedOffset, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone as _,
};
use std::fmt::Write as _;

/// The format of times if nothing else is asked for.
const STANDARD: &str = "%Y-%m-%dT%H:%M:%S";
const DAY: Millis = Millis::from_seconds(86_400);

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// That of the user.
    Here,
    /// The same all year.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests do not depend on where they run"))]
    Fixed(FixedOffset),
}

impl Zone {
    fn at(self, time: Timestamp) -> Option<DateTime<FixedOffset>> {
        match self {
            Self::Here => Local.timestamp_millis_opt(time.0).single().map(|here| here.fixed_offset()),
            Self::Fixed(offset) => offset.timestamp_millis_opt(time.0).single(),
        }
    }

    /// In the hour that a change of clocks skips there is no such time; the hour that comes twice means its first.
    fn stamp(self, civil: NaiveDateTime) -> Option<Timestamp> {
        let found = match self {
            Self::Here => Local.from_local_datetime(&civil).earliest().map(|here| here.timestamp_millis()),
            Self::Fixed(offset) => {
                offset.from_local_datetime(&civil).earliest().map(|there| there.timestamp_millis())
            }
        };
        found.map(Timestamp)
    }
}

/// Shows and reads times in a time zone.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    zone: Zone,
    format: String,
}

impl Calendar {
    /// `format` is the value of `SLURM_TIME_FORMAT`: `standard`, or as for `strftime`.
    pub(crate) fn new(zone: Zone, format: Option<&str>) -> Self {
        let format = format.filter(|format| !matches!(*format, "" | "standard" | "relative"));
        Self { zone, format: format.unwrap_or(STANDARD).to_owned() }
    }

    /// As all commands show it.
    pub(crate) fn show(&self, time: Timestamp) -> String {
        self.formatted(time, &self.format).or_else(|| self.formatted(time, STANDARD)).unwrap_or_default()
    }

    /// `Thu Nov 26 05:17:55 2026`: above long tables.
    pub(crate) fn heading(&self, time: Timestamp) -> String {
        self.formatted(time, "%a %b %e %H:%M:%S %Y").unwrap_or_default()
    }

    /// `2026-11-26`
    pub(crate) fn day(&self, time: Timestamp) -> Option<String> {
        self.formatted(time, "%Y-%m-%d")
    }

    /// None if the format means nothing.
    fn formatted(&self, time: Timestamp, format: &str) -> Option<String> {
        let time = self.zone.at(time)?;
        let mut text = String::new();
        write!(text, "{}", time.format(format)).ok()?;
        Some(text)
    }

    /// Reads a point in time: `now`, `now+2hours`, `today`, `noon`, `16:30`, `2026-11-26T05:17`, `11/26`.
    pub(crate) fn read(&self, text: &str, now: Timestamp) -> Option<Timestamp> {
        let text = text.trim();
        if let Some(rest) = strip_word(text, "now") {
            return Some(if rest.is_empty() { now } else { now + shift(rest)? });
        }
        self.zone.stamp(civil(text, self.zone.at(now)?.naive_local())?)
    }

    /// The beginning of the day.
    pub(crate) fn midnight(&self, now: Timestamp) -> Timestamp {
        let here = self.zone.at(now).map(|here| here.date_naive().and_time(NaiveTime::MIN));
        here.and_then(|midnight| self.zone.stamp(midnight)).unwrap_or(now + Millis(-DAY.0))
    }
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

/// `+2hours`, `-30`, `+1day`; a number without a unit counts seconds.
fn shift(text: &str) -> Option<Millis> {
    let (sign, text) = match text.trim_start().split_at_checked(1)? {
        ("+", rest) => (1, rest.trim_start()),
        ("-", rest) => (-1, rest.trim_start()),
        _ => return None,
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: i64 = text[..digits].parse().ok().filter(|count| *count < 1_000_000_000)?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let seconds = match unit.as_str() {
        "" => 1,
        unit if is_begin(unit, "seconds", 1) => 1,
        unit if is_begin(unit, "minutes", 1) => 60,
        unit if is_begin(unit, "hours", 1) => 3600,
        unit if is_begin(unit, "days", 1) => 86_400,
        unit if is_begin(unit, "weeks", 1) => 7 * 86_400,
        _ => return None,
    };
    Some(Millis::from_seconds(sign * count * seconds))
}

fn is_begin(text: &str, word: &str, len_min: usize) -> bool {
    text.len() >= len_min && word.starts_with(text)
}

/// A date, a time of day, or both. A time of day that has passed means tomorrow.
fn civil(text: &str, now: NaiveDateTime) -> Option<NaiveDateTime> {
    if let Some((day, clock)) = text.split_once(['T', ' '])
        && let (Some(day), Some(clock)) = (date(day, now.date()), time_of_day(clock))
    {
        return Some(day.and_time(clock));
    }
    let next = |clock: NaiveTime| {
        let day = if clock < now.time() { now.date().checked_add_days(Days::new(1))? } else { now.date() };
        Some(day.and_time(clock))
    };
    match text.to_ascii_lowercase().as_str() {
        "today" => Some(now.date().and_time(NaiveTime::MIN)),
        "tomorrow" => Some(now.date().checked_add_days(Days::new(1))?.and_time(NaiveTime::MIN)),
        "midnight" => Some(now.date().checked_add_days(Days::new(1))?.and_time(NaiveTime::MIN)),
        "noon" => next(NaiveTime::from_hms_opt(12, 0, 0)?),
        "elevenses" => next(NaiveTime::from_hms_opt(11, 0, 0)?),
        "fika" => next(NaiveTime::from_hms_opt(15, 0, 0)?),
        "teatime" => next(NaiveTime::from_hms_opt(16, 0, 0)?),
        _ => match time_of_day(text) {
            Some(clock) => next(clock),
            None => Some(date(text, now.date())?.and_time(NaiveTime::MIN)),
        },
    }
}

/// `16:30`, `16:30:05`, `4:30PM`.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    let lower = text.trim().to_ascii_lowercase();
    let (clock, shift) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end(), Some(0)),
        (_, Some(clock)) => (clock.trim_end(), Some(12)),
        _ => (lower.as_str(), None),
    };
    let parts: Vec<u32> = clock.split(':').map(|part| small(part, 2)).collect::<Option<_>>()?;
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    match shift {
        None => NaiveTime::from_hms_opt(hour, minute, second),
        Some(shift) if (1..=12).contains(&hour) => NaiveTime::from_hms_opt(hour % 12 + shift, minute, second),
        Some(_) => None,
    }
}

/// `2026-11-26`, `11/26/26`, `11.26`, `112626`, `1126`. Without a year, the next such day.
fn date(text: &str, today: NaiveDate) -> Option<NaiveDate> {
    if let Some((year, rest)) = text.split_once('-') {
        let (month, day) = rest.split_once('-')?;
        return NaiveDate::from_ymd_opt(small(year, 4)? as i32, small(month, 2)?, small(day, 2)?);
    }
    let parts: Vec<&str> = if text.contains(['/', '.']) {
        text.split(['/', '.']).collect()
    } else if text.is_ascii() && matches!(text.len(), 4 | 6) {
        [&text[..2], &text[2..4], &text[4..]].into_iter().filter(|part| !part.is_empty()).collect()
    } else {
        return None;
    };
    let (month, day) = (small(parts.first()?, 2)?, small(parts.get(1)?, 2)?);
    match parts.as_slice() {
        [_, _] => {
            let found = NaiveDate::from_ymd_opt(today.year(), month, day)?;
            if found < today { NaiveDate::from_ymd_opt(today.year() + 1, month, day) } else { Some(found) }
        }
        [_, _, year] if year.len() == 2 => NaiveDate::from_ymd_opt(2000 + small(year, 2)? as i32, month, day),
        [_, _, year] => NaiveDate::from_ymd_opt(small(year, 4)? as i32, month, day),
        _ => None,
    }
}

/// A number of at most so many digits.
fn small(text: &str, digits_max: usize) -> Option<u32> {
    let is_number = (1..=digits_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Thursday 2026-11-26 05:17:53 UTC.
    const NOW: Timestamp = Timestamp(1_795_670_273_000);

    fn calendar(format: Option<&str>) -> Calendar {
        Calendar::new(Zone::Fixed(FixedOffset::east_opt(3600).unwrap()), format)
    }

    #[test]
    fn times_are_shown_in_the_zone_of_the_user() {
        assert_eq!(calendar(None).show(NOW), "2026-11-26T06:17:53");
        assert_eq!(calendar(Some("standard")).show(NOW), "2026-11-26T06:17:53");
        assert_eq!(calendar(Some("%s")).show(NOW), "1795670273");
        assert_eq!(calendar(Some("%d.%m. %H:%M")).show(NOW), "26.11. 06:17");
        assert_eq!(calendar(Some("%!")).show(NOW), "2026-11-26T06:17:53", "a format that means nothing");
        assert_eq!(calendar(None).heading(NOW), "Thu Nov 26 06:17:53 2026");
    }

    #[test]
    fn times_are_read_as_slurm_reads_them() {
        let calendar = calendar(None);
        for (text, shown) in [
            ("now", "2026-11-26T06:17:53"),
            ("now+1hour", "2026-11-26T07:17:53"),
            ("now-2days", "2026-11-24T06:17:53"),
            ("now+90", "2026-11-26T06:19:23"),
            ("now + 2 weeks", "2026-12-10T06:17:53"),
            ("today", "2026-11-26T00:00:00"),
            ("tomorrow", "2026-11-27T00:00:00"),
            ("midnight", "2026-11-27T00:00:00"),
            ("noon", "2026-11-26T12:00:00"),
            ("16:30", "2026-11-26T16:30:00"),
            ("05:00", "2026-11-27T05:00:00"),
            ("4:30PM", "2026-11-26T16:30:00"),
            ("12:05am", "2026-11-27T00:05:00"),
            ("2026-11-24T10:00", "2026-11-24T10:00:00"),
            ("2026-11-24T10:00:07", "2026-11-24T10:00:07"),
            ("2026-11-24", "2026-11-24T00:00:00"),
            ("12/24", "2026-12-24T00:00:00"),
            ("01.02", "2027-01-02T00:00:00"),
            ("122427", "2027-12-24T00:00:00"),
            ("12/24/2028", "2028-12-24T00:00:00"),
        ] {
            let read = calendar.read(text, NOW).map(|time| calendar.show(time));
            assert_eq!(read.as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            "bogus",
            "nowish",
            "now+",
            "now+x",
            "25:00",
            "13:00pm",
            "2026-13-01",
            "13/40",
            "now+5parsecs",
            "é",
        ] {
            assert_eq!(calendar.read(text, NOW), None, "{text}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight() {
        assert_eq!(calendar(None).show(calendar(None).midnight(NOW)), "2026-11-26T00:00:00");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,20}", more in "[-0-9/.:TampnowÄ+ ]{0,20}") {
            let _ = (calendar(None).read(&text, NOW), calendar(Some(&text)).show(NOW), calendar(None).read(&more, NOW));
        }
    }
}
