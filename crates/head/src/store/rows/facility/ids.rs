//! Numbers that the head gives to what it makes.

use crate::store::{Store, StoreResult, cache::pending::Undo};
use std::cell::RefCell;

/// Numbers that are left out for those that nobody knows of: nothing that lies on a disk or a tape may get the number of
/// something else.
pub(in crate::store) const IDS_SKIPPED: u64 = 1_000_000_000;

/// What is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Sequence {
    Node,
    Object,
    Copy,
    Request,
    Session,
    Job,
    Mount,
    StageRequest,
    OperatorRequest,
}

impl Sequence {
    const COUNT: usize = 9;

    /// The table whose rows have these numbers.
    fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Object => "replica",
            Self::Copy => "copy",
            Self::Request => "request",
            Self::Session => "tape_session",
            Self::Job => "job",
            Self::Mount => "mount",
            Self::StageRequest => "stage_request",
            Self::OperatorRequest => "operator_request",
        }
    }

    /// Numbers that are set aside at once: those that people see follow each other also after a restart.
    fn block(self) -> u64 {
        match self {
            Self::Node | Self::Object => 1000,
            Self::Copy
            | Self::Request
            | Self::Session
            | Self::Job
            | Self::Mount
            | Self::StageRequest
            | Self::OperatorRequest => 1,
        }
    }
}

/// Numbers that were set aside and not given: `next..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Ids {
    next: u64,
    end: u64,
}

/// The numbers of all sequences, as far as they were read.
#[derive(Debug, Default)]
pub(in crate::store) struct AllIds(RefCell<[Option<Ids>; Sequence::COUNT]>);

impl AllIds {
    pub(in crate::store) fn set(&self, sequence: Sequence, ids: Option<Ids>) {
        self.0.borrow_mut()[sequence as usize] = ids;
    }

    fn get(&self, sequence: Sequence) -> Option<Ids> {
        self.0.borrow()[sequence as usize]
    }

    /// Forgets what may not have become durable.
    pub(in crate::store) fn forget(&self) {
        *self.0.borrow_mut() = Default::default();
    }
}

impl Store {
    /// Lets the numbers of a sequence go on far behind `known`, which somebody has given.
    pub(in crate::store) fn pass(&self, sequence: Sequence, known: u64) -> StoreResult<()> {
        if known < self.sequence_end(sequence)? {
            return Ok(());
        }
        if let Some(before) = self.ids.get(sequence) {
            self.pending.borrow_mut().note(Undo::Ids(sequence, before));
        }
        let next = known.saturating_add(IDS_SKIPPED);
        self.run("UPDATE sequence SET next = ?2 WHERE name = ?1", (sequence.name(), next))?;
        self.ids.set(sequence, None);
        Ok(())
    }

    /// What is below this number was given, or set aside for that.
    pub(in crate::store) fn sequence_end(&self, sequence: Sequence) -> StoreResult<u64> {
        match self.ids.get(sequence) {
            Some(ids) => Ok(ids.end),
            None => self
                .one_now("SELECT next FROM sequence WHERE name = ?1", (sequence.name(),), |row| row.get(0)),
        }
    }

    /// A number that was never given before.
    pub(in crate::store) fn next_id(&self, sequence: Sequence) -> StoreResult<u64> {
        self.next_ids(sequence, 1)
    }

    /// The first of `count` numbers that follow each other and were never given before.
    pub(in crate::store) fn next_ids(&self, sequence: Sequence, count: u64) -> StoreResult<u64> {
        let mut ids = match self.ids.get(sequence) {
            Some(ids) => ids,
            None => {
                let sql = "SELECT next FROM sequence WHERE name = ?1";
                let next = self.one_now(sql, (sequence.name(),), |row| row.get(0))?;
                Ids { next, end: next }
            }
        };
        if ids.end - ids.next < count {
            let before = ids;
            ids.end = ids.end.max(ids.next + count).max(before.end + sequence.block());
            self.run("UPDATE sequence SET next = ?2 WHERE name = ?1", (sequence.name(), ids.end))?;
            self.pending.borrow_mut().note(Undo::Ids(sequence, before));
        }
        let id = ids.next;
        ids.next += count;
        self.ids.set(sequence, Some(ids));
        Ok(id)
    }
}
