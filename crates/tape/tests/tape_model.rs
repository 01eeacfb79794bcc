//! Every drive that needs no hardware against the simplest tape there is, in any order of operations, with crashes and torn tails.

#![allow(clippy::unwrap_used, reason = "the whole file is a test")]

use base::{ErrorKind, Vid};
use proptest::prelude::*;
use std::{fs, path::PathBuf, time::Duration};
use tape::{
    At, Changer, DriveOptions, DriveStatus, ElementKind, Read, SpaceKind, Spaced, Stop, TapeDrive,
    VirtualLibrary, Written,
    scsi::{
        ScsiDrive,
        drive::DriveTimes,
        emulation::{EmulatedLibrary, Offer},
    },
};
use wire::media::awstape;

const CAPACITY: u64 = 400_000;
const WARNING: u64 = 100_000;

/// An object of the model: a block, or a mark if empty.
type Object = Vec<u8>;

#[derive(Default)]
struct Model {
    objects: Vec<Object>,
    at: usize,
    /// Objects that a crash cannot take.
    durable: usize,
}

impl Model {
    fn bytes(objects: &[Object]) -> u64 {
        objects
            .iter()
            .map(|object| if object.is_empty() { 6 } else { awstape::image_bytes(object.len()) })
            .sum()
    }

    /// What a drive answers to a write; `None` if there is no room.
    fn write(&mut self, object: Object) -> Option<Written> {
        let used = Self::bytes(&self.objects[..self.at]) + Self::bytes(std::slice::from_ref(&object));
        if used > CAPACITY {
            return None;
        }
        self.durable = self.durable.min(self.at);
        self.objects.truncate(self.at);
        self.objects.push(object);
        self.at += 1;
        Some(if used > CAPACITY - WARNING { Written::EarlyWarning } else { Written::Plenty })
    }

    fn space(&mut self, kind: SpaceKind, count: i64) -> Spaced {
        if kind == SpaceKind::EndOfData {
            let passed = (self.objects.len() - self.at) as u64;
            self.at = self.objects.len();
            return Spaced { passed, stop: None };
        }
        let mut passed = 0;
        while passed < count.unsigned_abs() {
            let next = if count > 0 { Some(self.at) } else { self.at.checked_sub(1) };
            let Some(next) = next else {
                return Spaced { passed, stop: Some(Stop::Beginning) };
            };
            let Some(object) = self.objects.get(next) else {
                return Spaced { passed, stop: Some(Stop::End) };
            };
            self.at = if count > 0 { next + 1 } else { next };
            match (object.is_empty(), kind) {
                (true, SpaceKind::Blocks) => {
                    return Spaced { passed, stop: Some(Stop::Mark) };
                }
                (false, SpaceKind::Filemarks) => {}
                _ => passed += 1,
            }
        }
        Spaced { passed, stop: None }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Write(usize),
    Marks(u32),
    Read,
    Space(SpaceKind, i64),
    Locate(u64),
    Rewind,
    Flush,
    Reload,
    /// The process dies: what was not written to the file is gone.
    Kill,
    /// It dies, and the file is cut at this fraction of 1000.
    Tear(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        3 => Just(SpaceKind::Blocks),
        3 => Just(SpaceKind::Filemarks),
        2 => Just(SpaceKind::EndOfData),
    ];
    prop_oneof![
        6 => prop_oneof![1usize..300, 65_530usize..65_540, 131_065usize..131_075].prop_map(Op::Write),
        3 => (0u32..3).prop_map(Op::Marks),
        5 => Just(Op::Read),
        4 => (kind, -4i64..5).prop_map(|(kind, count)| Op::Space(kind, count)),
        3 => (0u64..12).prop_map(Op::Locate),
        1 => Just(Op::Rewind),
        2 => Just(Op::Flush),
        1 => Just(Op::Reload),
        1 => Just(Op::Kill),
        1 => (0u64..=1000).prop_map(Op::Tear),
    ]
}

/// A library with one drive, and the volume in it.
struct World {
    _dir: tempfile::TempDir,
    library: VirtualLibrary,
    kind: Kind,
    drive: Option<Box<dyn TapeDrive>>,
    image: PathBuf,
}

/// The drives that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Virtual,
    /// A SCSI drive that offers this.
    Scsi(Offer),
}

