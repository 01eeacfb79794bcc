//! How long tape requests and jobs had to wait, since the head started.

use base::{Histogram, Millis, Steps};
use std::time::Duration;

/// Waits that are over. A call whose group is not committed is counted all the same, and again when it is repeated.
#[derive(Debug)]
pub struct Waits {
    /// From the request of a tape copy until it was there.
    pub archives: Histogram,
    /// From the request of a recall until the file was online.
    pub recalls: Histogram,
    /// From the submission of a job until its program began to run for the first time.
    pub jobs: Histogram,
}

impl Default for Waits {
    fn default() -> Self {
        let waits = || Histogram::new(Steps::Waits);
        Self { archives: waits(), recalls: waits(), jobs: waits() }
    }
}

impl Waits {
    pub(crate) fn archived(&self, wait: Millis) {
        self.archives.note(duration(wait));
    }

    pub(crate) fn recalled(&self, wait: Millis) {
        self.recalls.note(duration(wait));
    }

    pub(crate) fn job_began(&self, wait: Millis) {
        self.jobs.note(duration(wait));
    }
}

/// A clock that was set back makes no negative wait.
fn duration(wait: Millis) -> Duration {
    Duration::from_millis(u64::try_from(wait.0).unwrap_or(0))
}
