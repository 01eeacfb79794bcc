//! Loads volumes into a drive and unloads them.

use crate::{
    changer::{Changer, Element, ElementAddress, ElementKind, element_of},
    drive::{DriveStatus, TapeDrive},
    fault::Fault,
    watchdog::{Operation, Watchdog},
};
use base::{ErrorKind, Failure, Result, Vid};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use wire::control::Blame;

/// The one robot of a library, shared by the threads of its drives.
#[derive(Clone)]
pub(crate) struct Robot(
    /// Held while a medium moves, which other drives wait for; no other lock is taken under it.
    Arc<Mutex<Box<dyn Changer>>>,
);

impl Robot {
    pub(crate) fn new(changer: Box<dyn Changer>) -> Self {
        Self(Arc::new(Mutex::new(changer)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Box<dyn Changer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name of the library.
    pub(crate) fn library(&self) -> String {
        self.lock().name().to_owned()
    }

    /// The inventory of the library, and the element of the drive.
    pub(crate) fn look(&self, drive: &str) -> Result<(Vec<Element>, Element)> {
        look(self.lock().as_mut(), drive)
    }
}

fn look(changer: &mut dyn Changer, drive: &str) -> Result<(Vec<Element>, Element)> {
    let address = changer.drive_address(drive)?;
    let inventory = changer.inventory()?;
    let here = inventory.iter().find(|element| element.address == address).cloned();
    let here = here.ok_or_else(|| Failure::internal(format!("drive {drive} is not in the inventory")))?;
    Ok((inventory, here))
}

/// Brings `vid` into the drive and threads it; returns how many times a medium was put in: 0 or 1.
pub(crate) fn load(
    robot: &Robot,
    drive: &mut dyn TapeDrive,
    dog: &Watchdog,
    vid: &Vid,
) -> Result<u32, Fault> {
    let (inventory, here) = robot.look(drive.name()).map_err(of_changer)?;
    let is_here = here.vid.as_ref() == Some(vid);
    if !is_here {
        // Before the drive gives up what it has.
        source(&inventory, &here, vid)?;
        if here.is_full {
            put_away(robot, drive, dog)?;
        }
        moved(robot, drive.name(), dog, |inventory, here| {
            Ok(Some((source(inventory, here, vid)?, here.address)))
        })?;
    }
    drive.load().map_err(|failure| Fault::of_drive(failure.during(format_args!("volume {vid}"))))?;
    Ok(u32::from(!is_here))
}

/// Returns the element that holds `vid`.
fn source(inventory: &[Element], drive: &Element, vid: &Vid) -> Result<ElementAddress, Fault> {
    match element_of(inventory, vid) {
        Some(element) if element.kind != ElementKind::Drive => Ok(element.address),
        Some(other) => {
            let what = format!("volume {vid} is needed in {} but is in {}", drive.name, other.name);
            Err(Fault::system(Failure::busy(what)))
        }
        None => {
            let failure = Failure::not_found(format!("volume {vid} is not in the library"));
            Err(Fault::volume(failure.hint("put it into a slot or the import/export element")))
        }
    }
}

/// Takes the medium out of the drive and puts it into a free slot.
pub(crate) fn put_away(robot: &Robot, drive: &mut dyn TapeDrive, dog: &Watchdog) -> Result<(), Fault> {
    if drive.status() != DriveStatus::Empty {
        drive.unload().map_err(Fault::of_drive)?;
    }
    moved(robot, drive.name(), dog, |inventory, here| {
        if !here.is_full {
            return Ok(None);
        }
        // Where it came from, so that people find it there; any slot otherwise.
        let is_home = |element: &&Element| element.is_free_slot() && here.source == Some(element.address);
        let home = inventory.iter().find(is_home);
        let slot = home.or_else(|| inventory.iter().find(|element| element.is_free_slot()));
        let slot = slot.ok_or_else(|| {
            of_changer(Failure::no_space(format!("no slot is free for the volume in {}", here.name)))
        })?;
        Ok(Some((here.address, slot.address)))
    })
}

/// Moves a medium as `choose` wants, who sees what lies where. The robot does nothing for other drives in between: two of
/// them would choose the same slot.
fn moved(
    robot: &Robot,
    drive: &str,
    dog: &Watchdog,
    choose: impl FnOnce(&[Element], &Element) -> Result<Option<(ElementAddress, ElementAddress)>, Fault>,
) -> Result<(), Fault> {
    dog.begin(Operation::Load, Instant::now());
    let work = || {
        let mut changer = robot.lock();
        let (inventory, here) = look(changer.as_mut(), drive).map_err(of_changer)?;
        match choose(&inventory, &here)? {
            Some((from, to)) => changer.move_medium(from, to).map_err(of_changer),
            None => Ok(()),
        }
    };
    let outcome = work();
    dog.end();
    outcome
}

/// The changer is part of the drive for the head; a changer that somebody else uses, or that cannot be reached now, is nobody's
/// fault.
fn of_changer(failure: Failure) -> Fault {
    let may_pass = matches!(failure.kind, ErrorKind::Busy | ErrorKind::Unavailable);
    let blame = if may_pass { Blame::System } else { Blame::Drive };
    Fault { blame, failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{virtual_library::VirtualLibrary, watchdog::Deadlines};
    use std::thread;

    #[test]
    fn drives_that_load_at_the_same_time_are_not_in_each_others_way() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("lib");
        // As few slots as there can be.
        let vids: Vec<Vid> = (1..=4).map(|n| format!("BP000{n}").parse().unwrap()).collect();
        VirtualLibrary::create(directory.clone(), 2, 4, &vids).unwrap();
        let library = VirtualLibrary::open(directory).unwrap();
        let robot = Robot::new(Box::new(library.clone()));
        thread::scope(|scope| {
            for (number, own) in vids.chunks(2).enumerate() {
                let (library, robot) = (library.clone(), robot.clone());
                scope.spawn(move || {
                    let mut drive = library.drive(number as u16).unwrap();
                    let dog = Watchdog::new(Deadlines::default());
                    for turn in 0..100 {
                        load(&robot, &mut drive, &dog, &own[turn % 2]).unwrap();
                    }
                    put_away(&robot, &mut drive, &dog).unwrap();
                });
            }
        });
        let (inventory, _) = robot.look("lib.drive0").unwrap();
        let full =
            inventory.iter().filter(|element| element.kind == ElementKind::Slot && element.vid.is_some());
        assert_eq!(full.count(), 4);
    }
}
