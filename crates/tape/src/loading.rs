//! Brings volumes into a drive and takes them out.

use crate::changer::{Changer, Element, ElementAddress, ElementKind, element_of};
use crate::drive::{DriveStatus, TapeDrive};
use crate::fault::Fault;
use crate::watchdog::{Operation, Watchdog};
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

    /// What lies where, and which element is the drive.
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
        let from = source(&inventory, &here, vid)?;
        if here.vid.is_some() {
            put_away(robot, drive, dog)?;
        }
        moved(robot, dog, from, here.address)?;
    }
    drive.load().map_err(Fault::of_drive)?;
    Ok(u32::from(!is_here))
}

/// Where `vid` can be fetched from.
fn source(inventory: &[Element], drive: &Element, vid: &Vid) -> Result<ElementAddress, Fault> {
    match element_of(inventory, vid) {
        Some(element) if element.kind != ElementKind::Drive => Ok(element.address),
        Some(other) => {
            let what = format!("volume {vid} is wanted in {} and is in {}", drive.name, other.name);
            Err(Fault::system(Failure::busy(what)))
        }
        None => {
            let failure = Failure::not_found(format!("volume {vid} is not in the library"));
            Err(Fault::volume(failure.hint("put it into a slot or the import element")))
        }
    }
}

/// Takes the medium out of the drive and puts it into a free slot.
pub(crate) fn put_away(robot: &Robot, drive: &mut dyn TapeDrive, dog: &Watchdog) -> Result<(), Fault> {
    if drive.status() != DriveStatus::Empty {
        drive.unload().map_err(Fault::of_drive)?;
    }
    let (inventory, here) = robot.look(drive.name()).map_err(of_changer)?;
    if here.vid.is_none() {
        return Ok(());
    }
    let is_free = |element: &&Element| element.kind == ElementKind::Slot && element.vid.is_none();
    let slot = inventory.iter().find(is_free).ok_or_else(|| {
        of_changer(Failure::no_space(format!("no slot is free for the volume in {}", here.name)))
    })?;
    moved(robot, dog, here.address, slot.address)
}

fn moved(robot: &Robot, dog: &Watchdog, from: ElementAddress, to: ElementAddress) -> Result<(), Fault> {
    dog.begin(Operation::Load, Instant::now());
    let answer = robot.lock().move_medium(from, to);
    dog.end();
    answer.map_err(of_changer)
}

/// The changer is part of the drive for the head; a changer that somebody else uses is nobody's fault.
fn of_changer(failure: Failure) -> Fault {
    let blame = if failure.kind == ErrorKind::Busy { Blame::System } else { Blame::Drive };
    Fault { blame, failure }
}
