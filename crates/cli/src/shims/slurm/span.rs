//! Spans as Slurm writes them: limits, run times.

use base::Millis;

/// A wall limit from which on it is shown as none: ten years.
pub(crate) const UNLIMITED: Millis = Millis::from_seconds(3650 * 86_400);

/// How long a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// As long as the queue allows.
    Unlimited,
    /// So long.
    Span(Millis),
}

impl Limit {
    /// The wall limit that a job asks for.
    pub(crate) fn wall(self) -> Millis {
        match self {
            Self::Unlimited => UNLIMITED,
            Self::Span(span) => span,
        }
    }
}

/// Reads a limit: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`, or a word. Zero means no
/// limit.
pub(crate) fn limit(text: &str) -> Option<Limit> {
    let text = text.trim();
    if ["-1", "infinite", "unlimited"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(Limit::Unlimited);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<i64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let clock = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (Some(_), [hours]) => hours * 3600,
        (Some(_), [hours, minutes]) => hours * 3600 + minutes * 60,
        (_, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        _ => return None,
    };
    let seconds = days.unwrap_or(0) * 86_400 + clock;
    Some(if seconds == 0 { Limit::Unlimited } else { Limit::Span(Millis::from_seconds(seconds)) })
}

/// At most nine digits, so that no sum overflows.
fn number(text: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// `0:07`, `10:00`, `1:00:00`, `1-00:00:00`: as `squeue` and `sinfo` show it.
pub(crate) fn short(span: Millis) -> String {
    let (days, hours, minutes, seconds) = parts(span);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// `00:10:00`, `1-00:00:00`: as `sacct` and `scontrol` show it.
pub(crate) fn full(span: Millis) -> String {
    let (days, hours, minutes, seconds) = parts(span);
    let clock = format!("{hours:02}:{minutes:02}:{seconds:02}");
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

/// `00:01.250` below an hour, else as [`full`]: as `sacct` shows CPU time.
pub(crate) fn precise(span: Millis) -> String {
    let (days, hours, minutes, seconds) = parts(span);
    if days == 0 && hours == 0 {
        return format!("{minutes:02}:{seconds:02}.{:03}", span.0.max(0) % 1000);
    }
    full(span)
}

fn parts(span: Millis) -> (i64, i64, i64, i64) {
    let seconds = span.0.max(0) / 1000;
    (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_read_as_slurm_reads_them() {
        for (text, seconds) in [
            ("10", 600),
            ("1:30", 90),
            ("1:00:00", 3600),
            ("00:00:05", 5),
            ("2-3", 2 * 86_400 + 3 * 3600),
            ("2-3:4", 2 * 86_400 + 3 * 3600 + 240),
            ("2-3:4:5", 2 * 86_400 + 3 * 3600 + 245),
            (" 90 ", 5400),
        ] {
            assert_eq!(limit(text), Some(Limit::Span(Millis::from_seconds(seconds))), "{text}");
        }
        for text in ["0", "UNLIMITED", "infinite", "-1", "0:0:0"] {
            assert_eq!(limit(text), Some(Limit::Unlimited), "{text}");
        }
        for text in ["", "abc", "1:2:3:4", "1-", "-2", "1.5", "1-2-3", "99999999999", "+5", ":"] {
            assert_eq!(limit(text), None, "{text}");
        }
    }

    #[test]
    fn spans_are_shown_as_slurm_shows_them() {
        for (seconds, brief, whole) in [
            (0, "0:00", "00:00:00"),
            (67, "1:07", "00:01:07"),
            (3600, "1:00:00", "01:00:00"),
            (90_061, "1-01:01:01", "1-01:01:01"),
            (-5, "0:00", "00:00:00"),
        ] {
            let span = Millis::from_seconds(seconds);
            assert_eq!((short(span), full(span)), (brief.to_owned(), whole.to_owned()));
        }
        assert_eq!(precise(Millis(1250)), "00:01.250");
        assert_eq!(precise(Millis(3_600_250)), "01:00:00");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(seconds in 60i64..10_000_000) {
            let span = Millis::from_seconds(seconds);
            prop_assert_eq!(limit(&full(span)), Some(Limit::Span(span)));
        }

        #[test]
        fn nothing_makes_it_panic(text in "[-0-9:a-z]{0,30}") {
            let _ = limit(&text);
        }
    }
}
