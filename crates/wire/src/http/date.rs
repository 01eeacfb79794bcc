//! Dates of HTTP: IMF-fixdate (RFC 9110 §5.6.7).

use base::{CALENDAR_SECONDS, Civil};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: i64 = 86_400;
/// `Sun, 06 Nov 1994 08:49:37 GMT` for `seconds` since 1970-01-01 UTC.
#[must_use]
pub fn http_date(seconds: i64) -> String {
    let seconds = seconds.clamp(CALENDAR_SECONDS.start, CALENDAR_SECONDS.end - 1);
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    let weekday = DAYS[seconds.div_euclid(DAY_SECONDS).rem_euclid(7) as usize];
    let month = MONTHS[usize::from(month) - 1];
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
        let value = |part: &[u8]| part.iter().fold(0, |value, byte| value * 10 + u16::from(byte - b'0'));
        part.iter().all(u8::is_ascii_digit).then(|| value(part))
    };
    let month = MONTHS.iter().position(|month| *month == &text[8..11])? as u8 + 1;
    let civil = Civil {
        year: digits(12, 16)?,
        month,
        day: digits(5, 7)? as u8,
        hour: digits(17, 19)? as u8,
        minute: digits(20, 22)? as u8,
        second: digits(23, 25)? as u8,
    };
    let seconds = civil.seconds()?;
    // Writing it again checks weekday and every separator at once.
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
        fn round_trip(seconds in CALENDAR_SECONDS) {
            prop_assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds));
        }

        #[test]
        fn noise_never_panics(seconds in CALENDAR_SECONDS, at in 0usize..29, byte: u8, raw in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut text = http_date(seconds).into_bytes();
            text[at] = byte;
            fuzz_date(&text);
            fuzz_date(&raw);
        }
    }
}
