//! Dates as labels write them: `cyyddd` (`spec/tape.md` §2.5).

use base::{Failure, Timestamp};
use std::fmt;

const SECONDS_OF_DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01, for the civil calendar below.
const DAYS_TO_EPOCH: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;

/// A day between 1900 and 2999, as a label can say it: century, year, day of the year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelDate {
    year: u16,
    /// 1 is the first of January.
    day: u16,
}

impl LabelDate {
    /// The day that is `days` days after 1970-01-01; days that a label cannot say become the nearest that it can.
    #[must_use]
    pub fn from_days_since_epoch(days: i64) -> Self {
        let first = Self::new(1900, 1).expect("1900-01-01 is a day of the calendar");
        let last = Self::new(2999, 365).expect("2999-12-31 is a day of the calendar");
        let days = days.clamp(first.days_since_epoch(), last.days_since_epoch());
        let year = year_of(days);
        let day = days - days_before_year(year) + 1;
        Self { year: year as u16, day: day as u16 }
    }

    /// The day (UTC) that contains `now`.
    #[must_use]
    pub fn from_timestamp(now: Timestamp) -> Self {
        Self::from_days_since_epoch(now.seconds().div_euclid(SECONDS_OF_DAY))
    }

    /// Day `day` (from 1) of `year` (1900 to 2999).
    pub fn new(year: u16, day: u16) -> Result<Self, Failure> {
        let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        if (1900..=2999).contains(&year) && (1..=365 + u16::from(is_leap)).contains(&day) {
            return Ok(Self { year, day });
        }
        Err(Failure::invalid(format!("day {day} of year {year} is not a day from 1900 to 2999")))
    }

    /// When the day begins (UTC).
    #[must_use]
    pub fn begins(self) -> Timestamp {
        Timestamp(self.days_since_epoch() * SECONDS_OF_DAY * 1000)
    }

    /// Days since 1970-01-01; negative before it.
    #[must_use]
    pub fn days_since_epoch(self) -> i64 {
        days_before_year(i64::from(self.year)) + i64::from(self.day) - 1
    }

    /// The six characters `cyyddd`: c is a space for 19yy, 0 for 20yy, 1 for 21yy and so on.
    #[must_use]
    pub fn encode(self) -> String {
        let (century, year) = (self.year / 100, self.year % 100);
        let century = if century == 19 { ' ' } else { char::from(b'0' + (century - 20) as u8) };
        format!("{century}{year:02}{:03}", self.day)
    }

    /// Reads the six characters; `None` if they are no day.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let [century, digits @ ..] = text.as_bytes() else {
            return None;
        };
        if digits.len() != 5 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let century = match century {
            b' ' => 19,
            b'0'..=b'9' => 20 + u16::from(century - b'0'),
            _ => return None,
        };
        let number =
            |digits: &[u8]| digits.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
        Self::new(century * 100 + number(&digits[..2]), number(&digits[2..])).ok()
    }
}

impl fmt::Display for LabelDate {
    /// Year and day of the year, as ISO 8601 writes them: `2026-325`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:03}", self.year, self.day)
    }
}

/// Days from 1970-01-01 to the first of January of `year`.
fn days_before_year(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// The year that contains the day `days` after 1970-01-01 (civil calendar, counted in eras of 400 years from March).
fn year_of(days: i64) -> i64 {
    let shifted = days + DAYS_TO_EPOCH;
    let era = shifted.div_euclid(DAYS_OF_ERA);
    let day = shifted.rem_euclid(DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_from_march = day - (365 * year + year / 4 - year / 100);
    // January and February end the year that began in March.
    era * 400 + year + i64::from(day_from_march >= 306)
}
