//! Live objects: what is refused, what survives, what is sealed.

use super::Seal;
use crate::{
    Limits, LiveObject, Partition,
    crash_tests::{copy_tree, with_steps},
};
use base::{ByteRange, Checksums, ErrorKind, FileId, ObjectId, Result, Timestamp};
use share::{Fence, Generation, Incarnation};
use std::{
    cell::RefCell,
    fs, io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use wire::{
    auth::capability::WHOLE,
    media::object::{Holder, Label},
};

const BASE: ObjectId = ObjectId(3);
const LIVE: ObjectId = ObjectId(0x107);
const OLD: Generation = Generation(1);
const NEW: Generation = Generation(2);

fn label() -> Label {
    let (file, holder) = (FileId(9), Holder { owner: "ada".into(), group: "g".into(), mode: 0o640 });
    Label { file, path: "/d/f".parse().unwrap(), generation: LIVE.0, holder, piece: None }
}

struct Place {
    root: tempfile::TempDir,
    partition: Option<Partition>,
}

impl Place {
    fn new() -> Self {
        Self::limited(Limits::default())
    }

    fn limited(limits: Limits) -> Self {
        let root = tempfile::tempdir().unwrap();
        drop(Partition::create(&root.path().join("p"), "f", "p1").unwrap());
        let partition = Some(Partition::open_limited(&root.path().join("p"), "f", limits).unwrap());
        Self { root, partition }
    }

    fn partition(&self) -> &Partition {
        self.partition.as_ref().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("p/live").join(name)
    }

    fn live(&self) -> Arc<LiveObject> {
        self.partition().live(LIVE).unwrap()
    }

    fn begun(&self) -> Arc<LiveObject> {
        let live = self.live();
        live.begin(None, None).unwrap();
        live
    }

    fn restart(&mut self) {
        self.partition = None;
        self.partition = Some(Partition::open(&self.root.path().join("p"), "f").unwrap());
    }

    fn base(&self, content: &[u8]) {
        let writer = self.partition().create_object(BASE).unwrap();
        writer.write_at(content, 0).unwrap();
        writer.commit(&label(), None, Timestamp(1)).unwrap();
    }

    fn begin_with_base(&self) -> Result<Arc<LiveObject>> {
        let live = self.live();
        live.begin(Some(&*self.partition().open_object(BASE)?), None)?;
        Ok(live)
    }
}

fn fence(generation: Generation, range: ByteRange) -> Fence {
    Fence { incarnation: Incarnation(1), generation, range, oldest: Generation(0) }
}

fn seal(partition: &Partition, size: u64) -> Result<wire::media::object::ObjectInfo> {
    partition.seal_live(LIVE, &Seal { label: &label(), size, base: None, now: Timestamp(5) })
}

fn content(live: &LiveObject) -> Vec<u8> {
    let mut buffer = vec![0; live.size().unwrap() as usize + 1];
    let count = live.read_at(&mut buffer, 0).unwrap();
    buffer.truncate(count);
    buffer
}

fn kind<T: std::fmt::Debug>(done: Result<T>) -> ErrorKind {
    done.unwrap_err().kind
}

#[test]
fn an_ended_grant_is_refused_everywhere_where_it_counted_and_the_next_one_writes() {
    let place = Place::new();
    let (one, other) = (place.begun(), place.live());
    assert!(Arc::ptr_eq(&one, &other));
    one.write_at(OLD, 0, b"0123456789").unwrap();
    other.fence(&fence(OLD, ByteRange { offset: 2, end: 4 })).unwrap();
    let refused = one.write_at(OLD, 0, b"stale").unwrap_err();
    assert_eq!(
        (refused.kind, refused.what.contains("grant 1 of object 263 has ended")),
        (ErrorKind::Locked, true)
    );
    assert_eq!(kind(one.truncate(OLD, 3)), ErrorKind::Locked);
    assert_eq!(kind(one.truncate(OLD, 0)), ErrorKind::Locked);
    assert_eq!(kind(one.sync(OLD, WHOLE)), ErrorKind::Locked);
    one.write_at(OLD, 4, b"old").unwrap();
    one.truncate(OLD, 9).unwrap();
    one.sync(OLD, ByteRange { offset: 4, end: 9 }).unwrap();
    one.write_at(NEW, 2, b"new").unwrap();
    one.sync(NEW, WHOLE).unwrap();
    assert_eq!(content(&one), b"01newld78");
    let replaced = Fence { incarnation: Incarnation(0), ..fence(NEW, WHOLE) };
    assert_eq!(kind(one.fence(&replaced)), ErrorKind::Invalid);
    one.write_at(NEW, 0, b"N").unwrap();
}

#[test]
fn no_admitted_write_is_under_way_when_a_fence_is_acknowledged() {
    let place = Place::new();
    let live = place.begun();
    live.write_at(OLD, 0, &[1; 4096]).unwrap();
    let is_fenced = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let was_fenced = is_fenced.load(Ordering::SeqCst);
                    match live.write_at(OLD, 0, &[1; 4096]) {
                        Ok(()) => assert!(!was_fenced),
                        Err(failure) => break assert_eq!(failure.kind, ErrorKind::Locked),
                    }
                }
            });
        }
        live.fence(&fence(OLD, WHOLE)).unwrap();
        is_fenced.store(true, Ordering::SeqCst);
        live.write_at(NEW, 0, &[2; 4096]).unwrap();
    });
    assert_eq!(content(&live), [2; 4096]);
}

