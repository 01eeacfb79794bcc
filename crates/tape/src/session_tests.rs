use super::*;
use crate::{
    changer::{Changer, ElementKind},
    fake::{FakeHead, MemoryDisk, label_orders, style, vid},
    virtual_drive::DriveOptions,
    virtual_library::VirtualLibrary,
    watchdog::Deadlines,
};
use base::{ErrorKind, Failure};
use proptest::prelude::*;
use std::{fs, path::PathBuf};
use wire::control::FilesArchived;

const BLOCK_BYTES: u32 = 512;
/// Bytes of the image of a labelled, empty volume: two labels and a mark.
const LABELLED_BYTES: u64 = 2 * (6 + 80) + 6;

/// A library with one drive, three slots and two volumes; a head and a disk in memory.
pub(super) struct World {
    dir: tempfile::TempDir,
    options: DriveOptions,
    pub(super) head: FakeHead,
    pub(super) disk: MemoryDisk,
    pub(super) bay: Option<Bay<FakeHead, MemoryDisk>>,
    pub(super) sessions: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_options(DriveOptions::default())
    }

    /// BP0001 is labelled.
    fn with_options(options: DriveOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        VirtualLibrary::create(dir.path().join("lib"), 1, 3, &[vid(1), vid(2)]).unwrap();
        let (head, disk) = (FakeHead::default(), MemoryDisk::default());
        let mut world = Self { dir, options, head, disk, bay: None, sessions: 0 };
        world.run(&label_orders(1));
        assert_eq!(world.head.trouble(), None);
        world
    }

    /// The bay, started if it is not running.
    pub(super) fn bay(&mut self) -> &mut Bay<FakeHead, MemoryDisk> {
        self.bay.get_or_insert_with(|| {
            let library =
                VirtualLibrary::open(self.dir.path().join("lib")).unwrap().with_options(self.options);
            let drive = library.drive(0).unwrap();
            let watchdog = Watchdog::new(Deadlines::default());
            Bay {
                drive: WatchedDrive::new(Box::new(drive), watchdog.clone()),
                watchdog,
                robot: Robot::new(Box::new(library)),
                head: Arc::new(self.head.clone()),
                disk: Arc::new(self.disk.clone()),
                style: style(BLOCK_BYTES),
                activity: Activity::default(),
                stop: Stop::default(),
            }
        })
    }

    pub(super) fn run(&mut self, orders: &TapeSession) {
        run(self.bay(), orders);
        assert!(self.bay().activity.now().is_none());
    }

    pub(super) fn archive(&mut self, requests: &[u64]) {
        self.sessions += 1;
        let orders = self.head.lock().archive(self.sessions, &self.disk, requests);
        self.run(&orders);
    }

    pub(super) fn recall(&mut self, requests: &[u64]) {
        self.sessions += 1;
        let orders = self.head.lock().recall(self.sessions, &self.disk, requests);
        self.run(&orders);
    }

    /// Puts files of these sizes on disk, numbered from `first`; returns their requests.
    pub(super) fn files(&self, first: u64, sizes: &[usize]) -> Vec<u64> {
        let numbered = sizes.iter().zip(first..);
        numbered
            .map(|(size, request)| {
                self.disk.put(request, *size);
                request
            })
            .collect()
    }

    pub(super) fn acknowledged(&self) -> Vec<u64> {
        self.head.lock().copies.keys().copied().collect()
    }

    /// Bytes of the image that were synced before the head acknowledged the last file in them. They are what no crash
    /// takes away; every later byte may be lost or half there.
    fn acknowledged_bytes(&self) -> u64 {
        let head = self.head.lock();
        // The fake head logs a call only when it did not refuse it.
        let reports = head.log.iter().rev().filter(|(call, _)| *call == FilesArchived::NAME);
        reports.map(|(_, report)| report["used_bytes"].as_u64().unwrap()).next().unwrap_or(0)
    }

    pub(super) fn image(&self) -> PathBuf {
        self.dir.path().join("lib/drive/0/BP0001.aws")
    }
}

#[test]
fn files_go_to_tape_and_come_back() {
    let mut world = World::new();
    let files = world.files(1, &[0, 1, 512, 70_000]);
    world.archive(&files);
    assert_eq!((world.head.trouble(), world.head.failed()), (None, Vec::new()));
    assert_eq!(world.acknowledged(), files);
    world.recall(&files);
    assert_eq!(world.head.trouble(), None);
    assert_eq!(world.head.count("file_recalled"), 4);
    assert!(files.iter().all(|request| world.disk.is_recalled(*request)));
    let more = world.files(10, &[9]);
    world.archive(&more);
    world.recall(&more);
    assert_eq!(world.head.trouble(), None);
    assert!(world.disk.is_recalled(10));
}

