//! Points in time as `qsub -a` takes them: `[[[[CC]YY]MM]DD]hhmm[.SS]`.

use crate::shims::moment::Calendar;
use base::Timestamp;

/// Reads a time; without a date, the next such time.
pub(crate) fn read(text: &str, calendar: &Calendar, now: Timestamp) -> Option<Timestamp> {
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(digits)
        || !is_number(seconds)
        || seconds.len() != 2
        || !matches!(digits.len(), 4 | 6 | 8 | 10 | 12)
    {
        return None;
    }
    let (day, clock) = digits.split_at(digits.len() - 4);
    let clock = format!("{}:{}:{seconds}", &clock[..2], &clock[2..]);
    let today = calendar.day(now)?;
    if day.is_empty() {
        return calendar.read(&clock, now);
    }
    let (year, month) = (&today[..4], &today[5..7]);
    let date = match day.len() {
        2 => format!("{year}-{month}-{day}"),
        4 => format!("{year}-{}-{}", &day[..2], &day[2..]),
        6 => format!("{}{}-{}-{}", &year[..2], &day[..2], &day[2..4], &day[4..]),
        _ => format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..]),
    };
    calendar.read(&format!("{date}T{clock}"), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;

    #[test]
    fn times_are_read_as_posix_writes_them() {
        let site = sample::site();
        for (text, expected) in [
            ("0830", "2026-11-26T08:30:00"),
            ("0430", "2026-11-27T04:30:00"),
            ("0830.15", "2026-11-26T08:30:15"),
            ("280830", "2026-11-28T08:30:00"),
            ("12240830", "2026-12-24T08:30:00"),
            ("2712240830", "2027-12-24T08:30:00"),
            ("203012240830.59", "2030-12-24T08:30:59"),
        ] {
            let read = read(text, &site.calendar, site.now).map(|time| site.time(time));
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
        for text in ["", "83", "2530", "x", "0830.1", "13400830", "é830"] {
            assert_eq!(read(text, &site.calendar, site.now), None, "{text}");
        }
    }
}
