use super::*;
use crate::{
    changer::{Changer, ElementKind},
    fake::{FakeHead, MemoryDisk, label_orders, style, vid},
    virtual_library::VirtualLibrary,
};

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    dir: tempfile::TempDir,
    head: FakeHead,
    disk: MemoryDisk,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        VirtualLibrary::create(dir.path().join("lib"), 2, 3, &[vid(1), vid(2)]).unwrap();
        Self { dir, head: FakeHead::default(), disk: MemoryDisk::default() }
    }

    fn library(&self) -> VirtualLibrary {
        VirtualLibrary::open(self.dir.path().join("lib")).unwrap()
    }

    /// A room with drive 0 only, or with both.
    fn start(&self, drives: u16, idle_unload: Duration) -> TapeRoom {
        let library = self.library();
        let drives = (0..drives).map(|n| Box::new(library.drive(n).unwrap()) as Box<dyn TapeDrive>).collect();
        let config = RoomConfig { idle_unload, ..RoomConfig::new(style(512), 1 << 30) };
        let (head, disk) = (self.head.clone(), self.disk.clone());
        TapeRoom::start(config, Devices { drives, changer: Box::new(library) }, head, disk).unwrap()
    }
}

#[test]
fn a_room_does_what_the_head_orders() {
    let world = World::new();
    world.disk.put(1, 5000);
    {
        let mut catalogue = world.head.lock();
        let archive = catalogue.archive(2, &world.disk, &[1]);
        catalogue.orders.extend([label_orders(1), archive]);
    }
    let room = world.start(1, PATIENCE);
    world.head.wait(|catalogue| catalogue.copies.contains_key(&1));
    {
        let mut catalogue = world.head.lock();
        let recall = catalogue.recall(3, &world.disk, &[1]);
        catalogue.orders.push_back(recall);
    }
    let ends = |catalogue: &crate::fake::Catalogue| {
        catalogue.log.iter().filter(|(n, _)| *n == "end_tape_session").count()
    };
    world.head.wait(|catalogue| ends(catalogue) == 3);
    assert!(world.disk.is_recalled(1));
    room.stop(PATIENCE).unwrap();
    let catalogue = world.head.lock();
    assert_eq!(catalogue.log[0].0, "register_library");
    let device = serde_json::json!({
        "vendor": "BACKPLNE", "model": "VIRTUAL", "serial": "LIB.DRIVE0", "address": "…/drive/0",
    });
    let drives = serde_json::json!([{ "drive": "lib.drive0", "loaded": null, "device": device }]);
    assert_eq!(catalogue.log[0].1["drives"], drives);
    assert_eq!(catalogue.log[0].1["cartridges"].as_array().unwrap().len(), 2);
    assert_eq!(catalogue.log[1].1, serde_json::json!({ "drive": "lib.drive0", "loaded": null }));
}

#[test]
fn each_drive_registers_itself_and_again_after_a_failure() {
    let world = World::new();
    let unknown = Failure::unavailable("drive is not registered");
    world.head.lock().refusals.insert("next_tape_session", (unknown, 1));
    let room = world.start(2, PATIENCE);
    // All at first, then each its own, then the one that was refused.
    let registered = |catalogue: &crate::fake::Catalogue| {
        let calls = catalogue.log.iter().filter(|(call, _)| *call == "register_library");
        calls.map(|(_, value)| value["drives"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    world.head.wait(|catalogue| registered(catalogue) == [2, 1, 1]);
    room.stop(PATIENCE).unwrap();
}

#[test]
fn an_idle_drive_gives_its_volume_back() {
    let world = World::new();
    world.head.lock().orders.push_back(label_orders(1));
    let room = world.start(1, Duration::ZERO);
    let asks = |catalogue: &crate::fake::Catalogue, loaded: serde_json::Value| {
        catalogue.log.iter().any(|(call, value)| *call == "next_tape_session" && value["loaded"] == loaded)
    };
    world.head.wait(|catalogue| asks(catalogue, serde_json::json!("BP0001")));
    world.head.wait(|catalogue| {
        let last = catalogue.log.last();
        last.is_some_and(|(call, value)| *call == "next_tape_session" && value["loaded"].is_null())
    });
    room.stop(PATIENCE).unwrap();
    let inventory = world.library().inventory().unwrap();
    assert!(inventory.iter().all(|element| element.kind == ElementKind::Slot || element.vid.is_none()));
}

#[test]
fn after_a_stop_another_room_may_start() {
    let world = World::new();
    world.start(2, PATIENCE).stop(PATIENCE).unwrap();
    world.start(2, PATIENCE).stop(PATIENCE).unwrap();
}
