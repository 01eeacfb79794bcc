//! Sessions on emulated SCSI devices, with faults at any command. `BP_TAPE_SEEDS=1000..2000` runs other seeds than the usual ones.

use super::*;
use crate::{
    changer::Changer,
    fake::{FakeHead, MemoryDisk, label_orders, style, vid},
    scsi::{
        drive::DriveTimes,
        emulation::{ChangerFault, DriveFault, EmulatedLibrary, FaultPlan, Offer},
    },
    virtual_drive::DriveOptions,
    virtual_library::VirtualLibrary,
    watchdog::Deadlines,
};
use base::{Cause, rng::Rng};
use std::{ops::Range, time::Duration};

const BLOCK_BYTES: u32 = 512;
/// Seeds of the usual run.
const SEEDS: Range<u64> = 0..200;
/// Threads that share them: most of the time they wait for a disk.
const THREADS: usize = 4;

/// A library with one drive, three slots and two labelled volumes; a head and a disk in memory.
struct World {
    _dir: tempfile::TempDir,
    library: EmulatedLibrary,
    plan: FaultPlan,
    head: FakeHead,
    disk: MemoryDisk,
    bay: Option<Bay<FakeHead, MemoryDisk>>,
    sessions: u64,
}

impl World {
    fn new(offer: Offer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = DriveOptions { buffer_bytes: 4000, ..DriveOptions::with_capacity(1 << 20) };
        let library = VirtualLibrary::create(dir.path().join("lib"), 1, 3, &[vid(1), vid(2)]).unwrap();
        let plan = FaultPlan::default();
        let library = EmulatedLibrary::new("lib", library.with_options(options))
            .with_offer(offer)
            .with_faults(plan.clone());
        let (head, disk) = (FakeHead::default(), MemoryDisk::default());
        let mut world = Self { _dir: dir, library, plan, head, disk, bay: None, sessions: 0 };
        for number in [2, 1] {
            let orders = TapeSession { vid: vid(number), ..label_orders(number.into()) };
            world.run(&orders);
            assert_eq!(world.head.trouble(), None);
        }
        world
    }

    /// The bay, switched on if it is not.
    fn bay(&mut self) -> &mut Bay<FakeHead, MemoryDisk> {
        self.bay.get_or_insert_with(|| {
            let times = DriveTimes { ready_pause: Duration::ZERO, ..DriveTimes::default() };
            let (drives, changer) = self.library.open(times, 1 << 20).unwrap();
            let drive = drives.into_iter().next().unwrap();
            let watchdog = Watchdog::new(Deadlines::default());
            Bay {
                drive: WatchedDrive::new(Box::new(drive), watchdog.clone()),
                watchdog,
                robot: Robot::new(Box::new(changer) as Box<dyn Changer>),
                head: Arc::new(self.head.clone()),
                disk: Arc::new(self.disk.clone()),
                style: style(BLOCK_BYTES),
                activity: Activity::default(),
                stop: Stop::default(),
            }
        })
    }

    /// Devices are mended, and switched off and on.
    fn mend(&mut self) {
        self.plan.mend();
        self.bay = None;
    }

    fn run(&mut self, orders: &TapeSession) {
        run(self.bay(), orders);
    }

    fn archive(&mut self, requests: &[u64]) {
        self.sessions += 1;
        let orders = self.head.lock().archive(self.sessions, &self.disk, requests);
        self.run(&orders);
    }

    fn recall(&mut self, requests: &[u64]) {
        self.sessions += 1;
        let orders = self.head.lock().recall(self.sessions, &self.disk, requests);
        self.run(&orders);
    }

    fn files(&self, first: u64, sizes: &[usize]) -> Vec<u64> {
        let put = |(size, request): (&usize, u64)| {
            self.disk.put(request, *size);
            request
        };
        sizes.iter().zip(first..).map(put).collect()
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.head.lock().copies.keys().copied().collect()
    }

    /// Why the last session ended early.
    fn trouble(&self) -> (Blame, String) {
        let (blame, failure) = self.head.trouble().expect("the session fails");
        (blame, failure.to_string())
    }

    /// Nothing that is not whole is visible on disk.
    fn check_disk(&self) {
        let disk = self.disk.lock();
        for (name, object) in &disk.objects {
            let Some(request) = name.strip_prefix("sink") else { continue };
            assert!(disk.objects[&format!("source{request}")] == *object, "half a file at {name}");
        }
    }

