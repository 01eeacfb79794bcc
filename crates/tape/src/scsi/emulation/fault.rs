//! Faults that emulated devices have, at the commands that a plan names.

use base::Vid;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A fault of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveFault {
    /// It does nothing any more until it is switched off and on. What was not flushed is lost.
    Dies,
    /// It is reset: what was not flushed is lost, and so is the position.
    Reset,
    /// The command is not answered; whether it was carried out is not known.
    Silent,
    /// The connection ends before the command is carried out. The drive goes on as it was.
    Unreachable,
    /// The block at the position cannot be read, now or later.
    BadBlock,
    /// A block cannot be written.
    WriteError,
    /// A block that was taken before could not be written; it and all behind it are lost.
    DeferredError,
    /// The medium ends here.
    EarlyEnd,
    /// The medium must not be written.
    WriteProtected,
    /// It works, after retries.
    Recovered,
    /// Somebody changed a setting, which does no harm.
    Attention,
}

impl DriveFault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Dies,
        Self::Reset,
        Self::Silent,
        Self::Unreachable,
        Self::BadBlock,
        Self::WriteError,
        Self::DeferredError,
        Self::EarlyEnd,
        Self::WriteProtected,
        Self::Recovered,
        Self::Attention,
    ];
}

/// A fault of a changer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangerFault {
    /// It moves nothing any more until it is switched off and on.
    Jams,
    /// Two cartridges have each other's bar code.
    WrongCartridge,
    /// A move is not answered, and was carried out.
    Silent,
    /// Somebody opened the import/export element.
    Attention,
}

impl ChangerFault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Jams, Self::WrongCartridge, Self::Silent, Self::Attention];
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    of_drives: BTreeMap<u64, DriveFault>,
    of_changer: BTreeMap<u64, ChangerFault>,
    drive_commands: u64,
    changer_commands: u64,
    /// Faults that have happened, in order.
    happened: Vec<String>,
    /// Blocks that cannot be read.
    pub(super) bad_blocks: BTreeSet<(Vid, u64)>,
    /// Volumes that are at their end.
    pub(super) ended: BTreeSet<Vid>,
    /// Volumes that must not be written.
    pub(super) protected: BTreeSet<Vid>,
    /// Bar codes of volumes that have another one's.
    pub(super) bar_codes: BTreeMap<Vid, Vid>,
}

/// The faults of a library. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan(
    /// Held for a few instructions only, and no other lock is taken under it.
    Arc<Mutex<Faults>>,
);

impl FaultPlan {
    /// The `command`th command to any drive from now on, counted from 0, meets `fault`.
    pub fn drive(&self, command: u64, fault: DriveFault) {
        let mut faults = self.lock();
        let at = faults.drive_commands + command;
        faults.of_drives.insert(at, fault);
    }

    /// The same for commands to the changer.
    pub fn changer(&self, command: u64, fault: ChangerFault) {
        let mut faults = self.lock();
        let at = faults.changer_commands + command;
        faults.of_changer.insert(at, fault);
    }

    /// Ends all faults but those of media: blocks that cannot be read stay so.
    pub fn mend(&self) {
        let mut faults = self.lock();
        faults.of_drives.clear();
        faults.of_changer.clear();
        faults.bar_codes.clear();
        faults.ended.clear();
        faults.protected.clear();
    }

    /// Faults that have happened, in order.
    #[must_use]
    pub fn happened(&self) -> Vec<String> {
        self.lock().happened.clone()
    }

    /// Blocks that cannot be read.
    #[must_use]
    pub fn bad_blocks(&self) -> Vec<(Vid, u64)> {
        self.lock().bad_blocks.iter().cloned().collect()
    }

    /// The fault that a command to a drive meets. It waits for a command that can have it.
    pub(super) fn next_drive(&self, can_have: impl Fn(DriveFault) -> bool) -> Option<DriveFault> {
        let mut faults = self.lock();
        let now = faults.drive_commands;
        faults.drive_commands += 1;
        let due = faults.of_drives.range(..=now).find(|(_, fault)| can_have(**fault));
        let (at, fault) = due.map(|(at, fault)| (*at, *fault))?;
        faults.of_drives.remove(&at);
        faults.happened.push(format!("drive: {fault:?}"));
        Some(fault)
    }

    /// The same for the changer.
    pub(super) fn next_changer(&self, can_have: impl Fn(ChangerFault) -> bool) -> Option<ChangerFault> {
        let mut faults = self.lock();
        let now = faults.changer_commands;
        faults.changer_commands += 1;
        let due = faults.of_changer.range(..=now).find(|(_, fault)| can_have(**fault));
        let (at, fault) = due.map(|(at, fault)| (*at, *fault))?;
        faults.of_changer.remove(&at);
        faults.happened.push(format!("changer: {fault:?}"));
        Some(fault)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
