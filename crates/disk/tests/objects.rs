//! Partitions and objects through the public interface.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use base::{Checksums, ErrorKind, FileId, ObjectId, Timestamp, rng::Rng};
use disk::{EntryState, Limits, OBJECT_BYTES_MAX, ObjectWriter, Partition};
use proptest::prelude::*;
use std::{fs, path::Path, process::Command, thread};
use wire::media::object::{Holder, Label};

const FACILITY: &str = "f-1";

fn label(file: u64) -> Label {
    let holder = Holder { owner: "ada".into(), group: "ada".into(), mode: 0o644 };
    Label { file: FileId(file), path: "/data/a".parse().unwrap(), generation: 1, holder, piece: None }
}

fn partition(directory: &Path) -> Partition {
    Partition::create(directory, FACILITY, "p1").unwrap()
}

fn store(partition: &Partition, object: u64, content: &[u8]) {
    let writer = partition.create_object(ObjectId(object)).unwrap();
    writer.write_at(content, 0).unwrap();
    writer.commit(&label(object), None, Timestamp(1)).unwrap();
}

fn copy_of(partition: &Partition, object: ObjectId, base: ObjectId) -> ObjectWriter {
    let writer = partition.create_object(object).unwrap();
    partition.copy_into(&writer, base).unwrap();
    writer
}

fn read(partition: &Partition, object: u64) -> Vec<u8> {
    let reader = partition.open_object(ObjectId(object)).unwrap();
    let mut content = vec![0; reader.size() as usize + 10];
    let count = reader.read_at(&mut content, 0).unwrap();
    content.truncate(count);
    content
}

#[test]
fn only_the_right_partition_opens_and_only_once() {
    let root = tempfile::tempdir().unwrap();
    let empty = Partition::open(root.path(), FACILITY).unwrap_err();
    assert_eq!(empty.kind, ErrorKind::NotFound);
    assert!(empty.hint.unwrap().contains("mounted"));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "opening never initialises");

    let first = partition(root.path());
    let uuid = first.identity().uuid.clone();
    assert_eq!(uuid.len(), 32);
    assert_eq!(Partition::open(root.path(), FACILITY).unwrap_err().kind, ErrorKind::Busy);
    drop(first);
    assert_eq!(Partition::open(root.path(), "other").unwrap_err().kind, ErrorKind::Permission);
    assert_eq!(Partition::create(root.path(), FACILITY, "p1").unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(Partition::open(root.path(), FACILITY).unwrap().identity().uuid, uuid);

    fs::write(root.path().join("partition.json"), b"{").unwrap();
    assert_eq!(Partition::open(root.path(), FACILITY).unwrap_err().kind, ErrorKind::Corrupt);
    for bad in ["", "a/b", "..\n", &"x".repeat(65)] {
        assert_eq!(Partition::create(root.path(), FACILITY, bad).unwrap_err().kind, ErrorKind::Invalid);
    }
}

#[test]
fn an_object_is_there_after_commit_and_gone_after_remove() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    let writer = partition.create_object(ObjectId(7)).unwrap();
    writer.write_at(b"456789", 3).unwrap();
    writer.write_at(b"123", 0).unwrap();
    let mut back = [0; 4];
    assert_eq!(writer.read_at(&mut back, 2).unwrap(), 4);
    assert_eq!(&back, b"3456");
    assert_eq!(partition.open_object(ObjectId(7)).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(partition.create_object(ObjectId(7)).unwrap_err().kind, ErrorKind::Busy);
    assert_eq!(partition.remove(ObjectId(7)).unwrap_err().kind, ErrorKind::Busy);
    let expected = Some((9, Checksums::of(b"123456789")));
    let info = writer.commit(&label(1), expected, Timestamp(5)).unwrap();
    assert_eq!(info.checksums, Checksums::of(b"123456789"));
    assert_eq!(writer.write_at(b"x", 0).unwrap_err().kind, ErrorKind::Invalid);
    drop(writer);
    assert_eq!(read(&partition, 7), b"123456789");
    assert_eq!(partition.verify(ObjectId(7)).unwrap(), info);
    assert_eq!(partition.create_object(ObjectId(7)).unwrap_err().kind, ErrorKind::Exists);

    let reader = partition.open_object(ObjectId(7)).unwrap();
    partition.remove(ObjectId(7)).unwrap();
    partition.remove(ObjectId(7)).unwrap();
    let mut still = [0; 9];
    assert_eq!(reader.read_at(&mut still, 0).unwrap(), 9);
    assert_eq!(partition.list().count(), 0);
}

