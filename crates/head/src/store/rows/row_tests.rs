//! What is kept in memory is what the database has, whatever is done, refused and lost.

mod change;

use crate::store::{
    AccountKey, AccountUsage, GrantRow, NewContent, NewNode, Node, ReplicaState, Store,
    cache::node_cache::NodeCache, rows::facility::ids::Sequence, testing::TestCatalogue,
};
use base::{Checksums, FileId, ObjectId, Timestamp};
use change::change;
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};
use wire::control::{DiskServer, Entry, FileCounts, NodeKind, RegisterPartition};

const NOW: Timestamp = Timestamp(5);
const NAMES: [&str; 3] = ["n0", "n1", "n2"];

fn store(place: &TestCatalogue) -> Store {
    let mut store = place.create();
    store.begin();
    // Nothing lies on the last one.
    for name in ["p", "q", "r"] {
        store.put_partition(partition(name)).unwrap();
    }
    store.commit().unwrap();
    store
}

fn partition(name: &str) -> RegisterPartition {
    RegisterPartition {
        server: DiskServer { name: "host1".into(), root: "h:1".into(), https: "h:2".into() },
        boot: 1,
        pool: "main".into(),
        partition: name.into(),
        total_bytes: 1000,
        free_bytes: 900,
    }
}

/// All files, in the order of their ids.
fn files(store: &Store) -> Vec<Arc<Node>> {
    let mut all = vec![store.node(FileId(1)).unwrap().unwrap()];
    for name in NAMES {
        all.extend(store.child(FileId(1), name).unwrap());
        if let Some(directory) = store.child(FileId(1), "d").unwrap() {
            all.extend(store.child(directory.id, name).unwrap());
        }
    }
    all.extend(store.child(FileId(1), "d").unwrap());
    all.sort_by_key(|node| node.id);
    // One may have several names.
    all.dedup_by_key(|node| node.id);
    all
}

fn content(b: u64) -> NewContent {
    NewContent { size: b % 1000, checksums: Checksums::EMPTY, generation: b % 1000 }
}

/// Everything that can be asked.
#[derive(Debug, Clone, PartialEq)]
struct Answers {
    files: Vec<Node>,
    partitions: String,
    accounts: Vec<String>,
    removals: Vec<ObjectId>,
    grants: Vec<GrantRow>,
    short: Vec<(FileId, u64)>,
    policies: String,
    labels: String,
}

const LATER: Timestamp = Timestamp(100 * 86_400_000);

fn accounts(store: &Store) -> Vec<String> {
    let mut all = Vec::new();
    let each = |key: &_, month, charge, held| all.push(format!("{key:?} {month} {charge:?} {held:?}"));
    store.each_account_month(LATER, each).unwrap();
    all
}

/// What the accounts hold must be what the files say.
fn check_held(store: &Store) {
    let mut expected: BTreeMap<_, AccountUsage> = BTreeMap::new();
    let pools = store.partition_space().unwrap();
    for file in files(store).iter().filter(|node| !node.is_directory()) {
        let key = |user: &str, pool: &str| {
            (user.to_owned(), file.group.clone(), file.project.clone(), pool.to_owned())
        };
        let of_name = expected.entry(key(&file.owner, "")).or_default();
        of_name.files += 1;
        of_name.bytes += file.size as i64;
        let coming = [ReplicaState::Writing, ReplicaState::Reserved];
        let coming = file.replicas.iter().filter(|replica| coming.contains(&replica.state));
        let largest = coming.map(|replica| replica.size as i64).max().unwrap_or(0);
        of_name.reserved += (largest - file.size as i64).max(0);
        for replica in &file.replicas {
            let size = replica.size as i64;
            if replica.state == ReplicaState::Online {
                let on_pool =
                    expected.entry(key(&replica.owner, &pools[&replica.partition].pool)).or_default();
                on_pool.replicas += 1;
                on_pool.disk_bytes += size;
            }
        }
    }
    store.load_ledger().unwrap();
    let pending = store.pending.borrow();
    let held =
        pending.ledger().unwrap().accounts().iter().filter(|account| account.held != AccountUsage::default());
    let held = held.map(|account| {
        let AccountKey { user, group, project, pool } = (*account.key).clone();
        ((user, group, project, pool), account.held)
    });
    assert_eq!(held.collect::<BTreeMap<_, _>>(), expected);
}

/// What is in the trash.
fn trash(store: &Store) -> Vec<Arc<Node>> {
    let rows = store.oldest_trash(1000).unwrap();
    rows.into_iter().map(|(_, file)| store.node(file).unwrap().unwrap()).collect()
}

/// What is counted with every change is what there is.
fn check_counts(store: &Store) {
    let (all, trash) = (files(store), trash(store));
    assert!(trash.iter().all(|node| node.is_in_trash()));
    let of_kind = |kind| all.iter().filter(move |node| node.kind == kind);
    let is_online = |node: &&Arc<Node>| node.is_online();
    let counts = FileCounts {
        files: of_kind(NodeKind::File).count() as u64,
        directories: of_kind(NodeKind::Directory).count() as u64,
        bytes: of_kind(NodeKind::File).map(|node| node.size).sum(),
        online: all.iter().filter(is_online).count() as u64,
        nearline: all.iter().filter(|node| node.is_archived && !is_online(node)).count() as u64,
        out_of_reach: 0,
        trash_files: trash.len() as u64,
        trash_bytes: trash.iter().flat_map(|node| node.online()).map(|replica| replica.size).sum(),
    };
    assert_eq!(store.file_counts().unwrap(), counts);
    for (name, partition) in store.partition_space().unwrap() {
        let here = all
            .iter()
            .chain(&trash)
            .flat_map(|node| node.online())
            .filter(|replica| replica.partition == name);
        let sizes: Vec<_> = here.map(|replica| replica.size).collect();
        assert_eq!((partition.replicas, partition.replica_bytes), (sizes.len() as u64, sizes.iter().sum()));
    }
}

