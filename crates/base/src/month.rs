//! Months of the calendar, as accounts are kept by.

use crate::{Failure, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

const MS_OF_DAY: i64 = 86_400_000;
/// Days from 0000-03-01 to 1970-01-01, in the calendar whose years begin in March.
const DAYS_TO_EPOCH: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;
/// 9999-12-31, in days since 1970-01-01.
const LAST_DAY: i64 = 2_932_896;

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
        let days = now.0.div_euclid(MS_OF_DAY).clamp(0, LAST_DAY) + DAYS_TO_EPOCH;
        let (era, day) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let from_march = (5 * day + 2) / 153;
        // January and February end the year that began in March.
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + year + i64::from(month <= 2);
        Self { year: year as u16, month: month as u8 }
    }

    /// When it begins; [`Self::EARLIER`] begins before everything.
    #[must_use]
    pub fn start(self) -> Timestamp {
        if self == Self::EARLIER {
            return Timestamp(i64::MIN);
        }
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let year = year - i64::from(month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * from_march + 2) / 5;
        Timestamp((era * DAYS_OF_ERA + days - DAYS_TO_EPOCH) * MS_OF_DAY)
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

    /// As one number, in order: 202611; [`Self::EARLIER`] is 0.
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