#[test]
fn a_wrong_object_is_refused_and_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    let writer = partition.create_object(ObjectId(7)).unwrap();
    writer.write_at(b"hallo", 0).unwrap();
    let expected = Some((5, Checksums::of(b"hello")));
    let failure = writer.commit(&label(1), expected, Timestamp(5)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    let sum = Checksums::of(b"hello").adler32.to_string();
    assert!(failure.what.contains("object 7") && failure.what.contains(&sum), "{failure}");
    assert_eq!(writer.commit(&label(1), None, Timestamp(5)).unwrap_err().kind, ErrorKind::Invalid);
    drop(writer);
    assert_eq!(partition.list().count(), 0);
    let writer = partition.create_object(ObjectId(7)).unwrap();
    writer.abandon();
    assert!(writer.write_at(b"x", 0).is_err());
    drop(writer);
    assert_eq!(partition.list().count(), 0);
}

#[test]
fn offsets_beyond_the_largest_object_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    let writer = partition.create_object(ObjectId(7)).unwrap();
    for offset in [OBJECT_BYTES_MAX, u64::MAX - 1, u64::MAX] {
        assert_eq!(writer.write_at(b"ab", offset).unwrap_err().kind, ErrorKind::Invalid);
    }
    assert_eq!(writer.truncate(OBJECT_BYTES_MAX + 1).unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(writer.preallocate(u64::MAX).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn a_hole_left_by_truncation_is_summed_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    let writer = partition.create_object(ObjectId(7)).unwrap();
    writer.write_at(&[1; 100], 0).unwrap();
    writer.truncate(50).unwrap();
    writer.write_at(&[2; 20], 100).unwrap();
    let mut content = vec![1; 50];
    content.extend([0; 50]);
    content.extend([2; 20]);
    let expected = Some((120, Checksums::of(&content)));
    writer.commit(&label(1), expected, Timestamp(1)).unwrap();
    assert_eq!(read(&partition, 7), content);
}

#[test]
fn rot_is_found_and_never_blessed_by_an_update() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    store(&partition, 7, &[7; 10_000]);
    let data = root.path().join("objects/07/7");
    let mut rotten = vec![7; 10_000];
    rotten[5_000] = 8;
    fs::write(&data, &rotten).unwrap();
    assert_eq!(partition.verify(ObjectId(7)).unwrap_err().kind, ErrorKind::Corrupt);
    let writer = copy_of(&partition, ObjectId(8), ObjectId(7));
    writer.write_at(b"x", 0).unwrap();
    let failure = writer.commit(&label(1), None, Timestamp(1)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.contains("object 7"), "{failure}");

    fs::write(&data, &rotten[1..]).unwrap();
    assert_eq!(partition.open_object(ObjectId(7)).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn an_untouched_copy_keeps_the_sums_of_its_base() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    store(&partition, 7, b"123456789");
    let writer = copy_of(&partition, ObjectId(8), ObjectId(7));
    writer.commit(&label(1), Some((9, Checksums::of(b"123456789"))), Timestamp(1)).unwrap();
    let writer = copy_of(&partition, ObjectId(9), ObjectId(7));
    writer.truncate(0).unwrap();
    writer.write_at(b"123", 0).unwrap();
    writer.commit(&label(1), Some((3, Checksums::of(b"123"))), Timestamp(1)).unwrap();
    assert_eq!(read(&partition, 7), b"123456789");
    assert_eq!(read(&partition, 8), b"123456789");
    let empty = partition.create_object(ObjectId(10)).unwrap();
    let missing = partition.copy_into(&empty, ObjectId(99)).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
}

#[test]
fn the_list_tells_leftovers_damage_and_strangers_apart() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    for object in 1..=4 {
        store(&partition, object, b"content");
    }
    let objects = root.path().join("objects");
    fs::remove_file(objects.join("02/2")).unwrap();
    fs::remove_file(objects.join("03/3.json")).unwrap();
    fs::write(objects.join("04/4.json"), b"{}").unwrap();
    fs::write(objects.join("04/007"), b"x").unwrap();
    fs::write(root.path().join("incoming/5"), b"half").unwrap();
    let live = partition.create_object(ObjectId(6)).unwrap();
    let states: Vec<_> = partition
        .list()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.object.map(|object| object.0), entry.size, entry.state))
        .collect();
    assert!(matches!(&states[0], (Some(1), 7, EntryState::Complete(info)) if info.object == ObjectId(1)));
    assert_eq!(states[1], (Some(2), 0, EntryState::Described));
    assert!(matches!(&states[2], (Some(3), 7, EntryState::Damaged(_))));
    assert!(matches!(&states[3], (Some(4), 7, EntryState::Damaged(_))));
    assert_eq!(states[4], (None, 1, EntryState::Foreign));
    assert_eq!(states[5], (Some(5), 4, EntryState::Unfinished));
    assert_eq!(states[6], (Some(6), 0, EntryState::Writing));
    drop(live);
    // What an earlier daemon left is no obstacle.
    store(&partition, 5, b"whole");
    assert_eq!(read(&partition, 5), b"whole");
}