fn ask(store: &Store) -> Answers {
    check_held(store);
    check_counts(store);
    let mut partitions = store.partition_space().unwrap();
    for partition in partitions.values_mut() {
        partition.is_changed = false;
    }
    let short = store.shortages(LATER, 99).unwrap();
    for entry in store.children(FileId(1), "", 9).unwrap() {
        // Of several names a node has the first one.
        let name = entry.name.clone();
        let node = store.node(entry.id).unwrap().map(|node| Entry { name, ..node.entry() });
        assert_eq!(node, Some(entry));
    }
    Answers {
        files: files(store).iter().chain(&trash(store)).map(|node| (**node).clone()).collect(),
        partitions: format!("{partitions:?}"),
        accounts: accounts(store),
        removals: ["p", "q"].iter().flat_map(|name| store.removals(name, 99).unwrap()).collect(),
        grants: store.grants().unwrap().values().flatten().cloned().collect(),
        short: short.into_iter().map(|file| (file, store.shortage_attempts(file).unwrap())).collect(),
        policies: format!("{:?}", store.policies().unwrap()),
        labels: format!("{:?}", store.host_labels().unwrap()),
    }
}

/// The same from the database alone.
fn ask_anew(store: &mut Store) -> Answers {
    store.cache.get_mut().clear();
    store.pending.get_mut().forget();
    store.ids.forget();
    store.policies.take();
    store.labels.take();
    store.grants = crate::store::CachedTable::default();
    ask(store)
}

/// A change by its number, with two numbers that say of what.
#[derive(Debug, Clone, Copy)]
struct Change {
    what: u8,
    a: u64,
    b: u64,
}

/// Changes of a call; whether it looks at everything after each; whether it succeeds.
type CallOf = (Vec<Change>, bool, bool);

fn groups() -> impl Strategy<Value = Vec<(Vec<CallOf>, bool)>> {
    let changes = (0u8..36, any::<u64>(), any::<u64>()).prop_map(|(what, a, b)| Change { what, a, b });
    let changes = prop::collection::vec(changes, 0..8);
    let calls = prop::collection::vec((changes, any::<bool>(), prop::bool::weighted(0.7)), 0..5);
    prop::collection::vec((calls, prop::bool::weighted(0.7)), 4..10)
}

fn check(mut store: Store, groups: Vec<(Vec<CallOf>, bool)>) -> Result<(), TestCaseError> {
    for (calls, is_committed) in groups {
        let (before, version) = (ask(&store), store.version.load(Ordering::Acquire));
        store.begin();
        for (changes, looks, keep) in calls {
            store.begin_call();
            let before = ask(&store);
            for arguments in changes {
                change(&store, arguments);
                if looks {
                    ask(&store);
                }
            }
            store.end_call(keep).unwrap();
            if !keep {
                prop_assert_eq!(ask(&store), before, "a refused call leaves nothing");
            }
        }
        let now = ask(&store);
        let ended = if is_committed { store.commit() } else { store.rollback() };
        ended.unwrap();
        let expected = if is_committed { now } else { before.clone() };
        prop_assert_eq!(&ask(&store), &expected);
        prop_assert_eq!(&ask_anew(&mut store), &expected);
        if expected.files.iter().map(Node::entry).ne(before.files.iter().map(Node::entry)) {
            prop_assert_ne!(store.version.load(Ordering::Acquire), version);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_says_what_the_file_says(groups in groups()) {
        check(store(&TestCatalogue::file()), groups)?;
    }
}

proptest! {
    // Each has a database of its own.
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn memory_says_what_the_database_says(groups in groups()) {
        if let Some(place) = TestCatalogue::database() {
            check(store(&place), groups)?;
        }
    }
}

#[test]
fn numbers_begin_with_one() {
    for place in TestCatalogue::all() {
        let mut store = place.create();
        store.begin();
        let new =
            NewNode { parent: FileId(1), name: "f", kind: NodeKind::File, owner: "ada", mode: 0, now: NOW };
        assert_eq!(store.insert_node(&new).unwrap(), FileId(2), "the root is 1");
        for sequence in
            [Sequence::Object, Sequence::Copy, Sequence::Request, Sequence::Session, Sequence::Job]
        {
            assert_eq!(store.next_id(sequence).unwrap(), 1, "{sequence:?}");
        }
        store.commit().unwrap();
    }
}

#[test]
fn numbers_are_never_given_twice() {
    for place in TestCatalogue::all() {
        let mut store = store(&place);
        let mut given = Vec::new();
        for round in 0..1000 {
            store.begin();
            store.begin_call();
            let (parent, kind, owner) = (FileId(1), NodeKind::File, "ada");
            let new = NewNode { parent, name: &round.to_string(), kind, owner, mode: 0, now: NOW };
            let id = store.insert_node(&new).unwrap();
            store.end_call(round % 3 != 0).unwrap();
            match round % 7 {
                0 => store.rollback().unwrap(),
                _ => store.commit().unwrap(),
            }
            if round % 3 != 0 && round % 7 != 0 {
                given.push(id);
            }
            if round % 300 == 0 {
                drop(store);
                store = Store::open(&place.catalogue).unwrap();
            }
        }
        let len = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), len);
    }
}

#[test]
fn a_full_cache_forgets_what_was_not_used_and_answers_all_the_same() {
    let mut cache = NodeCache::new(16 << 20);
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
            generation: 0,
            replicas: Vec::new(),
            is_archived: false,
            lacks_copies: false,
            project: String::new(),
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
            hard_link: FileId(0),
            posix: wire::control::PosixFields::default(),
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
