//! Calendar months, the periods of accounts.

use crate::{Civil, Failure, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A month (UTC) from 1970 to 9999, written `2026-11`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Month {
    /// 0: the time before months were counted.
    year: u16,
    /// 1 is January.
    month: u8,
}

impl Month {
    /// What was counted before accounts were kept by month; written `earlier`.
    pub const EARLIER: Self = Self { year: 0, month: 0 };

    /// The month that contains `now`; times that the calendar cannot say become the nearest that it can.
    #[must_use]
    pub fn of(now: Timestamp) -> Self {
        let Civil { year, month, .. } = Civil::of(now.seconds().max(0));
        Self { year, month }
    }

    /// When it begins; [`Self::EARLIER`] begins before everything.
    #[must_use]
    pub fn start(self) -> Timestamp {
        if self == Self::EARLIER {
            return Timestamp(i64::MIN);
        }
        let Self { year, month } = self;
        let first = Civil { year, month, day: 1, hour: 0, minute: 0, second: 0 };
        Timestamp(first.seconds().expect("every month has a first day") * 1000)
    }

    /// The month after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self { year: 0, .. } => Self { year: 1970, month: 1 },
            Self { year, month: 12 } => Self { year: year + 1, month: 1 },
            Self { year, month } => Self { year, month: month + 1 },
        }
    }

    /// The month as a number that sorts by time: 202611. [`Self::EARLIER`] is 0.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.year) * 100 + u32::from(self.month)
    }

    /// The month that has this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let (year, month) = (number / 100, number % 100);
        match number {
            0 => Some(Self::EARLIER),
            _ if (1970..=9999).contains(&year) && (1..=12).contains(&month) => {
                Some(Self { year: year as u16, month: month as u8 })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { year: 0, .. } => f.write_str("earlier"),
            Self { year, month } => write!(f, "{year:04}-{month:02}"),
        }
    }
}

impl FromStr for Month {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text == "earlier" {
            return Ok(Self::EARLIER);
        }
        let is_shaped = text.len() == 7
            && text
                .bytes()
                .enumerate()
                .all(|(at, byte)| if at == 4 { byte == b'-' } else { byte.is_ascii_digit() });
        let number = if is_shaped { text.replace('-', "").parse().ok() } else { None };
        let month = number.filter(|number| *number > 0).and_then(Self::from_number);
        month.ok_or_else(|| Failure::invalid(format!("{text:?} is not a month")).hint("write it as 2026-11"))
    }
}

impl TryFrom<String> for Month {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<Month> for String {
    fn from(month: Month) -> Self {
        month.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_OF_DAY: i64 = 86_400_000;
    /// 9999-12-31, in days since 1970-01-01.
    const LAST_DAY: i64 = 2_932_896;

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let mut month = Month::from_number(197_001).unwrap();
        assert_eq!(month.start(), Timestamp(0));
        let mut days = 0;
        while month < Month::from_number(999_912).unwrap() {
            let (start, next) = (month.start(), month.next());
            assert_eq!(Month::of(start), month);
            assert_eq!(Month::of(Timestamp(next.start().0 - 1)), month);
            assert_eq!(Month::of(next.start()), next);
            let length = (next.start() - start).0 / MS_OF_DAY;
            assert!((28..=31).contains(&length), "{month} has {length} days");
            assert_eq!(Month::from_number(month.number()), Some(month));
            assert_eq!(month.to_string().parse::<Month>().unwrap(), month);
            days += length;
            month = next;
        }
        assert_eq!(days + 30, LAST_DAY, "the last month begins 30 days before the last day");
    }

    #[test]
    fn known_months() {
        let month = |ms| Month::of(Timestamp(ms)).to_string();
        // 2024-02-29T23:59:59.999Z and the millisecond after it.
        assert_eq!(
            (month(1_709_251_199_999), month(1_709_251_200_000)),
            ("2024-02".into(), "2024-03".into())
        );
        assert_eq!((month(i64::MIN), month(i64::MAX)), ("1970-01".into(), "9999-12".into()));
        assert!(Month::EARLIER < Month::of(Timestamp(0)) && Month::EARLIER.start() < Timestamp(0));
    }

    #[test]
    fn what_is_no_month_is_refused() {
        for bad in ["", "2026", "2026-13", "2026-00", "0000-00", "26-11", "2026-1", "2026+11", "2026-111"] {
            assert!(bad.parse::<Month>().is_err(), "{bad}");
        }
        assert_eq!("earlier".parse::<Month>().unwrap(), Month::EARLIER);
    }
}