#[test]
fn fences_survive_a_restart_and_so_does_what_was_not_sealed() {
    let mut place = Place::new();
    let live = place.begun();
    live.write_at(OLD, 0, b"bytes").unwrap();
    live.sync(OLD, WHOLE).unwrap();
    live.fence(&fence(OLD, WHOLE)).unwrap();
    drop(live);
    place.restart();
    let live = place.live();
    assert_eq!(content(&live), b"bytes");
    assert_eq!(kind(live.write_at(OLD, 0, b"stale")), ErrorKind::Locked);
    live.write_at(NEW, 0, b"B").unwrap();
}

#[test]
fn a_fence_comes_before_the_object_that_it_is_for() {
    let mut place = Place::new();
    place.live().fence(&fence(OLD, WHOLE)).unwrap();
    assert!(!place.live().is_begun());
    place.restart();
    let live = place.begun();
    assert_eq!(kind(live.write_at(OLD, 0, b"late")), ErrorKind::Locked);
    live.write_at(NEW, 0, b"new").unwrap();
    assert_eq!(fs::metadata(place.path("263")).unwrap().mode() & 0o1000, 0o1000);
}

#[test]
fn fences_that_are_damaged_or_lost_refuse_every_write_and_no_read() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("lost", |path| fs::remove_file(path).unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("short", |path| {
            let text = fs::read(path).unwrap();
            fs::write(path, &text[..text.len() - 1]).unwrap();
        }),
        ("longer", |path| {
            let text = fs::read(path).unwrap();
            fs::write(path, [&text, &b" "[..]].concat()).unwrap();
        }),
        ("a digit", |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replacen("\"version\":1", "\"version\":0", 1).replacen("[0,2]", "[0,1]", 1))
                .unwrap();
        }),
        ("of another", |path| {
            let partition = path.parent().unwrap().parent().unwrap();
            let other = partition.join("live/8.fences");
            fs::rename(&other, path).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let mut place = Place::new();
        let live = place.begun();
        live.write_at(OLD, 0, b"bytes").unwrap();
        live.fence(&fence(OLD, WHOLE)).unwrap();
        place.partition().live(ObjectId(8)).unwrap().fence(&fence(OLD, WHOLE)).unwrap();
        drop(live);
        damage(&place.path("263.fences"));
        place.restart();
        let live = place.live();
        for generation in [OLD, NEW, Generation(u64::MAX)] {
            assert_eq!(kind(live.write_at(generation, 0, b"x")), ErrorKind::Corrupt, "{name}");
            assert_eq!(kind(live.truncate(generation, 0)), ErrorKind::Corrupt, "{name}");
        }
        assert_eq!(kind(live.fence(&fence(NEW, WHOLE))), ErrorKind::Corrupt, "{name}");
        assert_eq!(kind(live.check_open()), ErrorKind::Corrupt, "{name}");
        assert_eq!(content(&live), b"bytes", "{name}");
        // To seal it writes nothing to it.
        assert_eq!(seal(place.partition(), 5).unwrap().checksums, Checksums::of(b"bytes"), "{name}");
    }
}

#[test]
fn it_begins_with_another_object_which_stays_as_it_is() {
    let place = Place::new();
    let before: Vec<u8> = (0..2_000_000_u32).map(|at| (at >> 3) as u8).collect();
    place.base(&before);
    let live = place.begin_with_base().unwrap();
    assert_eq!(content(&live), before);
    live.write_at(OLD, 1, b"changed").unwrap();
    place.partition().verify(BASE).unwrap();
    let again = place.begin_with_base().unwrap();
    assert_eq!(&content(&again)[..9], [&before[..1], b"changed", &before[8..9]].concat());
    assert!(!place.path("263.new").exists());
}

