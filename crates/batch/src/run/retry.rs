//! Which failures may pass, and copies that are tried again until they do.

use super::Run;
use crate::room::{Backoff, Shared};
use base::{ErrorKind, Failure, Result};
use std::time::{Duration, Instant};
use tracing::warn;

/// Whether what failed may go well later.
pub(crate) fn can_pass(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked)
}

/// The same for an output: a pool that is full now gets room by and by, and the CPU time is spent.
pub(crate) fn can_pass_for_output(failure: &Failure) -> bool {
    can_pass(failure) || failure.kind == ErrorKind::NoSpace
}

/// Tries `copy` again while what it needs is away; `None` if the room stops or the job is cancelled.
pub(crate) fn with_retries(
    shared: &Shared,
    run: &Run,
    since: Instant,
    (patience, can_pass): (Duration, fn(&Failure) -> bool),
    copy: &mut dyn FnMut() -> Result<()>,
) -> Option<Result<()>> {
    let mut backoff = Backoff::new();
    loop {
        if shared.is_stopping() || run.is_cancelled() {
            return None;
        }
        let Err(failure) = copy() else {
            return Some(Ok(()));
        };
        if shared.is_stopping() || run.is_cancelled() {
            return None;
        }
        if !can_pass(&failure) || since.elapsed() > patience {
            return Some(Err(failure));
        }
        let pause = backoff.next();
        warn!(job = %run.id().job, %failure, pause_ms = pause.as_millis() as u64, "copy failed; retrying");
        shared.pause(pause, &|| run.is_cancelled());
    }
}
