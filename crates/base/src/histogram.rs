//! A histogram of durations with fixed buckets, updated without a lock.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds of the steps, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// From half a millisecond to ten minutes: answers to requests, some of which wait for a tape.
    Requests,
    /// From a second to two days: waits for a volume, a drive or a worker.
    Waits,
}

impl Steps {
    /// The bounds, rising.
    #[must_use]
    pub fn bounds(self) -> &'static [f64] {
        match self {
            Self::Requests => &[
                0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
                600.0,
            ],
            Self::Waits => &[
                1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 43_200.0,
                86_400.0, 172_800.0,
            ],
        }
    }
}

/// Longest list of bounds.
const STEPS_MAX: usize = 16;

/// Durations by step. All operations are relaxed: its figures need not agree with each other to the last one.
#[derive(Debug)]
pub struct Histogram {
    steps: Steps,
    /// By step; the last one is what took longer than all bounds.
    counts: [AtomicU64; STEPS_MAX + 1],
    sum_micros: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(Steps::Requests)
    }
}

impl Histogram {
    /// Nothing was counted yet.
    #[must_use]
    pub fn new(steps: Steps) -> Self {
        Self { steps, counts: Default::default(), sum_micros: AtomicU64::new(0) }
    }

    /// Counts one.
    pub fn note(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bounds = self.steps.bounds();
        let step = bounds.iter().position(|bound| seconds <= *bound).unwrap_or(STEPS_MAX);
        self.counts[step].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Each bound with how many took so long at most.
    pub fn up_to(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count.load(Relaxed);
            Some(*sum)
        });
        self.steps.bounds().iter().copied().zip(counts)
    }

    /// Number of durations counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Sum of the durations.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.sum_micros.load(Relaxed) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_one_step() {
        for steps in [Steps::Requests, Steps::Waits] {
            let bounds = steps.bounds();
            assert!(bounds.len() <= STEPS_MAX && bounds.is_sorted());
            let histogram = Histogram::new(steps);
            for bound in bounds {
                histogram.note(Duration::from_secs_f64(*bound));
            }
            histogram.note(Duration::MAX);
            let found: Vec<(f64, u64)> = histogram.up_to().collect();
            let expected: Vec<(f64, u64)> = bounds.iter().copied().zip(1..).collect();
            assert_eq!(found, expected);
            assert_eq!(histogram.total(), bounds.len() as u64 + 1);
        }
        let histogram = Histogram::default();
        histogram.note(Duration::from_millis(1500));
        assert_eq!(
            (histogram.seconds(), histogram.up_to().filter(|(_, count)| *count > 0).count()),
            (1.5, 5)
        );
    }
}
