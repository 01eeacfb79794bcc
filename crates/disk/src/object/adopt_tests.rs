use super::*;
use crate::{
    Limits,
    object::{
        scanner::Seen,
        walk::{Step, Walk},
    },
};
use base::{ErrorKind, FileId};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};
use wire::media::object::Holder;

struct Place {
    home: tempfile::TempDir,
    partition: Partition,
}

/// As a file system does that shares blocks.
fn copied(mut from: &File, mut to: &File) -> io::Result<()> {
    io::copy(&mut from, &mut to).map(drop)
}

/// As one does that does not.
fn not_shared(_: &File, _: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let partition = Partition::create(&home.path().join("p"), "f-1", "p").unwrap();
        fs::create_dir(home.path().join("old")).unwrap();
        Self { home, partition }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join("old").join(name)
    }

    fn write(&self, name: &str, content: &[u8]) -> Found {
        fs::write(self.file(name), content).unwrap();
        self.find(name)
    }

    fn find(&self, name: &str) -> Found {
        let old = self.home.path().join("old");
        let (mut walk, _) = Walk::new(std::slice::from_ref(&old), &old, self.partition.directory()).unwrap();
        loop {
            match walk.advance().expect("it is there") {
                Step::File(found) if found.path == Path::new(name) => return found,
                _ => {}
            }
        }
    }

    fn adopt_by(&self, clone: ShareBlocks, found: &Found, object: u64) -> Result<Option<ObjectInfo>> {
        self.partition.adopt_by(clone, found, ObjectId(object), &label(), Timestamp(7), |_| true)
    }

    fn adopt(&self, found: &Found, object: u64) -> ObjectInfo {
        self.adopt_by(not_shared, found, object).unwrap().unwrap()
    }

    fn is_clean(&self, object: u64) -> bool {
        self.partition.look(ObjectId(object)) == Seen::Missing
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.file(name)).unwrap().permissions().mode() & 0o7777
    }
}

fn label() -> Label {
    let (path, holder) = ("/new".parse().unwrap(), Holder::default());
    Label { file: FileId(3), path, generation: 1, holder, piece: None }
}

fn content() -> Vec<u8> {
    (0..3 * PIECE_BYTES as u32 + 5).map(|i| ((i * 7) >> 3) as u8).collect()
}

#[test]
fn a_linked_file_is_an_object_and_takes_no_room() {
    let place = Place::new();
    let found = place.write("a", &content());
    let info = place.adopt(&found, 1);
    assert_eq!((info.size, info.checksums), (content().len() as u64, Checksums::of(&content())));
    assert_eq!(place.partition.verify(ObjectId(1)).unwrap(), info);
    assert_eq!(fs::metadata(place.file("a")).unwrap().nlink(), 2, "it is one file");
    assert_eq!(place.partition.likeness(ObjectId(1), &found).unwrap(), ObjectMatch::Same);
    assert_eq!(place.adopt_by(not_shared, &found, 1).unwrap_err().kind, ErrorKind::Exists);
    // The old name stays, and nobody writes to it by mistake.
    assert_eq!(place.partition.part(ObjectId(1), &found, false).unwrap(), UnlinkOutcome::Well);
    assert_eq!((place.mode("a"), fs::read(place.file("a")).unwrap()), (0o444, content()));
    assert_eq!(place.partition.part(ObjectId(1), &place.find("a"), false).unwrap(), UnlinkOutcome::Well);
    // What is removed in the facility stays there by its old name.
    place.partition.remove(ObjectId(1)).unwrap();
    assert_eq!(fs::read(place.file("a")).unwrap(), content());
}

#[test]
fn a_clone_has_nothing_to_do_with_the_old_file_any_more() {
    let place = Place::new();
    let found = place.write("a", &content());
    place.adopt_by(copied, &found, 1).unwrap().unwrap();
    assert_eq!(place.partition.likeness(ObjectId(1), &found).unwrap(), ObjectMatch::Twin);
    assert_eq!(place.partition.part(ObjectId(1), &found, false).unwrap(), UnlinkOutcome::Well);
    assert_eq!(place.mode("a") & 0o200, 0o200);
    let object = ObjectId(1);
    assert_eq!(place.partition.has_content(object, &found, |_| true).unwrap(), Some(true));
    assert_eq!(place.partition.has_content(object, &found, |_| false).unwrap(), None);
    let other = place.write("a", b"other");
    assert_eq!(place.partition.likeness(object, &other).unwrap(), ObjectMatch::Other);
    assert_eq!(place.partition.has_content(object, &other, |_| true).unwrap(), Some(false));
    // The new content must not go with the old name.
    assert_eq!(place.partition.part(object, &found, true).unwrap_err().kind, ErrorKind::Busy);
    assert_eq!(fs::read(place.file("a")).unwrap(), b"other");
    place.partition.verify(object).unwrap();
}