#[test]
fn a_copy_is_reported_after_the_flush() {
    let mut world = World::new();
    let files = world.files(1, &[100, 200]);
    world.archive(&files);
    // What a crash leaves now is what the head believes.
    world.bay = None;
    assert_eq!(world.head.count("files_archived"), 1);
    world.recall(&files);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn the_volume_in_the_drive_goes_back_to_a_slot() {
    let mut world = World::new();
    let mut orders = label_orders(2);
    orders.vid = vid(2);
    world.run(&orders);
    let mut library = VirtualLibrary::open(world.dir.path().join("lib")).unwrap();
    let inventory = library.inventory().unwrap();
    let place = |number| crate::changer::element_of(&inventory, &vid(number)).unwrap().kind;
    assert_eq!((place(1), place(2)), (ElementKind::Slot, ElementKind::Drive));
    orders.vid = vid(3);
    world.run(&orders);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.kind), (Blame::Volume, ErrorKind::NotFound));
}

#[test]
fn loads_are_counted() {
    let mut world = World::new();
    let files = world.files(1, &[10]);
    world.archive(&files);
    let log = world.head.lock();
    let ends = log.log.iter().filter(|(call, _)| *call == "end_tape_session");
    let loads: Vec<_> = ends.map(|(_, end)| end["loads"].as_u64().unwrap()).collect();
    assert_eq!(loads, [1, 0]);
}

#[test]
fn swapped_cartridges_are_noticed() {
    let mut world = World::new();
    let files = world.files(1, &[10]);
    world.archive(&files);
    world.bay = None;
    let lib = world.dir.path().join("lib");
    fs::rename(world.image(), lib.join("slot/0003/BP0009.aws")).unwrap();
    fs::rename(lib.join("slot/0002/BP0002.aws"), world.image()).unwrap();
    fs::rename(lib.join("slot/0003/BP0009.aws"), lib.join("slot/0002/BP0002.aws")).unwrap();
    world.recall(&files);
    assert_eq!(world.head.trouble().unwrap().0, Blame::Volume);
    let mut orders = label_orders(3);
    orders.vid = vid(2);
    world.run(&orders);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.kind), (Blame::Volume, ErrorKind::Exists));
}

#[test]
fn a_bad_replica_stops_nobody_else() {
    for bad in [1, 2, 3] {
        let mut world = World::new();
        let files = world.files(1, &[3000, 3000, 3000]);
        world.disk.lock().believed.insert(bad, vec![7; 3000]);
        world.archive(&files);
        assert_eq!(world.head.failed(), [(bad, Blame::File, ErrorKind::Corrupt)]);
        assert_eq!(world.head.trouble(), None);
        let good: Vec<_> = files.into_iter().filter(|request| *request != bad).collect();
        assert_eq!(world.acknowledged(), good);
        world.recall(&good);
        // Nothing is left behind the end, so the head's belief that all is well is right.
        let more = world.files(10, &[100]);
        world.archive(&more);
        assert_eq!(world.head.trouble(), None);
        world.recall(&[good, more].concat());
        assert_eq!(world.head.trouble(), None);
    }
}

#[test]
fn disk_servers_that_are_gone_end_a_session_after_a_while() {
    let mut world = World::new();
    let files = world.files(1, &[100, 100, 100, 100, 100, 100]);
    world.disk.lock().gone.extend([2, 4, 5, 6].map(|n| format!("source{n}")));
    world.archive(&files);
    let unavailable = |request| (request, Blame::System, ErrorKind::Unavailable);
    assert_eq!(world.head.failed(), [2, 4, 5, 6].map(unavailable));
    assert_eq!(world.head.trouble().unwrap().0, Blame::System);
    // What was written before is safe.
    assert_eq!(world.acknowledged(), [1, 3]);
    world.disk.lock().gone.insert("sink1".to_owned());
    world.recall(&[1, 3]);
    assert_eq!(world.head.trouble(), None);
    assert_eq!(world.head.failed().last(), Some(&unavailable(1)));
    assert!(!world.disk.is_recalled(1) && world.disk.is_recalled(3));
}

#[test]
fn damage_on_tape_makes_no_file_and_blames_the_volume() {
    let mut world = World::new();
    let files = world.files(1, &[3000, 3000]);
    world.archive(&files);
    world.bay = None;
    let mut image = fs::read(world.image()).unwrap();
    let data = world.disk.lock().objects["source2"].clone();
    let at = image.windows(100).position(|window| *window == data[512..612]).unwrap();
    image[at] ^= 1;
    fs::write(world.image(), image).unwrap();
    world.recall(&files);
    assert_eq!(world.head.failed(), [(2, Blame::Volume, ErrorKind::Corrupt)]);
    assert_eq!(world.head.trouble().unwrap().0, Blame::Volume);
    assert!(world.disk.is_recalled(1));
    assert!(!world.disk.lock().objects.contains_key("sink2"));
}