#[test]
fn a_rotten_object_is_not_blessed_by_a_live_one() {
    let place = Place::new();
    place.base(b"good bytes");
    let data = place.root.path().join("p/objects/03/3");
    fs::OpenOptions::new().write(true).open(data).unwrap().write_all_at(b"rot", 2).unwrap();
    assert_eq!(kind(place.begin_with_base()), ErrorKind::Corrupt);
    assert!(!place.live().is_begun());
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}

#[test]
fn whoever_reads_what_nobody_has_begun_reads_nothing_and_then_what_others_write() {
    let place = Place::new();
    let reader = place.live();
    assert_eq!((content(&reader), reader.size().unwrap()), (Vec::new(), 0));
    assert_eq!(kind(reader.write_at(OLD, 0, b"x")), ErrorKind::Invalid);
    place.begun().write_at(OLD, 3, b"abc").unwrap();
    assert_eq!(content(&reader), b"\0\0\0abc");
}

#[test]
fn a_sealed_object_is_one_like_others_and_refuses_every_write() {
    let mut place = Place::new();
    let live = place.begun();
    live.write_at(OLD, 0, b"committed, and not").unwrap();
    live.fence(&fence(OLD, WHOLE)).unwrap();
    let info = seal(place.partition(), 9).unwrap();
    assert_eq!((info.size, info.checksums), (9, Checksums::of(b"committed")));
    assert_eq!(info.label(), label());
    let partition = place.partition();
    assert_eq!(partition.verify(LIVE).unwrap(), info);
    assert_eq!(partition.objects().unwrap(), [LIVE]);
    // Readers go on, and whoever asks again is told the same.
    assert_eq!(content(&live), b"committed");
    assert_eq!(seal(partition, 9).unwrap(), info);
    partition.forget_fences(LIVE).unwrap();
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
    drop(live);
    for _ in 0..2 {
        let live = place.live();
        for generation in [OLD, NEW, Generation(u64::MAX)] {
            assert_eq!(kind(live.write_at(generation, 0, b"x")), ErrorKind::Locked);
            assert_eq!(kind(live.truncate(generation, 0)), ErrorKind::Locked);
        }
        assert_eq!(
            (kind(live.check_open()), kind(live.begin(None, None).and_then(|()| live.check_open()))),
            (ErrorKind::Locked, ErrorKind::Locked)
        );
        live.fence(&fence(NEW, WHOLE)).unwrap();
        assert_eq!(content(&live), b"committed");
        drop(live);
        place.restart();
    }
}

#[test]
fn an_object_that_nobody_has_begun_is_sealed_empty_or_as_its_base() {
    let place = Place::new();
    assert_eq!(seal(place.partition(), 0).unwrap().checksums, Checksums::EMPTY);
    let place = Place::new();
    place.base(b"the base");
    let order = Seal { label: &label(), size: 8, base: Some(BASE), now: Timestamp(5) };
    assert_eq!(place.partition().seal_live(LIVE, &order).unwrap().checksums, Checksums::of(b"the base"));
}

#[test]
fn what_is_shorter_than_what_was_committed_is_not_sealed_with_zeros() {
    let place = Place::new();
    assert_eq!(kind(seal(place.partition(), 1)), ErrorKind::Corrupt);
    let live = place.begun();
    live.write_at(OLD, 0, b"four").unwrap();
    assert_eq!(kind(seal(place.partition(), 5)), ErrorKind::Corrupt);
    // Nothing has changed: whoever has a grant may go on.
    live.write_at(OLD, 4, b"5").unwrap();
    seal(place.partition(), 5).unwrap();
}

