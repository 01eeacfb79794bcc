//! When to try again: as long as there is progress, and not for ever without.

use super::{Options, mux::Wait, task, trouble::RequestError};
use base::Failure;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

/// Pause before the second try; the first is made at once. It doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// So many times the longest silence may pass without progress.
const PATIENCE: u32 = 5;
/// Tries after the first of a call that is not part of a transfer.
const CALL_RETRIES: u32 = 2;

/// Counts tries since the last progress.
#[derive(Debug)]
pub(super) struct Retry {
    tries: u32,
    tries_max: u32,
    progress: Instant,
    patience: Duration,
}

impl Retry {
    /// For a transfer: `Options::retry_max` tries without progress.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            tries: 0,
            tries_max: options.retry_max,
            progress: Instant::now(),
            patience: options.progress_timeout * PATIENCE,
        }
    }

    /// For a single call.
    pub(super) fn few(options: &Options) -> Self {
        Self { tries_max: options.retry_max.min(CALL_RETRIES), ..Self::new(options) }
    }

    /// Bytes have arrived: the count begins anew.
    pub(super) fn progress(&mut self) {
        if self.tries > 0 {
            self.tries = 0;
        }
        self.progress = Instant::now();
    }

    /// Waits before the next try; fails if there is none.
    pub(super) async fn again(&mut self, trouble: RequestError, wait: Wait) -> Result<(), RequestError> {
        let RequestError::Broken(failure) = trouble else { return Err(trouble) };
        if self.tries >= self.tries_max || self.progress.elapsed() > self.patience {
            let tried =
                if self.tries == 0 { String::new() } else { format!(" (tried {} times)", self.tries + 1) };
            let what = format!("{}{tried}", failure.what);
            return Err(RequestError::Broken(Failure { what, ..failure }));
        }
        tracing::debug!(%failure, tries = self.tries, "request failed; retrying");
        let pause = pause(self.tries, random());
        self.tries += 1;
        if !pause.is_zero() {
            task::pause(pause, wait).await?;
        }
        Ok(())
    }
}

/// The pause before try `number`, between half and the whole of its doubling span.
fn pause(number: u32, random: u64) -> Duration {
    let Some(doublings) = number.checked_sub(1) else { return Duration::ZERO };
    let whole = PAUSE_MIN.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX);
    whole / 2 + (whole / 2).mul_f64((random % 1000) as f64 / 1000.0)
}

/// A number that differs between processes and calls, so that clients of one server do not come back all at once.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        assert_eq!(pause(0, 999), Duration::ZERO);
        let shortest: Vec<_> = (1..12).map(|number| pause(number, 0)).collect();
        assert!(shortest.is_sorted() && shortest[0] == PAUSE_MIN / 2 && shortest[10] == PAUSE_MAX / 2);
        assert!((0..50).all(|number| pause(number, u64::MAX) <= PAUSE_MAX));
    }
}
