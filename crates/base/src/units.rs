//! Sizes and times with their units, as people write them in configuration and on the command line.

use crate::{Failure, Millis};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
/// Short forms: binary, as memory is counted everywhere.
const SHORT: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
const SPANS: [(&str, i64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A number of bytes, written `64MiB`, `64M` (the same), `1.5GB` or `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

/// A span of time, written `30s`, `1.5h` or `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Millis);

/// Splits `"1.5GiB"` into 1.5 and the factor of its unit.
fn scaled(text: &str, units: &[(&str, f64)], bare: f64, example: &str) -> Result<f64, Failure> {
    let refuse = || Failure::invalid(format!("{text:?} is not a quantity such as {example}"));
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| refuse())?;
    let unit = unit.trim();
    let factor = if unit.is_empty() {
        bare
    } else {
        units.iter().find(|(name, _)| *name == unit).ok_or_else(refuse)?.1
    };
    let value = number * factor;
    if value.is_finite() && value < 9.0e18 { Ok(value) } else { Err(refuse()) }
}

impl FromStr for Size {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        // Whole numbers of bytes stay exact beyond 2^53.
        if let Ok(bytes) = text.trim().parse() {
            return Ok(Self(bytes));
        }
        let units: Vec<_> = SIZES.iter().chain(&SHORT).map(|(name, bytes)| (*name, *bytes as f64)).collect();
        Ok(Self(scaled(text, &units, 1.0, "64MiB")? as u64))
    }
}

impl FromStr for Span {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let units = SPANS.map(|(name, ms)| (name, ms as f64));
        Ok(Self(Millis(scaled(text, &units, 1000.0, "30s")? as i64)))
    }
}

impl fmt::Display for Size {
    /// Exact: the largest binary unit that divides the size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZES[..4].iter().find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit));
        match exact {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for Span {
    /// Exact: the largest unit that divides the span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.0;
        let exact = SPANS.iter().rev().find(|(_, unit)| ms != 0 && ms % unit == 0).unwrap_or(&SPANS[0]);
        write!(f, "{}{}", ms / exact.1, exact.0)
    }
}

macro_rules! by_string {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = Failure;
            fn try_from(text: String) -> Result<Self, Failure> { text.parse() }
        }
        impl From<$name> for String {
            fn from(value: $name) -> Self { value.to_string() }
        }
    )*};
}
by_string!(Size, Span);

/// `bytes` for people: three significant figures and a binary unit, `1.50 GiB`.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    let Some((name, unit)) = SIZES[..4].iter().find(|(_, unit)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let value = bytes as f64 / *unit as f64;
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {name}")
}

/// The noun for a number of things: `noun(1, "file", "files")` is `file`.
#[must_use]
pub fn noun<'a>(number: u64, one: &'a str, many: &'a str) -> &'a str {
    if number == 1 { one } else { many }
}

/// A number of things: `1 file`, `2 files`. Every message that counts is written with it.
#[must_use]
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", noun(number, one, many))
}

/// `span` for people: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`.
#[must_use]
pub fn human_span(span: Millis) -> String {
    let seconds = span.as_seconds_f64().max(0.0);
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// `span` as coarse as it can be read at a glance: `12 s`, `3 min`, `2 h 07 min`, `5 d 3 h`.
#[must_use]
pub fn coarse_span(span: Millis) -> String {
    let seconds = span.0.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => human_span(span),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_units() {
        assert_eq!("64MiB".parse::<Size>().unwrap().0, 64 << 20);
        assert_eq!("1.5 GB".parse::<Size>().unwrap().0, 1_500_000_000);
        assert_eq!("50M".parse::<Size>().unwrap().0, 50 << 20);
        assert_eq!("30s".parse::<Span>().unwrap().0.0, 30_000);
        assert_eq!("2".parse::<Span>().unwrap().0.0, 2_000);
        for bad in ["", "MiB", "12 parsecs", "-3s", "1e9", "99999999999TiB"] {
            assert!(bad.parse::<Size>().is_err(), "{bad:?}");
        }
        assert_eq!(human_bytes(1_610_612_736), "1.50 GiB");
        assert_eq!(human_span(Millis(185_000)), "3 min 05 s");
        let coarse = [-5, 59_999, 185_000, 90_000_000, 200_000_000].map(|ms| coarse_span(Millis(ms)));
        assert_eq!(coarse, ["0 s", "59 s", "3 min", "25 h 00 min", "2 d 7 h"]);
    }

    proptest! {
        #[test]
        fn display_is_exact(bytes in 0u64..1 << 50, ms in 0i64..1 << 40) {
            prop_assert_eq!(Size(bytes).to_string().parse::<Size>().unwrap().0, bytes);
            prop_assert_eq!(Span(Millis(ms)).to_string().parse::<Span>().unwrap().0.0, ms);
        }
    }
}
