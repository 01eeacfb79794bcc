//! Turns to send much: a few sessions at a time, in the order in which they asked.
//!
//! A thousand sessions that all fill their sockets keep gigabytes on their way, and the kernel's account of these fits
//! into no cache: sent to a few sessions at a time, bytes cost much less processor time at both ends (measured).
//!
//! A session waits twice: without a thread for a ticket, then with a mover for its turn, which passes on at once.

use super::limits::{TURN_MAX, TURN_WAITERS_MAX, TURNS_PER_PROCESSOR};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Who has a turn, and who waits for one.
#[derive(Debug)]
pub(super) struct Turns {
    places: usize,
    /// Who has a turn for longer than this is stuck: its place goes to another.
    patience: Duration,
    tickets: Arc<Semaphore>,
    state: Mutex<State>,
}

/// The right of a thread to wait for a turn.
pub(super) type Ticket = OwnedSemaphorePermit;

#[derive(Debug, Default)]
struct State {
    holders: Vec<Holder>,
    waiting: VecDeque<Arc<Waiter>>,
    last_number: u64,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    since: Instant,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    granted: Mutex<Option<u64>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Default for Turns {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::new(processors * TURNS_PER_PROCESSOR, TURN_MAX)
    }
}

impl Turns {
    fn new(places: usize, patience: Duration) -> Self {
        let tickets = Arc::new(Semaphore::new(TURN_WAITERS_MAX));
        Self { places, patience, tickets, state: Mutex::default() }
    }

    /// A ticket if nobody else waits for one.
    pub(super) fn try_ticket(&self) -> Option<Ticket> {
        Arc::clone(&self.tickets).try_acquire_owned().ok()
    }

    /// Waits for a ticket; `None` never comes, because nobody closes the semaphore.
    pub(super) async fn ticket(&self) -> Option<Ticket> {
        Arc::clone(&self.tickets).acquire_owned().await.ok()
    }

    /// Waits for a turn.
    pub(super) fn take(&self, _ticket: &Ticket) -> Turn<'_> {
        let turn = |number| Turn { turns: self, number };
        let waiter = {
            let mut state = self.state();
            if state.waiting.is_empty() && state.holders.len() < self.places {
                return turn(state.admit());
            }
            let waiter = Arc::new(Waiter { thread: thread::current(), granted: Mutex::new(None) });
            state.waiting.push_back(Arc::clone(&waiter));
            waiter
        };
        loop {
            thread::park_timeout(self.patience);
            if let Some(number) = waiter.number() {
                return turn(number);
            }
            let mut state = self.state();
            state.holders.retain(|holder| holder.since.elapsed() < self.patience);
            self.admit_waiting(&mut state);
        }
    }

    fn admit_waiting(&self, state: &mut State) {
        while state.holders.len() < self.places
            && let Some(waiter) = state.waiting.pop_front()
        {
            *waiter.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.admit());
            waiter.thread.unpark();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self) -> u64 {
        self.last_number += 1;
        self.holders.push(Holder { number: self.last_number, since: Instant::now() });
        self.last_number
    }
}

impl Waiter {
    fn number(&self) -> Option<u64> {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.holders.retain(|holder| holder.number != self.number);
        self.turns.admit_waiting(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    const LONG: Duration = Duration::from_secs(600);

    /// Turns for one at a time.
    fn turns(patience: Duration) -> Turns {
        Turns::new(1, patience)
    }

    fn take(turns: &Turns) -> (Turn<'_>, Ticket) {
        let ticket = turns.try_ticket().unwrap();
        (turns.take(&ticket), ticket)
    }

    #[test]
    fn one_at_a_time_has_a_turn_and_everybody_gets_one() {
        let turns = turns(LONG);
        let (busy, done, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = take(&turns);
                        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        busy.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 20 * 200);
        assert!(most.load(Ordering::SeqCst) <= 1);
        assert!(turns.state().holders.is_empty() && turns.state().waiting.is_empty());
        assert_eq!(turns.tickets.available_permits(), TURN_WAITERS_MAX);
    }

    #[test]
    fn who_is_stuck_loses_the_place_and_takes_none_along() {
        let turns = turns(Duration::from_millis(5));
        let stuck = take(&turns);
        let next = take(&turns);
        // It returns late: the place is another's by now.
        drop(stuck);
        assert_eq!(turns.state().holders.len(), 1);
        drop(next);
        assert!(turns.state().holders.is_empty());
    }

    #[test]
    fn turns_are_given_in_order() {
        let turns = turns(LONG);
        let (order, barrier) = (Mutex::new(Vec::new()), Barrier::new(2));
        let first = take(&turns);
        thread::scope(|scope| {
            for number in 0..5 {
                let (turns, order, barrier) = (&turns, &order, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let _turn = take(turns);
                    order.lock().unwrap().push(number);
                });
                barrier.wait();
                while turns.state().waiting.len() <= number {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn those_without_a_ticket_wait_without_a_thread() {
        let turns = turns(LONG);
        let tickets: Vec<_> = std::iter::from_fn(|| turns.try_ticket()).collect();
        assert_eq!(tickets.len(), TURN_WAITERS_MAX);
        let waited = tokio::join!(turns.ticket(), async {
            drop(tickets);
        });
        assert!(waited.0.is_some());
    }
}
