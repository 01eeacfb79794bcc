//! What is kept in memory is what the database has, whatever is done, refused and lost.

use crate::store::{
    AccountKey, AccountUsage, CopyRow, GrantRow, NOT_BEGUN, NewContent, NewNode, Node, Piece, Replica,
    ReplicaState, Store, TrashRow, cache::node_cache::NodeCache, rows::facility::ids::Sequence,
    testing::TestCatalogue,
};
use base::{Checksums, FileId, ObjectId, Timestamp};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};
use wire::control::{
    Coding, DiskServer, FileCounts, NodeKind, PartitionState, Pool, RegisterPartition, Rights, TrashReason,
};

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
    all
}

fn content(b: u64) -> NewContent {
    NewContent { size: b % 1000, checksums: Checksums::EMPTY, generation: b % 1000 }
}

/// One change as the head makes it; what the head would refuse changes nothing.
fn change(store: &Store, Change { what, a, b }: Change) {
    let all = files(store);
    let target = &all[a as usize % all.len()];
    let parent = all.iter().find(|node| node.name == "d" && b % 2 == 0).map_or(FileId(1), |node| node.id);
    let name = NAMES[(b / 2) as usize % 3];
    let is_free = store.child(parent, name).unwrap().is_none();
    let is_file = !target.is_directory();
    let object = target.replicas.first().map(|replica| replica.object);
    match what {
        0 if is_free => {
            let kind = NodeKind::File;
            store.insert_node(&NewNode { parent, name, kind, owner: "ada", mode: 0, now: NOW }).unwrap();
        }
        1 if store.child(FileId(1), "d").unwrap().is_none() => {
            let kind = NodeKind::Directory;
            let new = NewNode { parent: FileId(1), name: "d", kind, owner: "ada", mode: 0, now: NOW };
            store.insert_node(&new).unwrap();
        }
        2 => store.set_mode(target.id, b as u32 % 8).unwrap(),
        3 if is_file => store.set_content(target.id, content(b), NOW).unwrap(),
        4 if is_file && is_free => store.move_node(target.id, parent, name).unwrap(),
        // Two files change their names.
        5 => {
            let other = &all[b as usize % all.len()];
            if is_file && !other.is_directory() && other.id != target.id {
                store.move_node(target.id, FileId(99), "aside").unwrap();
                store.move_node(other.id, target.parent, &target.name).unwrap();
                store.move_node(target.id, other.parent, &other.name).unwrap();
            }
        }
        6 if is_file => {
            for replica in &target.replicas {
                store.remove_replica(replica).unwrap();
            }
            store.delete_copies(target.id).unwrap();
            store.delete_node(target.id).unwrap();
        }
        7 if is_file => {
            let partition = if b % 2 == 0 { "p" } else { "q" }.to_owned();
            let (state, created) = match b % 4 {
                0 => (ReplicaState::Recalling, NOW),
                1 => (ReplicaState::Reserved, NOT_BEGUN),
                _ => (ReplicaState::Writing, NOW),
            };
            let (object, owner) = (ObjectId(0), "ada".to_owned());
            let size = b % 10;
            let piece = (b % 5 > 1).then(|| {
                let coding = Coding { data: 2, parity: 1 };
                let checksums = (b % 3 == 0).then(|| base::Checksums::of(b"piece"));
                Piece { coding, cell_bytes: 4096, index: b as u8 % 3, checksums }
            });
            let file = target.id;
            let new = Replica { object, file, partition, state, owner, size, created, used: NOW, piece };
            store.insert_replica(new).unwrap();
        }
        8 => object.into_iter().for_each(|object| store.set_replica_online(object, b % 10, NOW).unwrap()),
        9 => object.into_iter().for_each(|object| {
            if let Some(replica) = store.replica(object).unwrap() {
                store.note_use(&replica, Timestamp(NOW.0 + 100_000 + b as i64 % 9));
            }
            store.write_uses(1).unwrap();
        }),
        10 => target.replicas.first().into_iter().for_each(|replica| store.remove_replica(replica).unwrap()),
        11 if is_file => {
            let (vid, fseq) = ("BP0001".parse().unwrap(), b as u32);
            let copy = CopyRow { file: target.id, vid, fseq, block: 1, size: 1 };
            // A volume's file that is there: as the database refuses it. The head does not go on then.
            if store.all("SELECT 1 FROM copy WHERE fseq = ?1", (fseq,), |_| Ok(())).unwrap().is_empty() {
                store.insert_copy(&copy, NOW).unwrap();
            }
        }
        12 => store.delete_copies(target.id).unwrap(),
        13 => {
            let charge = crate::store::Charge { jobs: b % 5, tape_loads: 0.5, ..Default::default() };
            store.charge(crate::store::Payer::user("ada"), &charge).unwrap();
        }
        14 => store.set_space("p", 1000, b % 1000).unwrap(),
        15 => {
            let paths = NAMES.iter().flat_map(|name| [format!("/{name}"), format!("/d/{name}/x")]);
            let paths: Vec<_> = paths.map(|path| path.parse().unwrap()).collect();
            store.look_ahead(&paths).unwrap();
        }
        16 => store.set_project(target.id, ["", "run1", "run2"][b as usize % 3]).unwrap(),
        17 => store.set_time(Timestamp(NOW.0 + b as i64 % 90 * 86_400_000)),
        18 => {
            store.put_partition(RegisterPartition { boot: b % 5, ..partition("q") }).unwrap();
            store.set_partition_pool("r", ["main", "cold"][b as usize % 2]).unwrap();
            store.set_size_max("q", (b % 3 > 0).then_some(b % 1000)).unwrap();
        }
        19 => {
            let subject = if b % 2 == 0 { "user:ann" } else { "group:prod" }.parse().unwrap();
            let (rights, giver) =
                (if b % 3 == 0 { Rights::Read } else { Rights::ReadWrite }, "ada".to_owned());
            store.put_grant(&GrantRow { directory: target.id, subject, rights, giver, made: NOW }).unwrap();
        }
        20 => store.delete_grant(target.id, &"user:ann".parse().unwrap()).unwrap(),
        21 => object.into_iter().for_each(|object| {
            let states = [ReplicaState::Lost, ReplicaState::Online, ReplicaState::Damaged];
            let state = states[b as usize % 3];
            store.set_replica_state(object, state).unwrap();
        }),
        22 => store.set_partition_state("p", PartitionState::ALL[b as usize % 4]).unwrap(),
        23 => store.set_given_up("p", (b % 2 == 0).then_some(NOW)).unwrap(),
        24 if is_file => store.put_shortage(target.id, "main", b as usize % 3, NOW).unwrap(),
        25 => store.delay_shortage(target.id, NOW, (b % 2 == 0).then_some("no room")).unwrap(),
        26 => {
            let copies = b as u8 % 3 + 1;
            let name = "main".to_owned();
            store.set_policy(&Pool { name, copies, acknowledged_copies: 1, ..Pool::default() }).unwrap();
        }
        27 => {
            let some = store.removals("p", 1 + b as usize % 3).unwrap();
            store.end_removals("p", &some).unwrap();
            // Of another partition, or said for the second time.
            store.end_removals("q", &some).unwrap();
        }
        28 => store.forget_removals().unwrap(),
        29 => {
            let label = ["rack=r1", "rack=r2", "rack=", "room=b1"][b as usize % 4].parse().unwrap();
            store.set_host_label(["d1", "d2"][a as usize % 2], &label).unwrap();
        }
        30 if is_file => {
            let path = format!("/{}", target.name).parse().unwrap();
            let row = TrashRow {
                file: target.id,
                path,
                removed: NOW,
                remover: "bob".into(),
                why: TrashReason::Removed,
            };
            if b % 3 > 0 && target.checksums.is_some() {
                store.split_content(target, &[], row).unwrap();
            } else {
                store.put_trash(&row).unwrap();
            }
        }
        31 => {
            let rows = store.oldest_trash(9).unwrap();
            if let Some((_, file)) = rows.get(a as usize % 9)
                && is_free
            {
                store.take_from_trash(*file, parent, name).unwrap();
            }
        }
        // A query that needs what was changed.
        _ => drop(store.children(FileId(1), "", 9).unwrap()),
    }
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
        assert_eq!(store.node(entry.id).unwrap().map(|node| node.entry()), Some(entry));
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
    let changes = (0u8..33, any::<u64>(), any::<u64>()).prop_map(|(what, a, b)| Change { what, a, b });
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
            project: String::new(),
            label: FileId(0),
            source_modified: None,
            live: ObjectId(0),
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