#[test]
fn a_full_volume_is_told_and_nothing_is_lost() {
    let options = DriveOptions {
        capacity_bytes: 50_000,
        early_warning_bytes: 12_000,
        buffer_bytes: 1,
        ..DriveOptions::default()
    };
    let mut world = World::with_options(options);
    let files = world.files(1, &[20_000, 17_500, 100]);
    world.archive(&files);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.kind), (Blame::Volume, ErrorKind::NoSpace));
    assert_eq!(world.acknowledged(), [1, 2]);
    let huge = world.files(9, &[60_000]);
    world.archive(&huge);
    assert_eq!(world.head.failed(), [(9, Blame::Volume, ErrorKind::NoSpace)]);
    world.recall(&[1, 2]);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn a_head_that_is_away_for_a_moment_loses_nothing() {
    let mut world = World::new();
    let files = world.files(1, &[100]);
    let away = Failure::unavailable("the head is starting");
    world.head.lock().refusals.insert("files_archived", (away, 2));
    world.archive(&files);
    assert_eq!((world.head.trouble(), world.acknowledged()), (None, files));
}

#[test]
fn a_report_that_is_refused_leaves_the_copies_unknown() {
    let mut world = World::new();
    let files = world.files(1, &[5000]);
    let closed = Failure::not_found("no such session");
    world.head.lock().refusals.insert("files_archived", (closed, 1));
    world.archive(&files);
    assert_eq!(world.head.trouble().unwrap().0, Blame::System);
    assert!(world.acknowledged().is_empty());
    let again = world.files(2, &[10, 20]);
    world.archive(&again);
    world.recall(&again);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn leftovers_are_cut_off_by_a_session_that_writes_nothing() {
    let mut world = World::new();
    let files = world.files(1, &[5000]);
    let closed = Failure::not_found("no such session");
    world.head.lock().refusals.insert("files_archived", (closed, 1));
    world.archive(&files);
    world.disk.lock().gone.insert("source1".to_owned());
    world.archive(&files);
    // The head takes the end of that session for a clean end of the volume.
    assert_eq!(world.head.trouble(), None);
    world.disk.lock().gone.clear();
    world.archive(&files);
    assert_eq!((world.head.trouble(), world.acknowledged()), (None, files));
}

#[test]
fn a_stop_is_nobodys_fault() {
    let mut world = World::new();
    let files = world.files(1, &[5000]);
    world.bay().stop.set();
    world.archive(&files);
    assert!(world.head.failed().is_empty());
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.what.as_str()), (Blame::System, "the tape server is stopping"));
}

#[test]
fn a_file_that_the_catalogue_does_not_know_is_not_written_over() {
    let mut world = World::new();
    let files = world.files(1, &[100, 200]);
    world.archive(&files);
    {
        let mut catalogue = world.head.lock();
        // A catalogue restored from an old backup.
        catalogue.append = Some(AppendPoint { fseq: 2, block: 11, may_have_leftover: false });
    }
    let more = world.files(3, &[10]);
    world.archive(&more);
    assert_eq!(world.head.trouble().unwrap().0, Blame::Volume);
    world.recall(&files);
    assert_eq!(world.head.trouble(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Sessions with bad replicas, lost reports, kills and torn images, in any order: whatever the head has
    /// acknowledged can be recalled.
    #[test]
    fn no_acknowledged_file_is_lost(
        sessions in prop::collection::vec((prop::collection::vec(0usize..4000, 1..4), 0u8..6, any::<u64>()), 1..7),
    ) {
        let mut world = World::with_options(DriveOptions { buffer_bytes: 1000, ..DriveOptions::default() });
        let mut next = 1;
        for (sizes, mishap, chance) in sessions {
            let files = world.files(next, &sizes);
            next += files.len() as u64;
            let one = files[chance as usize % files.len()];
            match mishap {
                0 => { world.disk.lock().believed.insert(one, vec![1, 2, 3]); }
                1 => { world.disk.lock().gone.insert(format!("source{one}")); }
                2 => {
                    let closed = Failure::not_found("no such session");
                    world.head.lock().refusals.insert("files_archived", (closed, 1));
                }
                _ => {}
            }
            world.archive(&files);
            if mishap >= 4 {
                // Killed in the middle of the next session, of which only a part reached the image.
                let more = world.files(next, &[3000, 3000]);
                next += 2;
                let closed = Failure::not_found("no such session");
                world.head.lock().refusals.insert("files_archived", (closed.clone(), 1));
                world.head.lock().refusals.insert("end_tape_session", (closed, 1));
                world.archive(&more);
                world.bay = None;
                let image = fs::File::options().write(true).open(world.image()).unwrap();
                let length = image.metadata().unwrap().len();
                // A session that ends well leaves no closing mark (spec/tape.md §3.5): the last mark of the image ends the
                // trailer of an acknowledged file and was synced with it, so no crash takes it.
                let acknowledged = world.acknowledged_bytes();
                let labelled = LABELLED_BYTES.max(acknowledged);
                assert!(length >= labelled, "{length} bytes are left of {labelled} that were synced");
                image.set_len(labelled + chance % (length - labelled + 1)).unwrap();
            }
            let trouble = world.head.trouble();
            prop_assert!(!matches!(trouble, Some((Blame::Volume | Blame::Drive, _))), "{:?}", trouble);
        }
        let acknowledged = world.acknowledged();
        if !acknowledged.is_empty() {
            world.recall(&acknowledged);
            prop_assert_eq!(world.head.trouble(), None);
            prop_assert!(acknowledged.iter().all(|request| world.disk.is_recalled(*request)));
        }
    }
}
