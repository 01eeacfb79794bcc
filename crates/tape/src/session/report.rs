//! Reports of a session to the head, repeated while it cannot be reached.

use super::{Bay, Head};
use base::{ErrorKind, Millis, Result};
use std::time::{Duration, Instant};
use wire::control::Call;

/// How long a report is repeated while the head cannot be reached. What is not reported is done again.
const REPORT_DEADLINE: Duration = Duration::from_secs(300);
/// Longest wait between two tries of a report.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(15);

impl<H: Head, D> Bay<H, D> {
    /// Tells the head, again and again for a while if it cannot be reached.
    pub(super) fn report<C: Call>(&self, call: &C) -> Result<()> {
        let begun = Instant::now();
        let mut wait = Duration::from_millis(250);
        loop {
            let Err(failure) = self.head.call(call, Millis(0)) else {
                return Ok(());
            };
            let may_pass = matches!(
                failure.kind,
                ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Io
            );
            if !may_pass || begun.elapsed() + wait > REPORT_DEADLINE || self.stop.wait(wait) {
                return Err(failure.during(format_args!("report {}", C::NAME)));
            }
            wait = (wait * 2).min(RETRY_WAIT_MAX);
        }
    }
}
