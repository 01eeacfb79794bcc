//! Points in time as plain numbers, so that decisions take `now` as an argument.

use crate::Civil;
use serde::{Deserialize, Serialize};
use std::{
    ops::{Add, Sub},
    sync::Arc,
};

/// Reads the time. Injected, so that nothing reads a clock by itself and tests and simulations can set it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// Nanoseconds since 1970-01-01 UTC, as POSIX has the times of files: from the year 1677 to 2262.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoTime(pub i64);

/// A span in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Timestamp {
    /// Whole seconds since 1970, as XRootD's stat and POSIX want.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Its date and time of day, UTC.
    #[must_use]
    pub fn civil(self) -> Civil {
        Civil::of(self.seconds())
    }

    /// `now` read from a system clock reading.
    #[must_use]
    pub fn from_system(now: std::time::SystemTime) -> Self {
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Nanoseconds of a second, and of a millisecond.
const NANOS: (i64, i64) = (1_000_000_000, 1_000_000);

impl NanoTime {
    /// The time that `timespec` has; the nearest one that can be told, if it cannot be.
    #[must_use]
    pub fn of_timespec(seconds: i64, nanoseconds: u32) -> Self {
        Self(seconds.saturating_mul(NANOS.0).saturating_add(nanoseconds.into()))
    }

    /// Whole seconds, and nanoseconds of the next one.
    #[must_use]
    pub fn timespec(self) -> (i64, u32) {
        (self.0.div_euclid(NANOS.0), self.0.rem_euclid(NANOS.0) as u32)
    }

    /// Whole milliseconds, and nanoseconds of the next one.
    #[must_use]
    pub fn parts(self) -> (Timestamp, u32) {
        (Timestamp(self.0.div_euclid(NANOS.1)), self.0.rem_euclid(NANOS.1) as u32)
    }

    /// Milliseconds, and nanoseconds of the next one.
    #[must_use]
    pub fn of_parts(time: Timestamp, nanoseconds: u32) -> Self {
        Self(time.0.saturating_mul(NANOS.1).saturating_add(nanoseconds.into()))
    }
}

impl From<Timestamp> for NanoTime {
    fn from(time: Timestamp) -> Self {
        Self::of_parts(time, 0)
    }
}

impl Millis {
    /// `seconds` as a span.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1000)
    }

    /// The span in seconds.
    #[must_use]
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;

    fn sub(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}
