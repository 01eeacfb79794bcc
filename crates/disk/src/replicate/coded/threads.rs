//! Several pieces at once, by a bounded number of threads.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::Builder,
};

/// Threads beside those that read and write anyway. Without one left, these do all of it, one piece after the other.
const THREADS_MAX: usize = 512;

static THREADS: Threads = Threads::new(THREADS_MAX);

/// How many threads there may still be.
struct Threads(AtomicUsize);

/// A thread that may be.
struct ThreadPermit<'a>(&'a Threads);

impl Threads {
    const fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    fn place(&self) -> Option<ThreadPermit<'_>> {
        let fewer = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).ok().map(|_| ThreadPermit(self))
    }
}

impl Drop for ThreadPermit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Does something with each item, all at once as far as there are threads. Yields what came of each, in their order; `None`: a
/// thread ended badly. Blocks.
pub(super) fn each<I: Send, T: Send>(items: Vec<I>, work: impl Fn(I) -> T + Sync) -> Vec<Option<T>> {
    each_within(&THREADS, items, work)
}

fn each_within<I: Send, T: Send>(
    threads: &Threads,
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<Option<T>> {
    let count = items.len();
    let done = Mutex::new(std::iter::repeat_with(|| None).take(count).collect::<Vec<_>>());
    let left = Mutex::new(items.into_iter().enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let go_on = || {
        while let Some((at, item)) = take() {
            // Whichever thread it is, also the caller's: the others go on.
            let one = catch_unwind(AssertUnwindSafe(|| work(item)));
            if let Some(place) = done.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *place = one.ok();
            }
        }
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..count)
            .map_while(|_| {
                let place = threads.place()?;
                let help = || {
                    let _place = place;
                    go_on();
                };
                // The system may refuse it.
                Builder::new().name("pieces".to_owned()).spawn_scoped(scope, help).ok()
            })
            .collect();
        go_on();
        for helper in helpers {
            // What it had in hand is missing in the list.
            let _ = helper.join();
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn without_a_thread_left_everything_is_done_one_after_the_other() {
        let (threads, doing) = (Threads::new(1), AtomicUsize::new(0));
        let tenfold = |item: usize| {
            assert!(doing.fetch_add(1, Ordering::SeqCst) < 2, "more threads than there may be");
            std::thread::yield_now();
            doing.fetch_sub(1, Ordering::SeqCst);
            item * 10
        };
        let done = each_within(&threads, (0..50).collect(), tenfold);
        assert_eq!(done, (0..50).map(|item| Some(item * 10)).collect::<Vec<_>>());
        assert_eq!(threads.0.into_inner(), 1);
        assert_eq!(each_within(&Threads::new(0), vec![1, 2], |item| item), [Some(1), Some(2)]);
    }

    #[test]
    fn all_are_done_at_once_and_one_that_panics_has_nothing() {
        let meeting = Barrier::new(4);
        assert_eq!(each(vec![(); 4], |()| meeting.wait()).len(), 4);
        let own = std::thread::current().id();
        let meeting = Barrier::new(4);
        let panics = |()| {
            meeting.wait();
            assert_eq!(std::thread::current().id(), own, "helpers end badly");
        };
        let done = each(vec![(); 4], panics);
        assert_eq!(done.iter().flatten().count(), 1);
    }
}