    /// Every failure of tape names the volume, or the library, and what the device said.
    fn check_words(&self) {
        let head = self.head.lock();
        for (call, value) in &head.log {
            let failure = match *call {
                "end_tape_session" => value["trouble"].get(1),
                "request_failed" => value.get("failure"),
                _ => None,
            };
            let Some(what) = failure.and_then(|failure| failure["what"].as_str()) else { continue };
            let names_place = what.contains("BP000") || what.contains("library lib");
            let names_cause =
                ["(sense ", "no answer", "label says", "is full", "not known", "same bar code", "was reset"]
                    .iter()
                    .any(|cause| what.contains(cause));
            assert!(names_place && what.contains("lib") && names_cause, "{call}: {what}");
        }
    }
}

/// One session after the other, with faults at commands that the seed chooses, and people who mend what has failed. Then every file that
/// the head was told of is read.
fn run_with_faults(seed: u64) {
    let mut rng = Rng::new(seed);
    let offer = if rng.chance(1, 3) { Offer::LEAST } else { Offer::ALL };
    let mut world = World::new(offer);
    let mut first = 1;
    for _ in 0..6 {
        for _ in 0..rng.below(3) {
            let pick = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
            if rng.chance(1, 5) {
                let fault = ChangerFault::ALL[pick(&mut rng, ChangerFault::ALL.len())];
                world.plan.changer(rng.below(15), fault);
            } else {
                let fault = DriveFault::ALL[pick(&mut rng, DriveFault::ALL.len())];
                world.plan.drive(rng.below(80), fault);
            }
        }
        let known = world.acknowledged();
        if known.is_empty() || rng.chance(2, 3) {
            let sizes: Vec<usize> = (0..=rng.below(4)).map(|_| rng.below(6000) as usize).collect();
            let files = world.files(first, &sizes);
            first += files.len() as u64;
            world.archive(&files);
        } else {
            world.recall(&known);
        }
        world.check_disk();
        if world.head.trouble().is_some() || rng.chance(1, 4) {
            world.mend();
        }
    }
    world.mend();
    let bad_blocks = world.plan.bad_blocks();
    for request in world.acknowledged() {
        let copy = world.head.lock().copies[&request].clone();
        world.recall(&[request]);
        // A block that cannot be read takes its file with it, and a label the volume; nothing else is lost.
        let is_bad = |at: &u64| *at == 0 || (copy.block..copy.end_block).contains(at);
        let is_damaged = bad_blocks.iter().any(|(volume, at)| *volume == vid(1) && is_bad(at));
        let is_read = world.head.trouble().is_none() && world.disk.is_recalled(request);
        assert!(is_read || is_damaged, "file {request} is lost: {:?}", world.head.trouble());
    }
    world.check_disk();
    world.check_words();
}

/// Seeds that an operator of the tests asks for, or the usual ones.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("BP_TAPE_SEEDS") else { return SEEDS };
    let (first, end) = text.split_once("..").expect("seeds are given as FIRST..END");
    first.parse().unwrap()..end.parse().unwrap()
}

#[test]
fn no_fault_loses_a_file_or_announces_one_early() {
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || {
                for seed in seeds().skip(first).step_by(THREADS) {
                    let run = std::panic::catch_unwind(|| run_with_faults(seed));
                    assert!(
                        run.is_ok(),
                        "seed {seed} fails: BP_TAPE_SEEDS={seed}..{} runs it alone",
                        seed + 1
                    );
                }
            });
        }
    });
}

/// Archives two files of three blocks, with a fault at the write of the `block`th object.
fn archive_with(fault: DriveFault) -> World {
    let mut world = World::new(Offer::ALL);
    let before = world.files(1, &[100]);
    world.archive(&before);
    assert_eq!(world.head.trouble(), None);
    let files = world.files(2, &[1500, 1500]);
    // Behind the check of the label, the search of the end, and the labels of the first file.
    world.plan.drive(40, fault);
    world.archive(&files);
    assert_eq!(world.plan.happened(), [format!("drive: {fault:?}")]);
    world
}

#[test]
fn a_drive_that_dies_in_a_file_is_named_with_what_it_said() {
    let mut world = archive_with(DriveFault::Dies);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Drive);
    for part in ["volume BP0001", "drive lib.drive0", "hardware error", "(sense 4/44/00)"] {
        assert!(words.contains(part), "{words}");
    }
    // Whatever was told before is there.
    world.mend();
    let known = world.acknowledged();
    world.recall(&known);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn a_reset_between_two_blocks_writes_nothing_at_the_beginning() {
    let mut world = archive_with(DriveFault::Reset);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Drive);
    assert!(words.contains("power on or reset (sense 6/29/02)"), "{words}");
    // The same drive, not switched off: the volume is threaded anew, and its label is whole.
    world.recall(&[1]);
    assert_eq!(world.head.trouble(), None);
    assert!(world.disk.is_recalled(1));
}

