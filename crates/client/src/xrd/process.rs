//! What must be made anew after a fork: the child shares the parent's sockets and may find its locks taken for ever.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// One value for each process that a program became by forking.
///
/// A child never looks at what belongs to its parent: not at the value, not at a lock in it.
#[derive(Debug)]
pub(super) struct PerProcess<T> {
    pid: u32,
    value: T,
    next: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    /// A value of this process.
    pub(super) fn new(value: T) -> Self {
        Self { pid: std::process::id(), value, next: OnceLock::new() }
    }

    /// The value of this process; a child makes its own when it first needs one.
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        let pid = std::process::id();
        let mut place = self;
        while place.pid != pid {
            let Some(next) = place.next.get() else {
                return place.append(make);
            };
            place = next;
        }
        &place.value
    }

    fn append(&self, make: impl FnOnce() -> T) -> &T {
        let mut place = self;
        let mut own = Box::new(Self::new(make()));
        // Another thread of this process may be as quick: then its value counts, and ours is dropped.
        while let Err(rejected) = place.next.set(own) {
            let Some(next) = place.next.get() else { break };
            if next.pid == rejected.pid {
                return &next.value;
            }
            (own, place) = (rejected, next);
        }
        place.next.get().map_or(&self.value, |next| &next.value)
    }

    /// The value that this process inherited, if it is a child that has none of its own.
    pub(super) fn is_inherited(&self) -> bool {
        self.pid != std::process::id()
    }

    /// As a child sees it, for tests: they cannot fork.
    #[cfg(test)]
    pub(super) fn disown(&mut self) {
        self.pid = 0;
    }

    /// The value, whoever made it.
    pub(super) fn first(&self) -> &T {
        &self.value
    }
}

/// Locks, whether or not a thread panicked while it held the lock: every change under our locks is whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_value() {
        let mut values = PerProcess::new(1);
        assert_eq!(*values.get(|| 2), 1);
        // As a child sees it.
        values.disown();
        assert!(values.is_inherited());
        assert_eq!((*values.get(|| 2), *values.get(|| 3), *values.first()), (2, 2, 1));
    }
}