impl World {
    fn new(kind: Kind, buffer_bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vid: Vid = "BP0001".parse().unwrap();
        let mut library = VirtualLibrary::create(dir.path().join("lib"), 1, 1, &[vid]).unwrap().with_options(
            DriveOptions {
                capacity_bytes: CAPACITY,
                early_warning_bytes: WARNING,
                buffer_bytes,
                ..DriveOptions::default()
            },
        );
        let elements = library.inventory().unwrap();
        let address = |kind| elements.iter().find(|element| element.kind == kind).unwrap().address;
        library.move_medium(address(ElementKind::Slot), address(ElementKind::Drive)).unwrap();
        let image = dir.path().join("lib/drive/0/BP0001.aws");
        let mut world = Self { _dir: dir, library, kind, drive: None, image };
        world.open();
        world
    }

    fn open(&mut self) {
        let mut drive: Box<dyn TapeDrive> = match self.kind {
            Kind::Virtual => Box::new(self.library.drive(0).unwrap()),
            Kind::Scsi(offer) => {
                let library = EmulatedLibrary::new("lib", self.library.clone()).with_offer(offer);
                let times = DriveTimes { ready_pause: Duration::ZERO, ..DriveTimes::default() };
                Box::new(ScsiDrive::open("lib.drive0", library.drive(0).unwrap()).unwrap().with_times(times))
            }
        };
        drive.load().unwrap();
        self.drive = Some(drive);
    }

    fn drive(&mut self) -> &mut dyn TapeDrive {
        self.drive.as_mut().unwrap().as_mut()
    }

    /// Compares where the drive says it is, and how full the medium is.
    fn check_place(&mut self, model: &Model) {
        let position = self.drive().position().unwrap();
        assert_eq!(position.block, model.at as u64);
        let at = match model.at {
            0 => At::Beginning,
            at if at == model.objects.len() => At::EndOfData,
            _ => At::Middle,
        };
        let used = Model::bytes(&model.objects);
        let capacity = self.drive().capacity().unwrap();
        match self.kind {
            Kind::Virtual => {
                assert_eq!(position.at, at);
                assert_eq!(capacity.unwrap().used_bytes, used);
            }
            // It does not know that the data end until it has met their end.
            Kind::Scsi(_) => assert!(position.at == at || at == At::EndOfData, "{position:?}"),
        }
    }

    /// Lets the drive die, cuts the image if told so, and reopens; returns how many objects are left.
    fn crash(&mut self, cut: Option<u64>) -> usize {
        self.drive = None;
        if let Some(bytes) = cut {
            fs::File::options().write(true).open(&self.image).unwrap().set_len(bytes).unwrap();
        }
        self.open();
        self.drive().space(SpaceKind::EndOfData, 0).unwrap();
        let left = self.drive().position().unwrap().block as usize;
        self.drive().rewind().unwrap();
        left
    }
}

/// Checks every object of the drive against the model; both are then at the end.
fn compare_all(drive: &mut dyn TapeDrive, model: &mut Model) {
    drive.rewind().unwrap();
    let mut block = Vec::new();
    for object in &model.objects {
        let expected = if object.is_empty() { Read::Mark } else { Read::Block(object.len()) };
        assert_eq!(drive.read_block(&mut block).unwrap(), expected);
        assert!(block == *object, "a block of {} bytes differs", object.len());
    }
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::End);
    model.at = model.objects.len();
}

fn apply(world: &mut World, model: &mut Model, op: Op, number: u8) {
    match op {
        Op::Write(length) => {
            let object = vec![number; length];
            match (world.drive().write_block(&object), model.write(object)) {
                (Ok(found), Some(expected)) => assert_eq!(found, expected),
                (Err(failure), None) => assert_eq!(failure.kind, ErrorKind::NoSpace),
                (found, expected) => panic!("write gave {found:?}, expected {expected:?}"),
            }
        }
        Op::Marks(count) => {
            let _ = world.drive().write_filemarks(count).unwrap();
            (0..count).for_each(|_| assert!(model.write(Vec::new()).is_some()));
        }
        Op::Read => {
            let mut block = vec![0xee; 3];
            let read = world.drive().read_block(&mut block).unwrap();
            let expected = match model.objects.get(model.at) {
                None => Read::End,
                Some(object) if object.is_empty() => Read::Mark,
                Some(object) => Read::Block(object.len()),
            };
            assert_eq!(read, expected);
            assert!(block == model.objects.get(model.at).cloned().unwrap_or_default());
            model.at = (model.at + 1).min(model.objects.len());
        }
        Op::Space(kind, count) => {
            assert_eq!(world.drive().space(kind, count).unwrap(), model.space(kind, count));
        }
        Op::Locate(block) => {
            let is_there = block as usize <= model.objects.len();
            assert_eq!(world.drive().locate(block).is_ok(), is_there);
            model.at = (block as usize).min(model.objects.len());
        }
        Op::Rewind => {
            world.drive().rewind().unwrap();
            model.at = 0;
        }
        Op::Flush => {
            world.drive().flush().unwrap();
            model.durable = model.objects.len();
        }
        Op::Reload => {
            world.drive().unload().unwrap();
            assert_eq!(world.drive().status(), DriveStatus::Empty);
            world.drive().load().unwrap();
            (model.at, model.durable) = (0, model.objects.len());
        }
        Op::Kill => {
            let left = world.crash(None);
            assert!((model.durable..=model.objects.len()).contains(&left), "a flushed object is gone");
            settle(model, left);
        }
        Op::Tear(part) => {
            let left = world.crash(None);
            settle(model, left);
            let cut = Model::bytes(&model.objects) * part / 1000;
            let whole = (0..=left).rev().find(|n| Model::bytes(&model.objects[..*n]) <= cut).unwrap();
            assert_eq!(world.crash(Some(cut)), whole);
            let is_torn = Model::bytes(&model.objects[..whole]) < cut;
            if world.kind == Kind::Virtual {
                assert_eq!(world.drive().status() != DriveStatus::Loaded { damage: None }, is_torn);
            }
            settle(model, whole);
        }
    }
}

