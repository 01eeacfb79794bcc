//! Dates as labels write them: `cyyddd` (`spec/tape.md` §2.5).

use base::{Failure, OrdinalDate, Timestamp};
use std::fmt;

const SECONDS_OF_DAY: i64 = 86_400;
/// What a label can say.
const YEARS: std::ops::RangeInclusive<u16> = 1900..=2999;

/// A day between 1900 and 2999, as a label can say it: century, year, day of the year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelDate(OrdinalDate);

impl LabelDate {
    /// The day that is `days` days after 1970-01-01; days that a label cannot say become the nearest that it can.
    #[must_use]
    pub fn from_days_since_epoch(days: i64) -> Self {
        let first = Self::new(1900, 1).expect("1900-01-01 is a day of the calendar");
        let last = Self::new(2999, 365).expect("2999-12-31 is a day of the calendar");
        Self(OrdinalDate::of(days).clamp(first.0, last.0))
    }

    /// The day (UTC) that contains `now`.
    #[must_use]
    pub fn from_timestamp(now: Timestamp) -> Self {
        Self::from_days_since_epoch(now.seconds().div_euclid(SECONDS_OF_DAY))
    }

    /// Day `day` (from 1) of `year` (1900 to 2999).
    pub fn new(year: u16, day: u16) -> Result<Self, Failure> {
        let date = OrdinalDate { year, day };
        if YEARS.contains(&year) && date.days().is_some() {
            return Ok(Self(date));
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
        self.0.days().expect("a label has days of the calendar only")
    }

    /// The six characters `cyyddd`: c is a space for 19yy, 0 for 20yy, 1 for 21yy and so on.
    #[must_use]
    pub fn encode(self) -> String {
        let (century, year) = (self.0.year / 100, self.0.year % 100);
        let century = if century == 19 { ' ' } else { char::from(b'0' + (century - 20) as u8) };
        format!("{century}{year:02}{:03}", self.0.day)
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
        write!(f, "{:04}-{:03}", self.0.year, self.0.day)
    }
}