#[test]
fn a_write_that_fails_later_announces_nothing() {
    let mut world = archive_with(DriveFault::DeferredError);
    assert!(world.trouble().1.contains("medium error of an earlier command, write error"));
    assert_eq!(world.acknowledged(), [1]);
    world.mend();
    let files = world.files(2, &[1500, 1500]);
    world.archive(&files);
    world.recall(&[1, 2, 3]);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn a_reset_that_a_question_meets_is_not_forgotten() {
    // The drive is asked how full the medium is after each flush: what it tells then of a reset counts for the next write.
    for fault in [DriveFault::Reset, DriveFault::Unreachable] {
        for command in 50..75 {
            let mut world = World::new(Offer::ALL);
            let files = world.files(1, &[1500, 1500]);
            world.plan.drive(command, fault);
            world.archive(&files);
            world.plan.mend();
            world.bay = None;
            let more = world.files(3, &[700]);
            world.archive(&more);
            let known = world.acknowledged();
            world.recall(&known);
            assert_eq!(world.head.trouble(), None, "{fault:?} at command {command}");
        }
    }
}

#[test]
fn an_early_end_of_the_medium_keeps_what_was_written() {
    let mut world = archive_with(DriveFault::EarlyEnd);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Volume);
    assert!(words.contains("volume BP0001") && words.contains("(sense D/00/02)"), "{words}");
    world.mend();
    let known = world.acknowledged();
    world.recall(&known);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn a_write_protected_cartridge_is_said_to_be_that() {
    let mut world = archive_with(DriveFault::WriteProtected);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.cause), (Blame::Volume, Some(Cause::WriteProtected)));
    let words = failure.to_string();
    assert!(words.contains("volume BP0001") && words.contains("write-protected (sense 7/27/00)"), "{words}");
    // It can still be read, and so can be found what lies on it.
    let known = world.acknowledged();
    world.recall(&known);
    assert_eq!(world.head.trouble(), None);
    world.head.lock().forget();
    let orders = world.head.lock().survey(90, 1 << 20);
    world.run(&orders);
    assert_eq!(world.head.trouble(), None);
    assert_eq!(world.head.count("files_found"), 1);
}

#[test]
fn what_a_drive_recovers_from_and_harmless_attentions_end_nothing() {
    for fault in [DriveFault::Recovered, DriveFault::Attention] {
        let mut world = archive_with(fault);
        assert_eq!(world.head.trouble(), None);
        world.recall(&[1, 2, 3]);
        assert_eq!(world.head.trouble(), None);
    }
}

#[test]
fn a_bad_block_names_volume_file_drive_and_sense() {
    let mut world = World::new(Offer::ALL);
    let files = world.files(1, &[3000, 3000]);
    world.archive(&files);
    world.plan.drive(20, DriveFault::BadBlock);
    world.recall(&files);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Volume);
    for part in ["volume BP0001 file 1 (drive lib.drive0)", "READ", "unrecovered read error (sense 3/11/00)"]
    {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(world.head.count("file_recalled"), 0);
}

#[test]
fn an_unreadable_label_ends_the_session_before_anything_is_written() {
    let mut world = World::new(Offer::ALL);
    world.bay = None;
    let files = world.files(1, &[3000]);
    // The first read after the drive was switched on is that of the label.
    world.plan.drive(0, DriveFault::BadBlock);
    world.archive(&files);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Volume);
    assert!(words.contains("volume BP0001") && words.contains("(sense 3/11/00)"), "{words}");
    assert_eq!(world.acknowledged(), [0; 0]);
}

#[test]
fn a_changer_that_jams_is_named_with_both_elements() {
    let mut world = World::new(Offer::ALL);
    world.plan.changer(0, ChangerFault::Jams);
    world.run(&TapeSession { vid: vid(2), ..label_orders(9) });
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Drive);
    for part in ["move volume BP0001 from element 500", "library lib", "(sense 4/15/01)"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn a_wrong_cartridge_is_noticed_by_its_label() {
    let mut world = World::new(Offer::ALL);
    let files = world.files(1, &[3000]);
    world.archive(&files);
    world.plan.changer(0, ChangerFault::WrongCartridge);
    world.recall(&files);
    let (blame, words) = world.trouble();
    assert_eq!(blame, Blame::Volume);
    assert!(words.contains("label says BP0002, expected BP0001"), "{words}");
    assert!(!world.disk.is_recalled(1));
}

#[test]
fn a_drive_that_was_left_with_a_volume_gives_it_back() {
    let mut world = World::new(Offer::ALL);
    // The tape server is started again; the volume is still threaded and must be let go before the changer can take it.
    world.bay = None;
    world.run(&TapeSession { vid: vid(2), ..label_orders(9) });
    assert_eq!(world.head.trouble(), None);
    assert_eq!(world.bay().drive.status(), crate::drive::DriveStatus::Loaded { damage: None });
}