#[test]
fn a_share_is_never_exceeded_and_is_counted_again_at_the_start() {
    let root = tempfile::tempdir().unwrap();
    drop(partition(root.path()));
    let limits = Limits { share_bytes: Some(1000), reserved_bytes: 0 };
    let partition = Partition::open_limited(root.path(), FACILITY, limits).unwrap();
    store(&partition, 1, &[1; 600]);
    let writer = partition.create_object(ObjectId(2)).unwrap();
    let full = writer.preallocate(500).unwrap_err();
    assert_eq!(full.kind, ErrorKind::NoSpace);
    assert!(full.hint.is_some());
    writer.write_at(&[2; 400], 0).unwrap();
    assert_eq!(writer.write_at(&[2; 1], 400).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(partition.space().unwrap().free_bytes, 0);
    drop(writer);
    assert_eq!(partition.space().unwrap().free_bytes, 400);
    let writer = partition.create_object(ObjectId(3)).unwrap();
    writer.preallocate(300).unwrap();
    writer.write_at(b"short", 0).unwrap();
    writer.commit(&label(1), None, Timestamp(1)).unwrap();
    drop(writer);
    assert_eq!(partition.space().unwrap().free_bytes, 395);
    drop(partition);
    let partition = Partition::open_limited(root.path(), FACILITY, limits).unwrap();
    assert_eq!(partition.space().unwrap().free_bytes, 395);
    partition.remove(ObjectId(1)).unwrap();
    assert_eq!(partition.space().unwrap().free_bytes, 995);
}

#[test]
fn room_taken_in_advance_is_given_back_and_the_write_goes_on() {
    let root = tempfile::tempdir().unwrap();
    drop(partition(root.path()));
    let limits = Limits { share_bytes: Some(1000), reserved_bytes: 0 };
    let partition = Partition::open_limited(root.path(), FACILITY, limits).unwrap();
    let writer = partition.create_object(ObjectId(1)).unwrap();
    writer.preallocate(900).unwrap();
    writer.write_at(&[1; 100], 0).unwrap();
    assert_eq!(partition.space().unwrap().free_bytes, 100);
    writer.release_unused().unwrap();
    writer.release_unused().unwrap();
    assert_eq!((partition.space().unwrap().free_bytes, writer.size().unwrap()), (900, 100));
    writer.write_at(&[2; 300], 100).unwrap();
    store(&partition, 2, &[3; 600]);
    assert_eq!(writer.write_at(&[2; 1], 400).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(writer.commit(&label(1), None, Timestamp(1)).unwrap().size, 400);
    assert!(writer.release_unused().is_err(), "it is over");
    assert_eq!(partition.space().unwrap().free_bytes, 0);
}

/// A file system of half a mebibyte, if we may mount one.
struct TinyDisk<'a>(&'a Path);

impl<'a> TinyDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mount = ["-t", "tmpfs", "-o", "size=512k", "tmpfs"];
        let done = Command::new("mount").args(mount).arg(at).output().is_ok_and(|out| out.status.success());
        done.then_some(Self(at))
    }
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_says_so_and_recovers() {
    let root = tempfile::tempdir().unwrap();
    let Some(_disk) = TinyDisk::mount(root.path()) else {
        println!("skipped: mounting a tiny file system needs root");
        return;
    };
    let partition = partition(root.path());
    store(&partition, 1, &[1; 100_000]);
    let writer = partition.create_object(ObjectId(2)).unwrap();
    let full = (0..100u64).find_map(|piece| writer.write_at(&[2; 10_000], piece * 10_000).err()).unwrap();
    assert_eq!(full.kind, ErrorKind::NoSpace);
    assert!(full.hint.is_some(), "{full:?}");
    let other = partition.create_object(ObjectId(3)).unwrap();
    assert_eq!(other.preallocate(400_000).unwrap_err().kind, ErrorKind::NoSpace);
    drop((writer, other));
    assert_eq!(read(&partition, 1), vec![1; 100_000]);
    store(&partition, 3, &[3; 200_000]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn writes_from_many_threads_end_in_the_sum_of_the_file(
        seed: u64, threads in 1usize..5, writes in 1usize..40, from_base: bool,
    ) {
        const SIZE: u64 = 200_000;
        let root = tempfile::tempdir().unwrap();
        let partition = partition(root.path());
        let object = ObjectId(0xabc);
        let writer = if from_base {
            store(&partition, 1, &[9; SIZE as usize / 2]);
            copy_of(&partition, object, ObjectId(1))
        } else {
            partition.create_object(object).unwrap()
        };
        thread::scope(|scope| {
            for lane in 0..threads as u64 {
                let writer = &writer;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed ^ lane << 32);
                    for _ in 0..writes {
                        let length = rng.below(20_000) as usize;
                        let piece = vec![rng.next_u64() as u8; length];
                        writer.write_at(&piece, rng.below(SIZE)).unwrap();
                        if rng.chance(1, 10) {
                            writer.truncate(rng.below(SIZE)).unwrap();
                        }
                    }
                });
            }
        });
        let info = writer.commit(&label(1), None, Timestamp(1)).unwrap();
        let content = read(&partition, object.0);
        prop_assert_eq!(info.size, content.len() as u64);
        prop_assert_eq!(info.checksums, Checksums::of(&content));
        prop_assert!(partition.verify(object).is_ok());
    }

    #[test]
    fn disjoint_pieces_in_any_order_give_exactly_the_file(seed: u64, piece in 1usize..5000) {
        let mut rng = Rng::new(seed);
        let content: Vec<u8> = (0..60_000).map(|_| rng.next_u64() as u8).collect();
        let mut pieces: Vec<_> = content.chunks(piece).enumerate().collect();
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let root = tempfile::tempdir().unwrap();
        let partition = partition(root.path());
        let writer = partition.create_object(ObjectId(5)).unwrap();
        thread::scope(|scope| {
            for lane in pieces.chunks(pieces.len().div_ceil(3)) {
                let writer = &writer;
                scope.spawn(move || {
                    for (index, bytes) in lane {
                        writer.write_at(bytes, (index * piece) as u64).unwrap();
                    }
                });
            }
        });
        let expected = Some((content.len() as u64, Checksums::of(&content)));
        writer.commit(&label(1), expected, Timestamp(1)).unwrap();
        prop_assert!(read(&partition, 5) == content);
    }

    #[test]
    fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100), name in "[0-9+.json]{0,12}") {
        disk::object::list::fuzz_name(&data);
        disk::object::list::fuzz_name(name.as_bytes());
        disk::object::partition::fuzz_identity(&data);
        disk::object::index::fuzz_index(&data);
        disk::object::live::fuzz_fences(&data);
    }

    #[test]
    fn damaged_identities_never_panic(at in 0usize..200, byte: u8) {
        let text = br#"{"version":1,"facility":"f-1","partition":"p1","uuid":"00"}"#;
        let mut text = text.to_vec();
        let at = at % text.len();
        text[at] = byte;
        disk::object::partition::fuzz_identity(&text);
    }
}

#[test]
fn many_objects_are_removed_together_but_not_those_in_use() {
    let root = tempfile::tempdir().unwrap();
    let partition = partition(root.path());
    for object in 1..=300 {
        store(&partition, object, b"content");
    }
    let writer = partition.create_object(ObjectId(301)).unwrap();
    let wanted: Vec<_> = (1..=302).map(ObjectId).collect();
    let mut gone = partition.remove_all(&wanted);
    gone.sort();
    // Number 302 was never there: that is as good as removed.
    let expected: Vec<_> = (1..=300).chain([302]).map(ObjectId).collect();
    assert_eq!(gone, expected);
    assert!(partition.list().all(|entry| entry.unwrap().state == EntryState::Writing));
    drop(writer);
    assert_eq!(partition.remove_all(&[ObjectId(301)]), [ObjectId(301)]);
    assert!(partition.open_object(ObjectId(1)).is_err());
}