#[test]
fn a_moved_file_loses_its_old_name() {
    let place = Place::new();
    for (object, clone) in [(1, not_shared as ShareBlocks), (2, copied)] {
        let found = place.write("a", &content());
        place.adopt_by(clone, &found, object).unwrap().unwrap();
        assert_eq!(place.partition.part(ObjectId(object), &found, true).unwrap(), UnlinkOutcome::Well);
        assert!(!place.file("a").exists());
        assert_eq!(
            place.partition.part(ObjectId(object), &found, true).unwrap(),
            UnlinkOutcome::Well,
            "twice"
        );
        place.partition.verify(ObjectId(object)).unwrap();
        // What has the name by now is somebody else's, even if it got the number of the inode that is gone.
        place.write("a", b"new");
        let again = place.partition.part(ObjectId(object), &found, true);
        assert!(
            again.as_ref().map_or_else(
                |failure| failure.kind == ErrorKind::Busy,
                |parted| *parted == UnlinkOutcome::Well
            )
        );
        assert_eq!(fs::read(place.file("a")).unwrap(), b"new");
    }
}

#[test]
fn a_file_that_changes_is_left_alone_whenever_that_is() {
    let place = Place::new();
    let found = place.write("a", &content());
    // Between the look and the read.
    fs::write(place.file("a"), b"short").unwrap();
    assert_eq!(place.adopt_by(not_shared, &found, 1).unwrap_err().kind, ErrorKind::Busy);
    assert!(place.is_clean(1));
    // While it is read.
    for clone in [not_shared as ShareBlocks, copied] {
        let found = place.write("a", &content());
        let grows = |_| {
            let mut file = OpenOptions::new().append(true).open(place.file("a")).unwrap();
            io::Write::write_all(&mut file, b"more").unwrap();
            true
        };
        let outcome = place.partition.adopt_by(clone, &found, ObjectId(1), &label(), Timestamp(7), grows);
        assert_eq!(outcome.unwrap_err().kind, ErrorKind::Busy);
        assert!(place.is_clean(1));
    }
    // After it was read, by the old name.
    let found = place.write("b", &content());
    place.adopt(&found, 1);
    fs::write(place.file("b"), b"damage").unwrap();
    for is_moving in [false, true] {
        assert_eq!(place.partition.part(ObjectId(1), &found, is_moving).unwrap(), UnlinkOutcome::Damaged);
    }
    assert!(place.file("b").exists());
    // Another one by the same name.
    let found = place.write("c", &content());
    fs::rename(place.file("c"), place.file("d")).unwrap();
    place.write("c", &content());
    assert_eq!(place.adopt_by(not_shared, &found, 2).unwrap_err().kind, ErrorKind::Busy);
}

#[test]
fn who_stops_in_the_middle_leaves_nothing() {
    let place = Place::new();
    let found = place.write("a", &content());
    let stop = |_| false;
    let outcome = place.partition.adopt(&found, ObjectId(1), &label(), Timestamp(7), stop);
    assert_eq!(outcome.unwrap(), None);
    assert!(place.is_clean(1));
    assert_eq!((fs::metadata(place.file("a")).unwrap().nlink(), place.mode("a") & 0o200), (1, 0o200));
    // What a daemon left that was killed is no obstacle.
    fs::hard_link(place.file("a"), place.partition.shared.incoming_data(ObjectId(1))).unwrap();
    place.adopt(&found, 1);
    assert_eq!(fs::read(place.file("a")).unwrap(), content(), "it was not written to");
}

#[test]
fn an_unfinished_commit_leaves_the_file_as_it_was() {
    let place = Place::new();
    let found = place.write("a", &content());
    for fatal in 0.. {
        let mut step = 0;
        durable::BEFORE_STEP.set(Some(Box::new(move |_| {
            step += 1;
            if step > fatal { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        })));
        let outcome = place.adopt_by(not_shared, &found, 1);
        durable::BEFORE_STEP.set(None);
        assert_eq!(fs::read(place.file("a")).unwrap(), content());
        if outcome.is_ok() {
            assert!(fatal > 5, "{fatal} steps");
            break;
        }
        // As the head has it done with what was not committed.
        place.partition.remove(ObjectId(1)).unwrap();
        assert!(place.is_clean(1));
    }
    place.partition.verify(ObjectId(1)).unwrap();
}

#[test]
fn what_is_adopted_counts_in_the_share_of_the_partition() {
    let place = Place::new();
    let directory = place.partition.directory().to_owned();
    let found = place.write("a", &[1; 60]);
    let Place { home, partition } = place;
    drop(partition);
    let limits = Limits { share_bytes: Some(100), reserved_bytes: 0 };
    let partition = Partition::open_limited(&directory, "f-1", limits).unwrap();
    let place = Place { home, partition };
    place.adopt(&found, 1);
    assert_eq!(place.partition.space().unwrap().free_bytes, 40);
    let failure = place.adopt_by(not_shared, &found, 2).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    assert!(place.is_clean(2));
    place.partition.remove(ObjectId(1)).unwrap();
    assert_eq!(place.partition.space().unwrap().free_bytes, 100);
}
