//! The Gregorian calendar, UTC. Only this module computes with it; the arithmetic is that of the crate `time`.

use ::time::{Date, Month, Time, UtcDateTime};

/// 0000-01-01 and the end of 9999: all that four digits of year can say.
pub const CALENDAR_SECONDS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;
/// 1970-01-01 as a Julian day.
const EPOCH: i64 = 2_440_588;

/// A date and a time of day, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
}

impl Civil {
    /// The date of `seconds` since 1970-01-01; what four digits of year cannot say becomes the nearest that they can.
    #[must_use]
    pub fn of(seconds: i64) -> Self {
        let seconds = seconds.clamp(CALENDAR_SECONDS.start, CALENDAR_SECONDS.end - 1);
        let time = UtcDateTime::from_unix_timestamp(seconds).expect("these years are in the calendar");
        let (hour, minute, second) = time.as_hms();
        Self { year: time.year() as u16, month: time.month().into(), day: time.day(), hour, minute, second }
    }

    /// Seconds since 1970-01-01; none if the calendar has no such date, or the day no such time.
    #[must_use]
    pub fn seconds(self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second } = self;
        let date = Date::from_calendar_date(year.into(), Month::try_from(month).ok()?, day).ok()?;
        let time = Time::from_hms(hour, minute, second).ok()?;
        Some(UtcDateTime::new(date, time).unix_timestamp()).filter(|time| CALENDAR_SECONDS.contains(time))
    }

    /// `2026-11-21 10:16`, for people.
    #[must_use]
    pub fn to_the_minute(self) -> String {
        let Self { year, month, day, hour, minute, .. } = self;
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// A day as year and day of the year, as tape labels have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrdinalDate {
    /// Year, 0 to 9999.
    pub year: u16,
    /// 1 is the first of January.
    pub day: u16,
}

impl OrdinalDate {
    /// The day that is `days` after 1970-01-01; what four digits of year cannot say becomes the nearest that they can.
    #[must_use]
    pub fn of(days: i64) -> Self {
        let first = Self { year: 0, day: 1 }.days().expect("0000-001 is a day");
        let last = Self { year: 9999, day: 365 }.days().expect("9999-365 is a day");
        let julian = (days.clamp(first, last) + EPOCH) as i32;
        let date = Date::from_julian_day(julian).expect("these years are in the calendar");
        Self { year: date.year() as u16, day: date.ordinal() }
    }

    /// Days since 1970-01-01, negative before it; none if the year has no such day, or is behind 9999.
    #[must_use]
    pub fn days(self) -> Option<i64> {
        let date = Date::from_ordinal_date(self.year.into(), self.day).ok()?;
        Some(i64::from(date.to_julian_day()) - EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_dates() {
        let date = |year, month, day, hour, minute, second| Civil { year, month, day, hour, minute, second };
        for (seconds, civil) in [
            (784_111_777, date(1994, 11, 6, 8, 49, 37)),
            (951_782_400, date(2000, 2, 29, 0, 0, 0)),
            (-1, date(1969, 12, 31, 23, 59, 59)),
        ] {
            assert_eq!((Civil::of(seconds), civil.seconds()), (civil, Some(seconds)));
        }
        assert_eq!(Civil::of(i64::MIN), date(0, 1, 1, 0, 0, 0));
        assert_eq!(Civil::of(i64::MAX), date(9999, 12, 31, 23, 59, 59));
        assert_eq!(Civil::of(784_111_777).to_the_minute(), "1994-11-06 08:49");
        for none in [date(2001, 2, 29, 0, 0, 0), date(2001, 13, 1, 0, 0, 0), date(2001, 1, 1, 24, 0, 0)] {
            assert_eq!(none.seconds(), None, "{none:?}");
        }
        assert_eq!(OrdinalDate { year: 2023, day: 366 }.days(), None);
        assert_eq!(OrdinalDate::of(-1), OrdinalDate { year: 1969, day: 365 });
    }

    proptest! {
        #[test]
        fn round_trip(seconds in CALENDAR_SECONDS, next in 1i64..1_000_000_000) {
            prop_assert_eq!(Civil::of(seconds).seconds(), Some(seconds));
            let days = seconds.div_euclid(86_400);
            prop_assert_eq!(OrdinalDate::of(days).days(), Some(days));
            prop_assert!(Civil::of(seconds) <= Civil::of(seconds + next));
            prop_assert!(OrdinalDate::of(days) < OrdinalDate::of(days + 1) || days + 1 >= CALENDAR_SECONDS.end / 86_400);
        }
    }
}
