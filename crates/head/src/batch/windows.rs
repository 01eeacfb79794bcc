//! Time windows of queues, as pure functions. Times are UTC.

use base::{Millis, Timestamp};
use wire::control::TimeWindow;

const MINUTE: i64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;
const WEEK_MINUTES: i64 = 7 * DAY_MINUTES;

/// Minutes of the week: 0 is Monday, midnight. The first of January 1970 was a Thursday.
fn minute_of_week(now: Timestamp) -> i64 {
    (now.0.div_euclid(MINUTE) + 3 * DAY_MINUTES).rem_euclid(WEEK_MINUTES)
}

/// Begins and lengths of a window, in minutes of the week.
fn spans(window: &TimeWindow) -> impl Iterator<Item = (i64, i64)> + '_ {
    let (opens, closes) = (i64::from(window.opens), i64::from(window.closes));
    let length = if closes > opens { closes - opens } else { closes + DAY_MINUTES - opens };
    let days = (0..7).filter(|day| window.days.is_empty() || window.days.contains(&(*day as u8 + 1)));
    days.map(move |day| (day * DAY_MINUTES + opens, length))
}

/// Whether one of the windows is open; without windows it always is.
pub(crate) fn is_open(windows: &[TimeWindow], now: Timestamp) -> bool {
    let minute = minute_of_week(now);
    windows.is_empty()
        || windows
            .iter()
            .flat_map(spans)
            .any(|(begin, length)| (minute - begin).rem_euclid(WEEK_MINUTES) < length)
}

/// When the first of the windows opens that is closed now.
pub(crate) fn opens_in(windows: &[TimeWindow], now: Timestamp) -> Option<Millis> {
    let minute = minute_of_week(now);
    let minutes = windows
        .iter()
        .flat_map(spans)
        .map(|(begin, _)| (begin - minute - 1).rem_euclid(WEEK_MINUTES) + 1)
        .min()?;
    Some(Millis(minutes * MINUTE - now.0.rem_euclid(MINUTE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Thursday, 1970-01-01.
    fn at(day: i64, hour: i64, minute: i64) -> Timestamp {
        Timestamp(((day * 24 + hour) * 60 + minute) * MINUTE)
    }

    #[test]
    fn a_night_goes_on_until_the_next_morning() {
        let nights = [TimeWindow { days: vec![4], opens: 22 * 60, closes: 6 * 60 }];
        assert!(!is_open(&nights, at(0, 21, 59)) && is_open(&nights, at(0, 22, 0)));
        assert!(is_open(&nights, at(1, 5, 59)) && !is_open(&nights, at(1, 6, 0)));
        assert!(!is_open(&nights, at(1, 23, 0)), "that is Friday's night");
        assert_eq!(opens_in(&nights, at(0, 21, 0)), Some(Millis(60 * MINUTE)));
        assert_eq!(opens_in(&nights, at(1, 22, 0)), Some(Millis(6 * DAY_MINUTES * MINUTE)));
        assert!(is_open(&[], at(0, 0, 0)) && opens_in(&[], at(0, 0, 0)).is_none());
    }

    proptest! {
        #[test]
        fn a_closed_window_is_open_when_it_is_said_to_open(
            days in prop::collection::vec(1u8..=7, 0..3), opens in 0u16..1440, length in 1u16..1440, now in 0i64..2_000_000_000_000,
        ) {
            let windows = [TimeWindow { days, opens, closes: (opens + length) % 1440 }];
            let now = Timestamp(now);
            let wait = opens_in(&windows, now).unwrap();
            prop_assert!(wait.0 > 0 && wait.0 <= WEEK_MINUTES * MINUTE);
            prop_assert!(is_open(&windows, now + wait));
            if !is_open(&windows, now) {
                prop_assert!(!is_open(&windows, Timestamp(now.0 + wait.0 - 1)));
            }
        }
    }
}
