//! What every write to the namespace leaves behind: rows that must be read again, and the version of the namespace.
//!
//! Triggers of the connection tell of each row, whichever statement changed it. They name what a stat, a read grant or
//! a listing is made from, and nothing else: space reports, uses of replicas, queues and bills pass unnoticed.

use super::{Node, StoreResult, node_cache::NodeCache};
use base::FileId;
use rusqlite::{Connection, functions::FunctionFlags};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Temporary, so that they belong to this release and not to the catalogue.
const TRIGGERS: &str = "
CREATE TEMP TRIGGER node_made AFTER INSERT ON main.node BEGIN SELECT namespace_changed(new.id); END;
CREATE TEMP TRIGGER node_changed AFTER UPDATE ON main.node BEGIN SELECT namespace_changed(new.id); END;
CREATE TEMP TRIGGER node_gone AFTER DELETE ON main.node BEGIN SELECT namespace_changed(old.id); END;

CREATE TEMP TRIGGER replica_made AFTER INSERT ON main.replica WHEN new.state = 'online'
BEGIN SELECT namespace_changed(new.file); END;
CREATE TEMP TRIGGER replica_changed AFTER UPDATE OF object, file, partition, state ON main.replica
WHEN old.state = 'online' OR new.state = 'online'
BEGIN SELECT namespace_changed(old.file), namespace_changed(new.file); END;
CREATE TEMP TRIGGER replica_gone AFTER DELETE ON main.replica WHEN old.state = 'online'
BEGIN SELECT namespace_changed(old.file); END;

CREATE TEMP TRIGGER copy_made AFTER INSERT ON main.copy BEGIN SELECT namespace_changed(new.file); END;
CREATE TEMP TRIGGER copy_changed AFTER UPDATE ON main.copy
BEGIN SELECT namespace_changed(old.file), namespace_changed(new.file); END;
CREATE TEMP TRIGGER copy_gone AFTER DELETE ON main.copy BEGIN SELECT namespace_changed(old.file); END;

CREATE TEMP TRIGGER partition_moved AFTER UPDATE OF pool ON main.partition WHEN old.pool <> new.pool
BEGIN SELECT namespace_changed(0); END;
CREATE TEMP TRIGGER volume_judged AFTER UPDATE OF state ON main.volume
WHEN (old.state = 'suspect') <> (new.state = 'suspect')
BEGIN SELECT namespace_changed(0); END;
";

#[derive(Default)]
struct Inner {
    /// Files whose rows changed since the group began, in that order; 0 for rows of no single file.
    changed: Vec<u64>,
    cache: NodeCache,
}

impl Inner {
    fn note(&mut self, file: u64) {
        self.changed.push(file);
        self.cache.forget(FileId(file));
    }
}

/// Changes of the group under way, the cache that they spoil, and the version that they raise.
pub(super) struct Changes {
    /// Shared with the SQL function alone, which runs inside statements; never held while one runs.
    inner: Arc<Mutex<Inner>>,
    version: Arc<AtomicU64>,
}

impl Changes {
    /// Watches a connection whose schema is up to date.
    pub(super) fn watch(db: &Connection) -> StoreResult<Self> {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let noted = Arc::clone(&inner);
        db.create_scalar_function("namespace_changed", 1, FunctionFlags::SQLITE_UTF8, move |context| {
            lock(&noted).note(context.get::<i64>(0)?.unsigned_abs());
            Ok(true)
        })?;
        db.execute_batch(TRIGGERS)?;
        Ok(Self { inner, version: Arc::new(AtomicU64::new(1)) })
    }

