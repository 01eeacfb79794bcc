//! Notices a drive that hangs.
//!
//! A blocking call into a drive cannot be interrupted. So the thread that makes it says when it begins and ends, and
//! another thread, the supervisor, asks from time to time whether it takes too long. Time is an argument.

use crate::drive::{Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, TapeDrive, Written};
use base::Result;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Longest that moving and threading a medium may take: what CTA allows.
pub const LOAD_DEADLINE: Duration = Duration::from_secs(300);
/// Longest that the first load of a new cartridge may take: an LTO-9 drive measures the medium for up to two hours.
pub const FIRST_LOAD_DEADLINE: Duration = Duration::from_secs(9000);
/// Longest that a drive may work without finishing a block, a move or a flush: what CTA allows.
pub const NO_BLOCK_MOVED_DEADLINE: Duration = Duration::from_secs(1800);

/// How long a drive may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For load and unload.
    pub load: Duration,
    /// For the first load of a new cartridge, if the drive says that it is one.
    pub first_load: Duration,
    /// For everything else.
    pub no_block_moved: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { load: LOAD_DEADLINE, first_load: FIRST_LOAD_DEADLINE, no_block_moved: NO_BLOCK_MOVED_DEADLINE }
    }
}

/// The operation of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Threading the medium.
    Load,
    /// Threading a new medium, which the drive measures first.
    FirstLoad,
    /// Letting it go.
    Unload,
    /// Rewind, space or locate.
    Locate,
    /// Reading a block.
    Read,
    /// Writing a block or marks.
    Write,
    /// Making written blocks durable.
    Flush,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::FirstLoad => "first load of a new cartridge",
            Self::Unload => "unload",
            Self::Locate => "locate",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        })
    }
}

/// News that [`Watchdog::check`] brings, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// The drive hangs; an operator must check it.
    Stuck {
        /// In this operation.
        operation: Operation,
        /// For so long.
        since: Duration,
    },
    /// The drive that hung goes on.
    Recovered,
}

/// Watches one drive. Clones watch the same drive: one for its thread, one for the supervisor.
#[derive(Debug, Clone)]
pub struct Watchdog {
    deadlines: Deadlines,
    /// Held for a few instructions only, and no other lock is taken under it.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<(Operation, Instant)>,
    is_stuck: bool,
    /// Operations that have begun, in order.
    #[cfg(test)]
    history: Vec<Operation>,
}

impl Watchdog {
    /// Watches a drive that is idle now.
    #[must_use]
    pub fn new(deadlines: Deadlines) -> Self {
        Self { deadlines, state: Arc::default() }
    }

    /// The drive's thread begins `operation`.
    pub fn begin(&self, operation: Operation, now: Instant) {
        let mut state = self.state();
        state.running = Some((operation, now));
        #[cfg(test)]
        state.history.push(operation);
    }

    /// Operations that have begun since it was asked last, in order.
    #[cfg(test)]
    pub(crate) fn take_history(&self) -> Vec<Operation> {
        std::mem::take(&mut self.state().history)
    }

    /// The operation has come back, however it went.
    pub fn end(&self) {
        self.state().running = None;
    }

    /// Tells whether the drive began to hang, or ceased to, since the last check.
    pub fn check(&self, now: Instant) -> Option<Alarm> {
        let mut state = self.state();
        let late = state.running.and_then(|(operation, begun)| {
            let since = now.saturating_duration_since(begun);
            (since > self.allowed(operation)).then_some(Alarm::Stuck { operation, since })
        });
        let was_stuck = std::mem::replace(&mut state.is_stuck, late.is_some());
        match late {
            Some(_) if was_stuck => None,
            None if was_stuck => Some(Alarm::Recovered),
            late => late,
        }
    }

    /// Whether the last check found that the drive hangs.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.state().is_stuck
    }

    fn allowed(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Load | Operation::Unload => self.deadlines.load,
            Operation::FirstLoad => self.deadlines.first_load,
            _ => self.deadlines.no_block_moved,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every state is a good one, so a thread that panicked with the lock does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A drive whose every call is watched.
pub struct WatchedDrive {
    drive: Box<dyn TapeDrive>,
    watchdog: Watchdog,
}

impl WatchedDrive {
    /// Puts `watchdog` on `drive`.
    pub fn new(mut drive: Box<dyn TapeDrive>, watchdog: Watchdog) -> Self {
        drive.watched_by(&watchdog);
        Self { drive, watchdog }
    }

    fn watched<T>(
        &mut self,
        operation: Operation,
        call: impl FnOnce(&mut dyn TapeDrive) -> Result<T>,
    ) -> Result<T> {
        self.watchdog.begin(operation, Instant::now());
        let answer = call(self.drive.as_mut());
        self.watchdog.end();
        answer
    }
}

impl TapeDrive for WatchedDrive {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn identity(&self) -> &Identity {
        self.drive.identity()
    }

    fn load(&mut self) -> Result<()> {
        self.watched(Operation::Load, |drive| drive.load())
    }

    fn unload(&mut self) -> Result<()> {
        self.watched(Operation::Unload, |drive| drive.unload())
    }

    fn rewind(&mut self) -> Result<()> {
        self.watched(Operation::Locate, |drive| drive.rewind())
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written> {
        self.watched(Operation::Write, |drive| drive.write_block(block))
    }

    fn write_filemarks(&mut self, count: u32) -> Result<Written> {
        self.watched(Operation::Write, |drive| drive.write_filemarks(count))
    }

    fn flush(&mut self) -> Result<()> {
        self.watched(Operation::Flush, |drive| drive.flush())
    }

    fn read_block(&mut self, block: &mut Vec<u8>) -> Result<Read> {
        self.watched(Operation::Read, |drive| drive.read_block(block))
    }

    fn space(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced> {
        self.watched(Operation::Locate, |drive| drive.space(kind, count))
    }

    fn locate(&mut self, block: u64) -> Result<()> {
        self.watched(Operation::Locate, |drive| drive.locate(block))
    }

    fn position(&mut self) -> Result<Position> {
        self.watched(Operation::Locate, |drive| drive.position())
    }

    fn capacity(&mut self) -> Result<Option<Capacity>> {
        self.watched(Operation::Locate, |drive| drive.capacity())
    }

    fn status(&self) -> DriveStatus {
        self.drive.status()
    }

    fn address(&self) -> String {
        self.drive.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_is_told_once_and_so_is_its_end() {
        let seconds = Duration::from_secs;
        let dog = Watchdog::new(Deadlines {
            load: seconds(3),
            no_block_moved: seconds(10),
            ..Deadlines::default()
        });
        let start = Instant::now();
        assert_eq!(dog.check(start), None);
        dog.begin(Operation::Load, start);
        assert_eq!(dog.check(start + seconds(3)), None);
        let stuck = Alarm::Stuck { operation: Operation::Load, since: seconds(4) };
        assert_eq!(dog.check(start + seconds(4)), Some(stuck));
        assert_eq!(dog.check(start + seconds(5)), None);
        assert!(dog.clone().is_stuck());
        dog.end();
        dog.begin(Operation::Read, start + seconds(6));
        assert_eq!(dog.check(start + seconds(7)), Some(Alarm::Recovered));
        assert_eq!(dog.check(start + seconds(16)), None);
        assert!(dog.check(start + seconds(17)).is_some());
    }

    #[test]
    fn a_clock_that_goes_back_is_no_hang() {
        let dog = Watchdog::new(Deadlines::default());
        let start = Instant::now();
        dog.begin(Operation::Flush, start + Duration::from_secs(9));
        assert_eq!(dog.check(start), None);
    }
}
