//! A catalogue that went back to an older state has nothing deleted before an operator has looked.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod pieces;

use base::{ErrorKind, FileId, Millis, ObjectId, Result, Timestamp};
use head::{
    Apply, Context, Core, HeadConfig, Principal,
    store::{Catalogue, FacilityRow},
};
use pieces::stray_piece;
use proptest::prelude::*;
use std::{collections::BTreeMap, fs, path::Path};
use wire::{
    auth::{capability::CapKeys, token::TokenKey},
    control::{
        CatalogueMark, CatalogueState, CommitWrite, CompareCatalogue, CompareObjects, Described, DiskServer,
        Disposition, FoundObject, GetStatus, List, NextRemovals, OpenRead, OpenWrite, ReadGrant,
        RecoverCatalogue, RegisterPartition, Remove, ReportObjects, RunMaintenance, SettleCatalogue, Stat,
        WriteGrant,
    },
    media::object::{Holder, Label},
};

const START: Timestamp = Timestamp(1_700_000_000_000);

struct Place {
    directory: tempfile::TempDir,
    now: Timestamp,
}

impl Place {
    fn new() -> Self {
        // In memory where the host has it: these tests are not about what is durable.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (id, name, owner) = ("f".into(), "test".into(), "ada".into());
        let facility = FacilityRow { id, name, owner, created: START, incarnation: 0 };
        Core::create(&directory.path().join("c"), &facility).unwrap();
        Self { directory, now: START }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// A start of the head, with its disk server.
    fn start(&mut self) -> Core {
        self.now = self.now + Millis(1000);
        let mut core = Core::open(&self.file("c"), config(), self.now).unwrap();
        self.call(&mut core, self.registration("p")).unwrap();
        core
    }

    fn registration(&self, partition: &str) -> RegisterPartition {
        RegisterPartition {
            server: server(),
            boot: self.now.0 as u64,
            pool: "main".into(),
            partition: partition.into(),
            total_bytes: 1 << 30,
            free_bytes: 1 << 30,
        }
    }

    fn call<C: Apply>(&self, core: &mut Core, call: C) -> Result<C::Reply> {
        core.call(&Context { who: Principal::room("room"), now: self.now }, call)
    }

    fn write(&self, core: &mut Core, path: &str) -> WriteGrant {
        let path = path.parse().unwrap();
        let open = OpenWrite {
            path,
            mode: 0o644,
            disposition: Disposition::Replace,
            parents: true,
            expected_bytes: 1,
            source_modified: None,
        };
        let grant = self.call(core, open).unwrap();
        let (object, checksums) = (grant.object, base::Checksums::of(b"a"));
        self.call(core, CommitWrite { object, size: 1, checksums, mirrors: Vec::new(), pieces: Vec::new() })
            .unwrap();
        grant
    }

    fn compare(&self, core: &mut Core, seen: Option<CatalogueMark>) -> CatalogueState {
        self.call(core, CompareCatalogue { partition: "p".into(), seen }).unwrap()
    }

    /// The disk server says what it has, in pages of two; yields how many of them are unknown after it.
    fn tell(&self, core: &mut Core, objects: &[FoundObject]) -> u64 {
        self.tell_of(core, "p", objects)
    }

    /// The same of another partition, which is new.
    fn tell_more(&self, core: &mut Core, partition: &str, objects: &[FoundObject]) -> u64 {
        self.call(core, self.registration(partition)).unwrap();
        self.tell_of(core, partition, objects)
    }

    fn tell_of(&self, core: &mut Core, partition: &str, objects: &[FoundObject]) -> u64 {
        let pages: Vec<_> = objects.chunks(2).collect();
        for (at, page) in pages.iter().enumerate() {
            let (is_first, is_last, objects) = (at == 0, at + 1 == pages.len(), page.to_vec());
            let partition = partition.to_owned();
            self.call(core, CompareObjects { partition, is_first, is_last, objects }).unwrap();
        }
        self.call(core, GetStatus {}).unwrap().restored.unwrap().unknown()
    }

    /// The catalogue is lost, and an empty one takes in what is found.
    fn lose_the_catalogue(&mut self) -> Core {
        let _ = fs::remove_file(self.file("c"));
        let facility = FacilityRow {
            id: "f".into(),
            name: "test".into(),
            owner: "ada".into(),
            created: self.now,
            incarnation: 1,
        };
        Core::rebuild(&self.file("c"), &facility, self.now).unwrap();
        let mut core = self.start();
        assert!(!self.compare(&mut core, None).is_settled);
        self.call(&mut core, RecoverCatalogue {}).unwrap();
        core
    }

    /// A catalogue that is older than its disks and knows a coded file; what is found is taken in.
    fn older_catalogue(&mut self) -> Core {
        let mut core = self.lose_the_catalogue();
        let pieces: Vec<_> = (0..3).map(|index| stray_piece(6 + u64::from(index), index, 5)).collect();
        assert_eq!(self.tell(&mut core, &pieces), 0);
        self.call(&mut core, SettleCatalogue { unknown: 0, without_absent: false }).unwrap();
        let seen = CatalogueMark { epoch: 9, ..CatalogueMark::default() };
        assert!(!self.compare(&mut core, Some(seen)).is_settled);
        self.call(&mut core, RecoverCatalogue {}).unwrap();
        core
    }

    /// The names of a directory, with what the files have.
    fn names(&self, core: &mut Core, path: &str) -> BTreeMap<String, u32> {
        let list = List { path: path.parse().unwrap(), after: String::new() };
        let entries = self.call(core, list).map(|listing| listing.entries).unwrap_or_default();
        let sum = |sums: Option<base::Checksums>| sums.map_or(0, |sums| sums.crc32c.0);
        entries.into_iter().map(|entry| (entry.name, sum(entry.checksums))).collect()
    }

    /// All is known; the disk server says what it has, and what is too much goes.
    fn settle(&self, core: &mut Core, objects: &[u64]) {
        self.call(core, SettleCatalogue { unknown: 0, without_absent: false }).unwrap();
        for (partition, objects) in [("p", objects), ("q", &[70])] {
            let objects = objects.iter().copied().map(ObjectId).collect();
            let (partition, boot, after) = (partition.to_owned(), self.now.0 as u64, ObjectId(0));
            // Not every test has both.
            let _ = self.call(core, ReportObjects { partition, boot, after, upto: None, objects });
        }
        while self.call(core, RunMaintenance {}).unwrap().is_more {}
    }

    fn removals(&self, core: &mut Core) -> wire::control::Removals {
        self.call(core, NextRemovals { partition: "p".into() }).unwrap()
    }
}

fn config() -> HeadConfig {
    HeadConfig {
        keys: CapKeys::derive(&[7; 32]),
        tokens: TokenKey::derive(&[7; 32]),
        server: server(),
        pool: "main".into(),
    }
}

fn server() -> DiskServer {
    DiskServer { name: "h".into(), root: "h:1".into(), https: "h:2".into() }
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

fn found(object: ObjectId) -> FoundObject {
    FoundObject { object, size: 3, described: None }
}

/// An object that describes itself; its generation is its content.
fn stray(object: u64, file: u64, path: &str, generation: u64) -> FoundObject {
    let holder = Holder { owner: "bob".into(), group: "atlas".into(), mode: 0o640 };
    let label = Label { file: FileId(file), path: path.parse().unwrap(), generation, holder, piece: None };
    let content = generation.to_string();
    let checksums = base::Checksums::of(content.as_bytes());
    let described = Some(Described { label, checksums, written: Timestamp(START.0 + generation as i64) });
    FoundObject { object: ObjectId(object), size: content.len() as u64, described }
}

#[test]
fn a_head_that_goes_on_is_never_taken_for_an_older_one() {
    let mut place = Place::new();
    let mut seen = None;
    for _ in 0..3 {
        let mut core = place.start();
        for step in 0..3 {
            let state = place.compare(&mut core, seen);
            assert!(state.is_settled && Some(state.mark) >= seen, "{state:?} after {seen:?}");
            place.write(&mut core, &format!("/{step}"));
            place.now = place.now + Millis(60_000);
            seen = Some(place.removals(&mut core).mark);
        }
    }
}

#[test]
fn an_older_copy_is_noticed_by_what_a_disk_server_saw() {
    let mut place = Place::new();
    drop(place.start());
    let (catalogue, old) = (place.file("c"), place.file("old"));
    copy(&catalogue, &old);
    // Another start of the same number; a start that is not known; changes that are missing.
    let mut seen = Vec::new();
    for starts in 1..4 {
        copy(&old, &catalogue);
        for _ in 0..starts {
            let mut core = place.start();
            seen.push(place.compare(&mut core, None).mark);
        }
    }
    copy(&old, &catalogue);
    let mut core = place.start();
    let before = place.removals(&mut core).mark;
    drop(core);
    let stale = place.file("stale");
    copy(&catalogue, &stale);
    for mark in seen.into_iter().chain([CatalogueMark { tick: before.tick + 1, ..before }]) {
        copy(&stale, &catalogue);
        let mut core = place.start();
        assert!(place.compare(&mut core, Some(before)).is_settled);
        let state = place.compare(&mut core, Some(mark));
        assert!(!state.is_settled && state.mark.epoch == 1, "{mark:?} {state:?}");
        let reason = place.call(&mut core, GetStatus {}).unwrap().restored.unwrap().reason;
        assert!(reason.contains("disk server of p saw a newer state"), "{reason}");
        // It is noticed once.
        assert_eq!(place.compare(&mut core, Some(mark)).mark.epoch, 1);
        assert_eq!(place.compare(&mut core, Some(state.mark)).mark.epoch, 1);
    }
}

#[test]
fn nothing_is_deleted_until_an_operator_has_seen_what_is_unknown() {
    let mut place = Place::new();
    let mut core = place.start();
    let kept = place.write(&mut core, "/kept");
    // Being written when the copy is made, and acknowledged after.
    let path = "/late".parse().unwrap();
    let open = OpenWrite {
        path,
        mode: 0o644,
        disposition: Disposition::Replace,
        parents: true,
        expected_bytes: 1,
        source_modified: None,
    };
    let late = place.call(&mut core, open).unwrap();
    drop(core);
    let mut backup = Vec::new();
    let catalogue = Catalogue::File(place.file("c"));
    {
        let core = Core::open(&catalogue, config(), place.now);
        let (head, thread) = head::Head::start(core.unwrap(), std::sync::Arc::new(|| START)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let snapshot = runtime.block_on(head.snapshot()).unwrap();
        snapshot
            .write(&mut |part| {
                backup.extend(part);
                Ok(())
            })
            .unwrap();
        drop(head);
        thread.join().unwrap();
    }
    fs::remove_file(place.file("c")).unwrap();
    head::store::restore(&catalogue, Some("f"), &mut &backup[..], place.now).unwrap();

    let mut core = place.start();
    assert!(!place.compare(&mut core, None).is_settled);
    // The restart has given the write up, and a user removes a file.
    place.call(&mut core, Remove { path: "/kept".parse().unwrap() }).unwrap();
    assert_eq!(place.removals(&mut core).objects, []);
    let status = |core: &mut Core| place.call(core, GetStatus {}).unwrap().restored;
    let restored = status(&mut core).unwrap();
    assert_eq!((restored.unknown(), restored.absent()), (0, vec!["p"]));
    let new = place.write(&mut core, "/new");
    assert!(new.object > late.object);
    let objects = vec![found(kept.object), found(late.object), found(new.object)];
    for (is_first, is_last) in [(true, false), (true, true)] {
        let objects = objects.clone();
        place.call(&mut core, CompareObjects { partition: "p".into(), is_first, is_last, objects }).unwrap();
    }
    let restored = status(&mut core).unwrap();
    assert_eq!((restored.unknown(), restored.absent()), (2, vec![]));
    assert_eq!(restored.partitions[0].shown, [found(kept.object), found(late.object)]);

    let settle = |unknown| SettleCatalogue { unknown, without_absent: false };
    assert_eq!(place.call(&mut core, settle(0)).unwrap_err().kind, ErrorKind::Invalid);
    let user = Context { who: Principal { name: "bob".into(), ..Principal::user("bob") }, now: place.now };
    assert_eq!(core.call(&user, settle(2)).unwrap_err().kind, ErrorKind::Permission);
    assert_eq!(place.removals(&mut core).objects, []);
    place.call(&mut core, settle(2)).unwrap();
    assert!(status(&mut core).is_none());
    assert_eq!(place.removals(&mut core).objects, [], "what was to be deleted is kept");
    place.call(&mut core, Remove { path: "/new".parse().unwrap() }).unwrap();
    assert_eq!(place.removals(&mut core).objects, [new.object], "all is as usual");
    assert!(place.call(&mut core, settle(2)).is_err(), "there is nothing left to settle");
}

#[test]
fn who_has_not_said_what_lies_there_is_waited_for() {
    let mut place = Place::new();
    let mut core = place.start();
    let seen = CatalogueMark { epoch: 3, ..CatalogueMark::default() };
    assert_eq!(place.compare(&mut core, Some(seen)).mark.epoch, 4);
    let settle = |without_absent| SettleCatalogue { unknown: 0, without_absent };
    assert_eq!(place.call(&mut core, settle(false)).unwrap_err().kind, ErrorKind::Busy);
    place.call(&mut core, settle(true)).unwrap();
    assert!(place.compare(&mut core, Some(seen)).is_settled, "it is known that it went back");
}

#[test]
fn a_lost_catalogue_is_made_from_what_objects_say_of_themselves() {
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    let again = |object, first: &FoundObject| FoundObject { object: ObjectId(object), ..first.clone() };
    let first = stray(7, 3, "/data/run/a", 7);
    let objects =
        [first.clone(), stray(9, 4, "/b", 9), stray(12, 4, "/b", 12), found(ObjectId(20)), again(15, &first)];
    assert_eq!(place.tell(&mut core, &objects), 1, "what nobody can read");
    let info = place.call(&mut core, Stat { path: "/data/run/a".parse().unwrap() }).unwrap();
    let entry = info.entry;
    assert_eq!((entry.id, &*entry.owner, &*entry.group, entry.mode), (FileId(3), "bob", "atlas", 0o640));
    assert_eq!((entry.size, entry.modified, info.replicas.len()), (1, Timestamp(START.0 + 7), 2));
    let data = place.call(&mut core, Stat { path: "/data".parse().unwrap() }).unwrap().entry;
    assert_eq!(&*data.owner, "ada", "nobody knows whose directories were");
    let ReadGrant::Online(grant) = place.call(&mut core, OpenRead { path: "/b".parse().unwrap() }).unwrap()
    else {
        panic!("/b is not online");
    };
    assert_eq!((grant.object, grant.size), (ObjectId(12), 2));
    // What is written now gets numbers that nobody ever gave, and nothing is deleted.
    let new = place.write(&mut core, "/new");
    assert!(new.object.0 > 1 << 48 && new.file.0 > 1 << 48, "{new:?}");
    assert_eq!(place.removals(&mut core).objects, []);
    // It can be said again, and the head started again.
    drop(core);
    let mut core = place.start();
    assert_eq!(place.tell(&mut core, &objects), 2, "and by now an old content");
    let restored = place.call(&mut core, GetStatus {}).unwrap().restored.unwrap();
    assert_eq!((restored.recovered(), restored.absent()), (0, vec![]), "all that was taken in is known");
    place.call(&mut core, SettleCatalogue { unknown: 2, without_absent: false }).unwrap();
    place.call(&mut core, Remove { path: "/b".parse().unwrap() }).unwrap();
    assert_eq!(place.removals(&mut core).objects, [ObjectId(12)], "from now on all is as usual");
    let refused = place.call(&mut core, RecoverCatalogue {}).unwrap_err();
    assert!(refused.what.contains("nothing to recover"), "{refused}");
}

#[test]
fn what_is_known_and_later_stays_and_what_was_removed_does_not_come_back() {
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    place.tell(&mut core, &[stray(7, 3, "/a", 7), stray(8, 4, "/gone", 8)]);
    let new = place.write(&mut core, "/a");
    place.call(&mut core, Remove { path: "/gone".parse().unwrap() }).unwrap();
    let objects =
        [stray(7, 3, "/a", 7), stray(8, 4, "/gone", 8), stray(5, 9, "/a", 5), stray(6, 10, "/a/b", 6)];
    assert_eq!(place.tell(&mut core, &objects), 2, "an old content, and a removed file");
    assert_eq!(new.file, FileId(3), "the file was written once more");
    let aside = place.names(&mut core, "/lost+found");
    assert_eq!(aside.keys().collect::<Vec<_>>(), ["a.9", "b.10"]);
    let bob = Context { who: Principal::user("bob"), now: place.now };
    let list = List { path: "/lost+found".parse().unwrap(), after: String::new() };
    assert_eq!(core.call(&bob, list).unwrap_err().kind, ErrorKind::Permission);
    assert!(place.call(&mut core, Stat { path: "/gone".parse().unwrap() }).is_err());
}

#[test]
fn what_was_being_written_when_the_backup_was_made_is_taken_in() {
    let mut place = Place::new();
    let mut core = place.start();
    let open = OpenWrite {
        path: "/late".parse().unwrap(),
        mode: 0o644,
        disposition: Disposition::Replace,
        parents: true,
        expected_bytes: 1,
        source_modified: None,
    };
    let late = place.call(&mut core, open).unwrap();
    drop(core);
    // The head's file is put back to this state; meanwhile the write was acknowledged.
    let mut core = place.start();
    let seen = CatalogueMark { epoch: 3, ..CatalogueMark::default() };
    assert!(!place.compare(&mut core, Some(seen)).is_settled);
    drop(core);
    let mut core = place.start();
    place.call(&mut core, RecoverCatalogue {}).unwrap();
    let object = stray(late.object.0, late.file.0, "/late", late.object.0);
    assert_eq!(place.tell(&mut core, &[object]), 0);
    assert!(place.call(&mut core, OpenRead { path: "/late".parse().unwrap() }).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_in_which_objects_are_found_does_not_matter(
        writes in prop::collection::vec((0u64..4, 0usize..2), 1..10),
        order in Just((0..10usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        // Each file keeps its name; the numbers of writes grow.
        let name = |file: u64| ["/a", "/d/b"][(file % 2) as usize];
        let objects: Vec<_> = writes
            .iter()
            .enumerate()
            .flat_map(|(at, (file, replicas))| {
                let generation = 10 + 3 * at as u64;
                (0..=*replicas as u64).map(move |replica| stray(generation + replica, 3 + file, name(*file), generation))
            })
            .collect();
        let shuffled: Vec<_> =
            order.iter().flat_map(|at| objects.iter().skip(*at).step_by(10)).cloned().collect();
        prop_assert_eq!(shuffled.len(), objects.len());
        let outcome = |objects: &[FoundObject]| {
            let mut place = Place::new();
            let mut core = place.lose_the_catalogue();
            place.tell(&mut core, objects);
            ["/", "/d", "/lost+found"].map(|path| place.names(&mut core, path))
        };
        let (one, other) = (outcome(&objects), outcome(&shuffled));
        prop_assert_eq!(&one, &other);
        let files: std::collections::BTreeSet<_> = writes.iter().map(|(file, _)| file).collect();
        let found: usize = one.iter().flat_map(BTreeMap::values).filter(|sum| **sum != 0).count();
        prop_assert_eq!(found, files.len(), "every file is somewhere");
    }
}