/// After a crash the model has what is left, and all of it is in the file.
fn settle(model: &mut Model, left: usize) {
    model.objects.truncate(left);
    (model.at, model.durable) = (0, left);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_drive_is_a_tape(
        kind in prop_oneof![
            Just(Kind::Virtual), Just(Kind::Scsi(Offer::ALL)), Just(Kind::Scsi(Offer::LEAST)),
            Just(Kind::Scsi(Offer { locate: false, ..Offer::ALL })),
        ],
        buffer_bytes in prop_oneof![Just(1usize), Just(500), Just(100_000), Just(1 << 20)],
        ops in prop::collection::vec(op(), 1..40),
    ) {
        let mut world = World::new(kind, buffer_bytes);
        let mut model = Model::default();
        for (number, op) in ops.into_iter().enumerate() {
            // Marks that might not fit are left out: the model writes all of them or none.
            if matches!(op, Op::Marks(_)) && Model::bytes(&model.objects[..model.at]) + 12 > CAPACITY { continue }
            apply(&mut world, &mut model, op, number as u8);
            world.check_place(&model);
        }
        compare_all(world.drive(), &mut model);
    }
}

#[test]
fn damage_in_the_middle_is_not_taken_for_the_end() {
    let mut world = World::new(Kind::Virtual, 1);
    let drive = world.drive();
    for _ in 0..3 {
        assert_eq!(drive.write_block(&[7; 100]).unwrap(), Written::Plenty);
    }
    drive.unload().unwrap();
    let mut image = fs::read(&world.image).unwrap();
    image[106 + 4] = 0x13;
    fs::write(&world.image, image).unwrap();
    world.drive = None;
    world.open();
    let drive = world.drive();
    assert_eq!(drive.read_block(&mut Vec::new()).unwrap(), Read::Block(100));
    let failure = drive.read_block(&mut Vec::new()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.contains("byte 106") && failure.what.contains("BP0001"), "{failure}");
    assert!(matches!(drive.status(), DriveStatus::Loaded { damage: Some(_) }));
    // Only a write at that place gives up what lies behind it.
    assert_eq!(drive.write_filemarks(1).unwrap(), Written::Plenty);
    drive.rewind().unwrap();
    assert_eq!(drive.space(SpaceKind::Filemarks, 1).unwrap(), Spaced { passed: 1, stop: None });
    assert_eq!(drive.read_block(&mut Vec::new()).unwrap(), Read::End);
}

#[test]
fn an_empty_drive_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let library = VirtualLibrary::create(dir.path(), 1, 1, &[]).unwrap();
    let mut drive = library.drive(0).unwrap();
    assert_eq!(drive.load().unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(drive.read_block(&mut Vec::new()).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(drive.status(), DriveStatus::Empty);
}

#[test]
fn blocks_of_impossible_length_are_refused() {
    let mut world = World::new(Kind::Virtual, 1 << 20);
    assert_eq!(world.drive().write_block(&[]).unwrap_err().kind, ErrorKind::Invalid);
    let long = vec![0; awstape::BLOCK_BYTES_MAX + 1];
    assert_eq!(world.drive().write_block(&long).unwrap_err().kind, ErrorKind::Invalid);
}
