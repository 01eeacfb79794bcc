//! A catalogue that went back to an older state has nothing deleted before an operator has looked.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use base::{ErrorKind, Millis, ObjectId, Result, Timestamp};
use head::{
    Apply, Context, Core, HeadConfig, Principal,
    store::{Catalogue, FacilityRow},
};
use std::{fs, path::Path};
use wire::{
    cap::CapKeys,
    control::{
        CatalogueMark, CatalogueState, CommitWrite, CompareCatalogue, CompareObjects, DiskServer,
        Disposition, FoundObject, GetStatus, NextRemovals, OpenWrite, RegisterPartition, Remove,
        SettleCatalogue, WriteGrant,
    },
};

const START: Timestamp = Timestamp(1_700_000_000_000);

struct Place {
    directory: tempfile::TempDir,
    now: Timestamp,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
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
        let registration = RegisterPartition {
            server: server(),
            boot: self.now.0 as u64,
            pool: "main".into(),
            partition: "p".into(),
            total_bytes: 1 << 30,
            free_bytes: 1 << 30,
        };
        self.call(&mut core, registration).unwrap();
        core
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
        };
        let grant = self.call(core, open).unwrap();
        let (object, checksums) = (grant.object, base::Checksums::of(b"a"));
        self.call(core, CommitWrite { object, size: 1, checksums, mirrors: Vec::new() }).unwrap();
        grant
    }

    fn compare(&self, core: &mut Core, seen: Option<CatalogueMark>) -> CatalogueState {
        self.call(core, CompareCatalogue { partition: "p".into(), seen }).unwrap()
    }

    fn removals(&self, core: &mut Core) -> wire::control::Removals {
        self.call(core, NextRemovals { partition: "p".into() }).unwrap()
    }
}

fn config() -> HeadConfig {
    HeadConfig { keys: CapKeys::derive(&[7; 32]), server: server(), pool: "main".into() }
}

fn server() -> DiskServer {
    DiskServer { name: "h".into(), root: "h:1".into(), https: "h:2".into() }
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

fn found(object: ObjectId) -> FoundObject {
    FoundObject { object, path: Some("/f".parse().unwrap()), size: 3 }
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
        assert!(reason.contains("disk server of p saw a later state"), "{reason}");
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
    let open =
        OpenWrite { path, mode: 0o644, disposition: Disposition::Replace, parents: true, expected_bytes: 1 };
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
    let user = Context {
        who: Principal { name: "bob".into(), is_operator: false, groups: Vec::new() },
        now: place.now,
    };
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
