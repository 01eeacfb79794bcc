//! Signals by name and number.

use nix::sys::signal::Signal;
use std::str::FromStr as _;

/// The highest number of a signal.
const NUMBER_MAX: i32 = 64;

/// Reads `9`, `KILL`, `SIGKILL` or `sigkill`.
pub(crate) fn number(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    if let Ok(number) = upper.parse::<i32>() {
        return (1..=NUMBER_MAX).contains(&number).then_some(number);
    }
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    Signal::from_str(&format!("SIG{name}")).ok().map(|signal| signal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, expected) in [
            ("9", Some(9)),
            ("KILL", Some(9)),
            ("SIGUSR2", Some(12)),
            ("sigterm", Some(15)),
            ("0", None),
            ("65", None),
            ("NOPE", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
