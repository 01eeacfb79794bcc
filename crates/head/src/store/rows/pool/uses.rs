//! Uses of files that the database does not have yet.
//!
//! A read must cost no commit: a client that opens ten million files would write as many rows. Uses are kept in memory
//! and written a few at a time. Decisions that depend on them ask here, too. If the head dies, the files of lost uses
//! only look idle for longer than they were.

use crate::store::{Node, Replica, Store, StoreResult};
use base::{FileId, Millis, Timestamp};
use std::{collections::BTreeMap, ops::Bound};

/// Uses that are kept in mind.
const USES_LEN_MAX: usize = 200_000;
/// A use is noted at most this often.
const NOTED_EVERY: Millis = Millis::from_seconds(60);

/// When files were used last, and which of them was written last: the others have their turn before it has another.
#[derive(Debug, Default)]
pub(in crate::store) struct Uses {
    files: BTreeMap<FileId, Timestamp>,
    turn: Option<FileId>,
}

impl Uses {
    fn note(&mut self, file: FileId, now: Timestamp) {
        if self.files.len() >= USES_LEN_MAX
            && !self.files.contains_key(&file)
            && let Some((next, _)) = self.next()
        {
            self.files.remove(&next);
        }
        self.files.insert(file, now);
    }

    /// Whose turn it is to be written.
    fn next(&mut self) -> Option<(FileId, Timestamp)> {
        let behind = (self.turn.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let next = self.files.range(behind).next().or_else(|| self.files.first_key_value());
        let (file, at) = next.map(|(file, at)| (*file, *at))?;
        self.turn = Some(file);
        Some((file, at))
    }
}

/// Whether a use at `now` is worth noting.
fn is_due(replica: &Replica, now: Timestamp) -> bool {
    replica.used + NOTED_EVERY < now
}

impl Store {
    /// Keeps in mind that a file is used by one of its replicas, unless that was noted a short while ago.
    pub(crate) fn note_use(&self, replica: &Replica, now: Timestamp) {
        if is_due(replica, now) {
            self.uses.borrow_mut().note(replica.file, now);
        }
    }

    /// The last use of a file that the database may not know of.
    pub(crate) fn noted_use(&self, file: FileId) -> Option<Timestamp> {
        self.uses.borrow().files.get(&file).copied()
    }

    /// When a file was used last; when it was made, if nothing of it can be read.
    pub(crate) fn last_use(&self, node: &Node) -> Timestamp {
        let written = node.online().map(|replica| replica.used).max().unwrap_or(node.modified);
        self.noted_use(node.id).map_or(written, |noted| noted.max(written))
    }

    /// Uses that are not known to be written.
    pub(crate) fn uses_len(&self) -> usize {
        self.uses.borrow().files.len()
    }

    /// Writes some uses. Each is kept in mind until its turn comes again: what is refused or not committed is not lost.
    pub(crate) fn write_uses(&self, limit: usize) -> StoreResult<()> {
        for _ in 0..limit.min(self.uses_len()) {
            let next = self.uses.borrow_mut().next();
            let Some((file, at)) = next else { break };
            if !self.write_use(file, at)? {
                self.uses.borrow_mut().files.remove(&file);
            }
        }
        Ok(())
    }

    /// Writes a use; false if that is done, or the file is gone.
    fn write_use(&self, file: FileId, at: Timestamp) -> StoreResult<bool> {
        let is_meant = |replica: &&Replica| replica.state.is_settled() && is_due(replica, at);
        let node = self.node(file)?;
        if !node.is_some_and(|node| node.replicas.iter().any(|replica| is_meant(&replica))) {
            return Ok(false);
        }
        self.change_node(file, |node| {
            let replicas = node.replicas.iter_mut().filter(|replica| replica.state.is_settled());
            replicas.for_each(|replica| replica.used = replica.used.max(at));
        })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewNode, ReplicaState, testing::TestCatalogue};
    use base::ObjectId;
    use wire::control::NodeKind;

    #[test]
    fn a_read_writes_nothing_until_there_is_time() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            let (created, later) = (Timestamp(1000), Timestamp(100_000));
            let (parent, kind, owner) = (FileId(1), NodeKind::File, "ada");
            let new = NewNode { parent, name: "f", kind, owner, mode: 0o644, now: created };
            store.begin();
            let file = store.insert_node(&new).unwrap();
            let new = Replica {
                object: ObjectId(0),
                file,
                partition: "p".into(),
                state: ReplicaState::Online,
                owner: owner.into(),
                size: 1,
                created,
                used: created,
                piece: None,
            };
            let replica = store.insert_replica(new).unwrap();
            store.commit().unwrap();
            let is_changed = |store: &Store| store.pending.borrow().file(file).is_some();
            store.begin();
            store.note_use(&replica, created + NOTED_EVERY);
            assert_eq!(store.uses_len(), 0, "it was noted a short while ago");
            store.note_use(&replica, later);
            store.note_use(&Replica { file: FileId(99), ..replica.clone() }, later);
            assert!(!is_changed(&store), "a read costs no commit");
            assert_eq!(store.noted_use(file), Some(later));
            store.write_uses(9).unwrap();
            assert!(is_changed(&store));
            store.rollback().unwrap();
            assert_eq!(store.noted_use(file), Some(later), "what was not committed is not lost");
            store.begin();
            store.write_uses(9).unwrap();
            store.commit().unwrap();
            store.begin();
            store.write_uses(9).unwrap();
            assert_eq!(store.uses_len(), 0, "it is written, and the other file is gone");
            drop(store);
            let mut store = Store::open(&place.catalogue).unwrap();
            store.begin();
            assert_eq!(store.replica(replica.object).unwrap().unwrap().used, later);
        }
    }

    #[test]
    fn uses_are_bounded_and_everybody_has_a_turn() {
        let mut uses = Uses::default();
        for number in 1..=3 * USES_LEN_MAX as u64 {
            uses.note(FileId(number), Timestamp(number as i64));
            assert!(uses.files.len() <= USES_LEN_MAX);
        }
        assert!(uses.files.contains_key(&FileId(3 * USES_LEN_MAX as u64)), "the newest is there");
        let mut uses = Uses::default();
        (1..=10).for_each(|number| uses.note(FileId(number), Timestamp(1)));
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(uses.next().unwrap().0.0);
            // The first ones are used again and again.
            uses.note(FileId(1), Timestamp(2));
            uses.note(FileId(2), Timestamp(2));
        }
        assert_eq!(seen, (1..=10).collect::<Vec<_>>());
    }
}
