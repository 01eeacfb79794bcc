//! Fences of a live object that are in force as long as somebody has it open, and are not durable.
//!
//! **Problem.** A synced fence for each grant that is handed over costs more than the write under it.
//!
//! **Idea.** A client that returns its grant has it fenced here first. A disk server that has opened an object anew has forgotten
//! that. So it asks the head which grants have ended, before it takes writes to the object, and tells the number of this *start*.
//! The head believes in a fence only of the start that it has told (`spec/share.md` §4, `crates/share/tests/model/restarts.rs`).

use super::LiveObject;
use base::{Failure, Result};
use share::{Generation, Refusal};
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use wire::control::LiveStart;

/// Starts have 63 bits: they are told as offsets are.
const START_MAX: u64 = i64::MAX as u64;

/// Grants that are refused until the object is closed.
#[derive(Debug, Default)]
pub(super) struct MemoryFences {
    /// The lowest generation that may write. Raised by whoever has the state alone, so that no write is under way that it refuses.
    floor: AtomicU64,
    /// Drawn when it is needed first.
    start: OnceLock<LiveStart>,
    /// The head has told which grants had ended.
    is_told: AtomicBool,
}

impl MemoryFences {
    pub(super) fn admit(&self, generation: Generation) -> Result<(), Refusal> {
        let floor = Generation(self.floor.load(Ordering::Acquire));
        if generation < floor { Err(Refusal::Fenced(floor)) } else { Ok(()) }
    }

    fn raise(&self, floor: Generation) {
        self.floor.fetch_max(floor.0, Ordering::AcqRel);
    }
}

impl LiveObject {
    /// The number of this start: no other one of this object ever had it.
    pub fn start(&self) -> Result<LiveStart> {
        if let Some(start) = self.memory.start.get() {
            return Ok(*start);
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|cause| {
            Failure::internal(format!("no random bytes for a start of object {}: {cause}", self.object))
        })?;
        Ok(*self.memory.start.get_or_init(|| LiveStart(u64::from_le_bytes(bytes) & START_MAX)))
    }

    /// Whether the head has told this start which grants have ended.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.memory.is_told.load(Ordering::Acquire)
    }

    /// The head says that grants below `floor` have ended.
    pub fn tell(&self, floor: Generation) {
        let state = self.alone();
        self.memory.raise(floor);
        self.memory.is_told.store(true, Ordering::Release);
        drop(state);
    }

    /// Refuses a grant and older ones from now on, at the request of its client. No write of it is under way when this returns. Yields
    /// the start that does so.
    ///
    /// # Errors
    /// As a write would be refused.
    pub fn end_grant(&self, generation: Generation) -> Result<LiveStart> {
        if !self.is_told() {
            return Err(Failure::invalid(format!("object {} was not opened to be written", self.object)));
        }
        let start = self.start()?;
        self.ready().map(drop)?;
        let state = self.alone();
        self.writable(&state)?;
        self.memory.raise(generation.next());
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Limits, LiveObject, Partition};
    use base::{ErrorKind, ObjectId};
    use share::{Fence, Generation, Incarnation};
    use std::sync::Arc;
    use wire::auth::capability::WHOLE;

    fn begun(partition: &Partition) -> Arc<LiveObject> {
        let live = partition.live(ObjectId(7)).unwrap();
        live.begin(None, None).unwrap();
        live
    }

    #[test]
    fn a_start_forgets_what_it_has_fenced_and_asks_which_grants_have_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        drop(Partition::create(&path, "f", "p1").unwrap());
        let partition = Partition::open_limited(&path, "f", Limits::default()).unwrap();
        let refused = |live: &LiveObject, grant| {
            let written = live.write_at(Generation(grant), 0, b"x");
            written.is_err_and(|failure| failure.kind == ErrorKind::Locked)
        };

        let live = begun(&partition);
        assert_eq!(live.end_grant(Generation(1)).unwrap_err().kind, ErrorKind::Invalid, "nobody has told it");
        live.tell(Generation(1));
        let start = live.end_grant(Generation(1)).unwrap();
        assert!(refused(&live, 1) && !refused(&live, 2));
        assert_eq!(live.sync(Generation(1), WHOLE).unwrap_err().kind, ErrorKind::Locked);
        live.tell(Generation(1));
        assert!(refused(&live, 1), "an answer that comes late gives nothing back");

        drop(live);
        let live = begun(&partition);
        assert!(live.start().unwrap() != start && !live.is_told() && !refused(&live, 1));
        live.tell(Generation(3));
        assert!(refused(&live, 2) && !refused(&live, 3));

        let order = |generation| Fence {
            incarnation: Incarnation(1),
            generation: Generation(generation),
            range: WHOLE,
            oldest: Generation(0),
        };
        live.fence(&order(3)).unwrap();
        assert!(refused(&live, 3) && !refused(&live, 4));
    }
}
