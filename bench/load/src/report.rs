//! What is counted, and the one line that is printed.

use serde::Serialize;
use std::time::Duration;

/// Latencies that one session keeps; beyond, every further one replaces an old one.
const LATENCIES_MAX: usize = 1 << 20;

/// What one session did.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were answered; an open with its close is one.
    pub(crate) items: u64,
    /// Those of them that were sent elsewhere.
    pub(crate) redirected: u64,
    /// Bytes of files that were moved.
    pub(crate) bytes: u64,
    /// From the first request to the first byte of its answer.
    pub(crate) first_byte: Option<Duration>,
    latencies_ns: Vec<u64>,
}

impl Tally {
    /// Counts a request.
    pub(crate) fn take(&mut self, bytes: u64, latency: Duration) {
        let nanoseconds = latency.as_nanos() as u64;
        let place = self.items as usize % LATENCIES_MAX;
        if place < self.latencies_ns.len() {
            self.latencies_ns[place] = nanoseconds;
        } else {
            self.latencies_ns.push(nanoseconds);
        }
        self.items += 1;
        self.bytes += bytes;
    }
}

/// Quantiles of a time, in microseconds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Quantiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    /// The quantiles of times in nanoseconds, by nearest rank; zeros without any.
    fn of(mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        let rank = |percent: usize| (times_ns.len() * percent).div_ceil(100).saturating_sub(1);
        let microseconds = |percent| times_ns.get(rank(percent)).map_or(0.0, |time| *time as f64 / 1e3);
        Self { p50: microseconds(50), p90: microseconds(90), p99: microseconds(99), max: microseconds(100) }
    }
}

/// How evenly the sessions were served: bytes (or, where none move, requests) of a session.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Shares {
    min: u64,
    median: u64,
    max: u64,
}

/// The measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The mode's word.
    pub(crate) mode: &'static str,
    /// Sessions that were asked for.
    pub(crate) sessions: usize,
    /// Threads that they shared.
    pub(crate) threads: usize,
    /// Requests answered.
    pub(crate) operations: u64,
    /// Those of them that were answered with where to ask.
    pub(crate) redirected: u64,
    /// Bytes of files moved.
    pub(crate) bytes: u64,
    /// From the first request to the last answer.
    pub(crate) seconds: f64,
    /// Requests a second.
    pub(crate) operations_per_s: f64,
    /// Bytes a second.
    pub(crate) bytes_per_s: f64,
    /// Processor time of this process meanwhile.
    pub(crate) client_cpu_s: f64,
    /// From a request to the end of its answer.
    pub(crate) latency_us: Quantiles,
    /// From a session's first request to its first byte.
    pub(crate) first_byte_us: Quantiles,
    /// To connect, log in and open.
    pub(crate) setup_us: Quantiles,
    /// How evenly the sessions were served.
    pub(crate) share: Shares,
    /// Sessions that failed.
    pub(crate) failed: usize,
    /// Why, of the first few.
    pub(crate) failures: Vec<String>,
}

/// The times of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// Processor time of this process meanwhile.
    pub(crate) client_cpu: Duration,
}

impl Report {
    /// Puts the tallies together.
    pub(crate) fn new(mode: &'static str, tallies: Vec<Tally>, setups: &[Duration], times: Times) -> Self {
        let operations = tallies.iter().map(|tally| tally.items).sum::<u64>();
        let bytes = tallies.iter().map(|tally| tally.bytes).sum::<u64>();
        let seconds = times.elapsed.as_secs_f64();
        let first_bytes = tallies.iter().filter_map(|tally| tally.first_byte);
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let first_byte_us = Quantiles::of(first_bytes.map(nanoseconds).collect());
        let mut shares: Vec<_> =
            tallies.iter().map(|tally| if bytes > 0 { tally.bytes } else { tally.items }).collect();
        shares.sort_unstable();
        let share = Shares {
            min: shares.first().copied().unwrap_or(0),
            median: shares.get(shares.len() / 2).copied().unwrap_or(0),
            max: shares.last().copied().unwrap_or(0),
        };
        Self {
            mode,
            sessions: tallies.len(),
            threads: 1,
            operations,
            redirected: tallies.iter().map(|tally| tally.redirected).sum(),
            bytes,
            seconds,
            operations_per_s: operations as f64 / seconds,
            bytes_per_s: bytes as f64 / seconds,
            client_cpu_s: times.client_cpu.as_secs_f64(),
            latency_us: Quantiles::of(tallies.into_iter().flat_map(|tally| tally.latencies_ns).collect()),
            first_byte_us,
            setup_us: Quantiles::of(setups.iter().copied().map(nanoseconds).collect()),
            share,
            failed: 0,
            failures: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let quantiles = Quantiles::of((1..=1000).rev().map(|us| us * 1000).collect());
        let shown = |quantiles: &Quantiles| serde_json::to_string(quantiles).unwrap();
        assert_eq!(shown(&quantiles), r#"{"p50":500.0,"p90":900.0,"p99":990.0,"max":1000.0}"#);
        assert_eq!(shown(&Quantiles::of(vec![7000])), r#"{"p50":7.0,"p90":7.0,"p99":7.0,"max":7.0}"#);
        assert_eq!(shown(&Quantiles::of(Vec::new())), r#"{"p50":0.0,"p90":0.0,"p99":0.0,"max":0.0}"#);
    }

    #[test]
    fn memory_of_latencies_is_bounded() {
        let mut tally = Tally::default();
        for _ in 0..LATENCIES_MAX + 3 {
            tally.take(2, Duration::from_nanos(5));
        }
        assert_eq!(tally.latencies_ns.len(), LATENCIES_MAX);
        assert_eq!(tally.bytes, 2 * tally.items);
    }
}
