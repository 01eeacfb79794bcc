//! Dates of HTTP: IMF-fixdate (RFC 9110 §5.6.7), and the calendar under them.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: i64 = 86_400;
/// 0000-01-01 and the end of 9999: all that four digits of year can say.
const SECONDS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// A date of the Gregorian calendar and a time of day, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// Year, 0 to 9999.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: i64,
    /// Day, 1 to 31.
    pub day: i64,
    /// Hour, 0 to 23.
    pub hour: i64,
    /// Minute, 0 to 59.
    pub minute: i64,
    /// Second, 0 to 59.
    pub second: i64,
}

impl Civil {
    /// The date of `seconds` since 1970-01-01 UTC; what four digits of year cannot say becomes the nearest that they can.
    ///
    /// The calendar repeats every 400 years; counting years from March puts the leap day last (Hinnant, "chrono-compatible
    /// low-level date algorithms").
    #[must_use]
    pub fn of(seconds: i64) -> Self {
        let seconds = seconds.clamp(SECONDS.start, SECONDS.end - 1);
        let days = seconds.div_euclid(DAY_SECONDS) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let time = seconds.rem_euclid(DAY_SECONDS);
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
        }
    }

    /// Seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn seconds(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month_from_march = (self.month + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        days * DAY_SECONDS + self.hour * 3600 + self.minute * 60 + self.second
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` for `seconds` since 1970-01-01 UTC.
#[must_use]
pub fn http_date(seconds: i64) -> String {
    let seconds = seconds.clamp(SECONDS.start, SECONDS.end - 1);
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    let weekday = DAYS[seconds.div_euclid(DAY_SECONDS).rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Seconds since 1970 of an IMF-fixdate; none for anything else. The two obsolete forms, which no client in use sends,
/// count as anything else: a condition on such a date is ignored.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<i64> {
    let bytes: &[u8; 29] = text.as_bytes().try_into().ok()?;
    if !text.is_ascii() {
        return None;
    }
    let digits = |from: usize, to: usize| {
        let part = &bytes[from..to];
        let value = part.iter().fold(0, |value, byte| value * 10 + i64::from(byte.wrapping_sub(b'0')));
        part.iter().all(u8::is_ascii_digit).then_some(value)
    };
    let month = MONTHS.iter().position(|month| *month == &text[8..11])? as i64 + 1;
    let civil = Civil {
        year: digits(12, 16)?,
        month,
        day: digits(5, 7)?,
        hour: digits(17, 19)?,
        minute: digits(20, 22)?,
        second: digits(23, 25)?,
    };
    let seconds = civil.seconds();
    // Writing it again checks weekday, day of month, time of day and every separator at once.
    (http_date(seconds) == text).then_some(seconds)
}

/// Fuzz body: what is read is written the same.
pub fn fuzz_date(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(seconds) = parse_http_date(&text) {
        assert_eq!(http_date(seconds), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_dates() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(http_date(i64::MIN), "Sat, 01 Jan 0000 00:00:00 GMT");
    }

    #[test]
    fn wrong_dates_are_refused() {
        for bad in [
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 0ü Nov 1994 08:49:37 GM",
            "",
        ] {
            assert_eq!(parse_http_date(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(seconds in SECONDS) {
            prop_assert_eq!(Civil::of(seconds).seconds(), seconds);
            prop_assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds));
        }

        #[test]
        fn noise_never_panics(seconds in SECONDS, at in 0usize..29, byte: u8, raw in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut text = http_date(seconds).into_bytes();
            text[at] = byte;
            fuzz_date(&text);
            fuzz_date(&raw);
        }
    }
}
