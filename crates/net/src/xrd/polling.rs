//! Polls for bytes for a moment before a thread sleeps until they come.
//!
//! An idle processor of a virtual machine is given back to its host. To wake it takes longer than a quick peer needs
//! for its next request, and both ends pay for that. A thread that polls first need not be woken.

use super::{limits::POLL_MISSES_MAX, transport::Attempt};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The threads of a door that may look at the same time: half of the processors, so that peers on this host have theirs.
#[derive(Debug)]
pub(super) struct PollSlots(AtomicUsize);

impl PollSlots {
    pub(super) fn of_this_host() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self(AtomicUsize::new((processors / 2).max(1)))
    }

    fn try_take(&self) -> Option<PollSlot<'_>> {
        let fewer = |free: usize| free.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok().then(|| PollSlot(self))
    }
}

/// Given back when it is dropped.
struct PollSlot<'a>(&'a PollSlots);

impl Drop for PollSlot<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The polling state of one socket: after polls without data it is polled less often.
#[derive(Debug)]
pub(super) struct Polling {
    poll_slots: Arc<PollSlots>,
    patience: Duration,
    /// Polls without data since the last with data.
    misses: u32,
    /// Number of turns to skip.
    skips: u32,
}

impl Polling {
    pub(super) fn new(poll_slots: Arc<PollSlots>, patience: Duration) -> Self {
        Self { poll_slots, patience, misses: 0, skips: 0 }
    }

    /// Calls `look` until it finds something or patience ends; `None`: nothing was found.
    pub(super) fn poll(&mut self, mut look: impl FnMut() -> Attempt) -> Attempt {
        if self.skips > 0 {
            self.skips -= 1;
            return Ok(None);
        }
        let Some(_slot) = self.poll_slots.try_take() else { return Ok(None) };
        let began = Instant::now();
        loop {
            if let Some(found) = look()? {
                self.misses = 0;
                return Ok(Some(found));
            }
            if began.elapsed() >= self.patience {
                break;
            }
            // The peer may need this very processor.
            thread::yield_now();
        }
        self.misses = (self.misses + 1).min(POLL_MISSES_MAX);
        self.skips = (1 << self.misses) - 1;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn one_slot() -> Arc<PollSlots> {
        Arc::new(PollSlots(AtomicUsize::new(1)))
    }

    #[test]
    fn what_comes_in_time_is_found() {
        let mut polling = Polling::new(one_slot(), Duration::MAX);
        let mut answers = [None, None, Some(7)].into_iter();
        assert_eq!(polling.poll(|| Ok(answers.next().unwrap())).unwrap(), Some(7));
        assert_eq!(
            polling.poll(|| Err(ErrorKind::UnexpectedEof.into())).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(polling.poll(|| Ok(Some(1))).unwrap(), Some(1), "its seat was given back");
    }

    #[test]
    fn who_waits_in_vain_looks_less_and_less_often() {
        let mut polling = Polling::new(one_slot(), Duration::ZERO);
        let mut looked = 0;
        for _ in 0..10_000 {
            let mut has_looked = false;
            assert_eq!(
                polling
                    .poll(|| {
                        has_looked = true;
                        Ok(None)
                    })
                    .unwrap(),
                None
            );
            looked += u32::from(has_looked);
        }
        let rest = 10_000 >> POLL_MISSES_MAX;
        assert!((rest..=rest + POLL_MISSES_MAX).contains(&looked), "{looked} times");
        let found = (0..1 << POLL_MISSES_MAX).any(|_| polling.poll(|| Ok(Some(1))).unwrap().is_some());
        assert!(found, "it goes on looking now and then");
        assert_eq!(polling.poll(|| Ok(Some(2))).unwrap(), Some(2), "as before, once something came");
    }

    #[test]
    fn nobody_polls_without_a_slot() {
        let poll_slots = one_slot();
        let polling = |poll_slots: &Arc<PollSlots>| Polling::new(Arc::clone(poll_slots), Duration::ZERO);
        let (mut first, mut second) = (polling(&poll_slots), polling(&poll_slots));
        let outcome = first.poll(|| second.poll(|| panic!("there is one seat only")));
        assert_eq!(outcome.unwrap(), None);
    }
}