#[test]
fn a_removed_object_refuses_everything_and_leaves_nothing() {
    let mut place = Place::new();
    let live = place.begun();
    live.write_at(OLD, 0, b"bytes").unwrap();
    live.fence(&fence(OLD, WHOLE)).unwrap();
    assert_eq!(place.partition().remove_all(&[LIVE]), [LIVE]);
    assert_eq!(kind(live.write_at(NEW, 0, b"x")), ErrorKind::NotFound);
    assert_eq!(kind(live.read_at(&mut [0; 4], 0)), ErrorKind::NotFound);
    assert_eq!(kind(live.sync(NEW, WHOLE)), ErrorKind::NotFound);
    assert_eq!(
        kind(place.live().begin(None, None).and_then(|()| place.live().check_open())),
        ErrorKind::NotFound
    );
    assert_eq!(kind(seal(place.partition(), 0)), ErrorKind::NotFound);
    live.fence(&fence(NEW, WHOLE)).unwrap();
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
    drop(live);
    place.restart();
    assert!(!place.live().is_begun());
    // What an earlier daemon left of one goes, too.
    place.begun().write_at(OLD, 0, b"bytes").unwrap();
    fs::write(place.path("263.new"), "rest").unwrap();
    place.restart();
    place.partition().remove(LIVE).unwrap();
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}

#[test]
fn scans_and_rolls_leave_live_objects_alone() {
    let mut place = Place::new();
    place.begun().write_at(OLD, 0, b"bytes").unwrap();
    place.live().fence(&fence(OLD, WHOLE)).unwrap();
    place.restart();
    assert_eq!((place.partition().list().count(), place.partition().objects().unwrap()), (0, Vec::new()));
    assert_eq!(content(&place.live()), b"bytes");
}

#[test]
fn a_full_partition_is_told_at_the_write_and_room_comes_back() {
    let limits = Limits { share_bytes: Some(100), reserved_bytes: 0 };
    let mut place = Place::limited(limits);
    let free = |place: &Place| place.partition().space().unwrap().free_bytes;
    let live = place.begun();
    live.write_at(OLD, 0, &[1; 60]).unwrap();
    assert_eq!(kind(live.write_at(OLD, 60, &[1; 41])), ErrorKind::NoSpace);
    assert_eq!(kind(live.truncate(OLD, 101)), ErrorKind::NoSpace);
    live.write_at(OLD, 0, &[2; 100]).unwrap();
    live.truncate(OLD, 30).unwrap();
    assert_eq!(free(&place), 70);
    drop(live);
    place.partition = None;
    place.partition = Some(Partition::open_limited(&place.root.path().join("p"), "f", limits).unwrap());
    assert_eq!(free(&place), 70);
    let live = place.live();
    live.write_at(OLD, 30, &[3; 10]).unwrap();
    seal(place.partition(), 20).unwrap();
    assert_eq!(free(&place), 80);
    place.partition().remove(LIVE).unwrap();
    assert_eq!(free(&place), 100);
    drop(live);
    place.begun().write_at(OLD, 0, &[1; 50]).unwrap();
    place.partition().remove(LIVE).unwrap();
    assert_eq!(free(&place), 100);
    let reserved = Place::limited(Limits { share_bytes: None, reserved_bytes: u64::MAX });
    assert_eq!(kind(reserved.begun().write_at(OLD, 0, b"x")), ErrorKind::NoSpace);
}

#[test]
fn a_sync_that_failed_is_told_to_all_until_nobody_has_the_object_open() {
    let place = Place::new();
    let live = place.begun();
    live.write_at(OLD, 0, b"bytes").unwrap();
    let refuse = |step: &str| if step == "sync data" { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) };
    assert_eq!(kind(with_steps(refuse, || live.sync(OLD, WHOLE))), ErrorKind::Io);
    assert_eq!(kind(place.live().sync(NEW, WHOLE)), ErrorKind::Io);
    drop(live);
    place.live().sync(NEW, WHOLE).unwrap();
}

/// What the callers of a life were promised so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    Nothing,
    Synced,
    Fenced,
    Sealed,
}

/// Begins an object as a copy of BASE, writes, fences, and seals it.
fn life(partition: &Partition, promise: &RefCell<Promise>) -> Result<()> {
    let live = partition.live(LIVE)?;
    live.begin(Some(&*partition.open_object(BASE)?), None)?;
    live.write_at(OLD, 0, b"NEW!")?;
    live.sync(OLD, WHOLE)?;
    *promise.borrow_mut() = Promise::Synced;
    live.fence(&fence(OLD, WHOLE))?;
    *promise.borrow_mut() = Promise::Fenced;
    seal(partition, 6)?;
    *promise.borrow_mut() = Promise::Sealed;
    Ok(())
}