    /// The version, for readers on other threads.
    pub(super) fn version(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    /// A mark of now, for [`Self::undo_to`].
    pub(super) fn mark(&self) -> usize {
        lock(&self.inner).changed.len()
    }

    /// What changed after `mark` was rolled back: what was read of it meanwhile is wrong.
    pub(super) fn undo_to(&self, mark: usize) {
        let Inner { changed, cache } = &mut *lock(&self.inner);
        for file in changed.drain(mark.min(changed.len())..) {
            cache.forget(FileId(file));
        }
    }

    /// What changed is durable: raises the version. Whoever waits for the group is answered after this.
    pub(super) fn commit(&self) {
        let mut inner = lock(&self.inner);
        if !inner.changed.is_empty() {
            inner.changed.clear();
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// A cached node.
    pub(super) fn node(&self, id: FileId) -> Option<Arc<Node>> {
        lock(&self.inner).cache.node(id)
    }

    /// A cached entry of a directory.
    pub(super) fn child(&self, parent: FileId, name: &str) -> Option<Arc<Node>> {
        lock(&self.inner).cache.child(parent, name)
    }

    /// Remembers a node that was read just now.
    pub(super) fn remember(&self, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        lock(&self.inner).cache.insert(&node);
        node
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::{CopyRow, FacilityRow, NewNode, Replica, ReplicaState, Store};
    use super::*;
    use base::{Checksums, ObjectId, Timestamp};
    use proptest::prelude::*;
    use wire::control::NodeKind;

    fn store(directory: &tempfile::TempDir) -> Store {
        let facility = FacilityRow {
            id: "f".into(),
            name: "test".into(),
            owner: "ada".into(),
            created: Timestamp(1),
            incarnation: 0,
        };
        Store::create(&directory.path().join("c"), &facility).unwrap()
    }

    /// One write to any of the tables that nodes are read from; many hit nothing or are refused.
    fn write(store: &Store, (what, a, b): (u8, u64, u64)) {
        let (id, now) = (FileId(a % 3 + 1), Timestamp(5));
        let name = format!("n{}", b % 3);
        let replica = Replica {
            object: ObjectId(0),
            file: id,
            partition: "p".into(),
            state: if b % 2 == 0 { ReplicaState::Online } else { ReplicaState::Writing },
            owner: "ada".into(),
            size: 1,
            created: now,
            used: now,
        };
        let kind = NodeKind::File;
        let outcome = match what {
            0 => store
                .insert_node(&NewNode { parent: id, name: &name, kind, owner: "ada", mode: 0, now })
                .map(drop),
            1 => store.set_mode(id, b as u32 % 8),
            2 => store.set_content(id, b, Checksums::EMPTY, now),
            3 => store.move_node(id, FileId(b % 3 + 1), &name),
            4 => store.delete_node(id),
            5 => store.insert_replica(&replica).map(drop),
            6 => store.set_replica_online(ObjectId(b % 2 + 1), 1, now),
            7 => store.set_replica_removing(ObjectId(b % 2 + 1)),
            8 => store.delete_removed("p", ObjectId(b % 2 + 1)),
            9 => store.delete_copies(id),
            _ => store.insert_copy(
                &CopyRow { file: id, vid: "BP0001".parse().unwrap(), fseq: b as u32, block: 1, size: 1 },
                now,
            ),
        };
        // A name that is taken, a volume's file that is there: as the database refuses them.
        drop(outcome);
    }

    /// Everything that look-ups answer, for ids and names that [`write`] uses.
    fn look(store: &Store) -> Vec<Option<Node>> {
        let mut found = Vec::new();
        for id in 1..=4 {
            found.push(store.node(FileId(id)).unwrap());
            for name in ["n0", "n1", "n2"] {
                found.push(store.child(FileId(id), name).unwrap());
            }
        }
        found.into_iter().map(|node| node.map(|node| (*node).clone())).collect()
    }

    fn forget_all(store: &Store) {
        for id in 0..10 {
            lock(&store.changes.inner).cache.forget(FileId(id));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn cached_nodes_are_those_of_the_database(
            groups in prop::collection::vec(
                (prop::collection::vec(
                    (prop::collection::vec((0u8..11, any::<u64>(), any::<u64>()), 0..8), any::<bool>(), prop::bool::weighted(0.7)),
                    0..5,
                ), prop::bool::weighted(0.7)),
                4..10,
            )
        ) {
            // In memory where the host has it: this is about what is read back, not about what is durable.
            let shared = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
            let directory = shared.unwrap();
            let mut store = store(&directory);
            for (calls, is_committed) in groups {
                let (before, version) = (look(&store), store.changes.version.load(Ordering::Acquire));
                store.begin();
                for (writes, looks, keep) in calls {
                    store.begin_call();
                    for arguments in writes {
                        write(&store, arguments);
                        if looks {
                            look(&store);
                        }
                    }
                    store.end_call(keep).unwrap();
                }
                if is_committed { store.commit().unwrap() } else { store.rollback().unwrap() }
                let cached = look(&store);
                forget_all(&store);
                prop_assert_eq!(&look(&store), &cached);
                if cached != before {
                    prop_assert!(is_committed);
                    prop_assert_ne!(store.changes.version.load(Ordering::Acquire), version);
                }
            }
        }
    }

    #[test]
    fn a_full_cache_forgets_what_was_not_used_and_answers_all_the_same() {
        let mut cache = NodeCache::default();
        let node = |n: u64| {
            Arc::new(Node {
                id: FileId(n),
                parent: FileId(1),
                name: n.to_string(),
                kind: NodeKind::File,
                owner: String::new(),
                group: String::new(),
                mode: 0,
                size: 0,
                modified: Timestamp(0),
                checksums: None,
                is_online: false,
                is_archived: false,
            })
        };
        for n in 0..200_000 {
            cache.insert(&node(n));
            assert_eq!(cache.child(FileId(1), "7").is_some(), n >= 7, "it is used and stays");
        }
        assert!(cache.node(FileId(8)).is_none(), "it was not used");
        cache.forget(FileId(7));
        assert!(cache.node(FileId(7)).is_none() && cache.child(FileId(1), "7").is_none());
    }
}