/// Looks at what a life has left that was stopped, and ends it.
fn check(directory: &Path, promise: Promise, when: &str) {
    let partition = Partition::open(directory, "f").unwrap();
    partition.verify(BASE).unwrap();
    let live = partition.live(LIVE).unwrap();
    if promise >= Promise::Synced {
        assert_eq!(&content(&live)[..6], b"NEW!ba", "{when}");
    }
    if promise >= Promise::Fenced {
        assert_eq!(kind(live.write_at(OLD, 0, b"late")), ErrorKind::Locked, "{when}");
    }
    if promise == Promise::Sealed {
        assert!(partition.holds(LIVE), "{when}");
    }
    drop(live);
    if promise >= Promise::Fenced {
        // The order comes again.
        let info = seal(&partition, 6).unwrap_or_else(|failure| panic!("{when}: {failure}"));
        assert_eq!((info.size, info.checksums), (6, Checksums::of(b"NEW!ba")), "{when}");
        assert_eq!(partition.verify(LIVE).unwrap(), info, "{when}");
    }
    partition.remove(LIVE).unwrap();
    assert_eq!(partition.objects().unwrap(), [BASE], "{when}");
    let left = fs::read_dir(directory.join("live")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{when}");
    drop(partition);
    let partition = Partition::open(directory, "f").unwrap();
    life(&partition, &RefCell::new(Promise::Nothing)).unwrap_or_else(|failure| panic!("{when}: {failure}"));
}

#[test]
fn every_crash_point_of_a_life_keeps_what_was_promised() {
    let place = Place::new();
    place.base(b"the base");
    let promise = Rc::new(RefCell::new(Promise::Nothing));
    let snapshots: Rc<RefCell<Vec<(PathBuf, Promise, String)>>> = Rc::default();
    let (root, said, taken) = (place.root.path().to_owned(), Rc::clone(&promise), Rc::clone(&snapshots));
    let hook = move |step: &str| {
        let mut taken = taken.borrow_mut();
        let copy = root.join(format!("crash{}", taken.len()));
        copy_tree(&root.join("p"), &copy);
        let when = format!("before step {}, {step}", taken.len());
        taken.push((copy, *said.borrow(), when));
        Ok(())
    };
    with_steps(hook, || life(place.partition(), &promise)).unwrap();
    let snapshots = snapshots.borrow();
    assert!(snapshots.len() > 20, "only {} steps", snapshots.len());
    for (copy, promise, when) in snapshots.iter() {
        check(copy, *promise, when);
    }
}

#[test]
fn every_refused_step_of_a_life_is_told_and_keeps_what_was_promised() {
    for stays_broken in [false, true] {
        for refused in 0.. {
            let place = Place::new();
            place.base(b"the base");
            let promise = RefCell::new(Promise::Nothing);
            let mut count = 0;
            let hook = move |_: &str| {
                count += 1;
                let is_refused = count - 1 == refused || stays_broken && count > refused;
                if is_refused { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
            };
            let result = with_steps(hook, || life(place.partition(), &promise));
            let directory = place.root.path().join("p");
            let Place { root: _root, partition } = place;
            drop(partition);
            let promise = *promise.borrow();
            check(&directory, promise, &format!("step {refused} refused"));
            if result.is_ok() {
                assert!(
                    refused > 20 && promise == Promise::Sealed,
                    "step {refused} was refused and not told"
                );
                break;
            }
        }
    }
}

#[test]
fn an_object_that_no_catalogue_knows_is_sealed_as_it_is_if_it_says_of_which_file_it_is() {
    let mut place = Place::new();
    let label = Label { generation: LIVE.0, ..label() };
    let live = place.live();
    live.begin(None, Some(&label)).unwrap();
    live.write_at(Generation(1), 0, b"was not committed").unwrap();
    live.sync(Generation(1), WHOLE).unwrap();
    drop(live);
    place.restart();
    assert_eq!(place.partition().live_objects().unwrap(), [LIVE]);
    if let Err(failure) = place.partition().seal_orphan(LIVE) {
        assert_eq!(failure.kind, ErrorKind::NotFound, "this file system has no extended attributes");
        return;
    }
    let reader = place.partition().open_object(LIVE).unwrap();
    assert_eq!((reader.size(), reader.info().label()), (17, label));
    assert!(place.partition().live_objects().unwrap().is_empty());
}

#[test]
fn an_object_that_does_not_say_of_which_file_it_is_is_left_alone() {
    let mut place = Place::new();
    place.begun().write_at(Generation(1), 0, b"whose").unwrap();
    place.restart();
    assert_eq!(kind(place.partition().seal_orphan(LIVE)), ErrorKind::NotFound);
    assert_eq!(content(&place.live()), b"whose");
}
