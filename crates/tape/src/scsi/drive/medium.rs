//! Threading and letting go of a medium, and what the drive says of it.

use super::{Capabilities, Medium, PositionReport, ScsiDrive};
use crate::{
    drive::Capacity,
    scsi::{
        attributes,
        command::Command,
        device::{Attention, Trouble},
        sense::{Sense, SenseKey},
        transport::{Data, Transport},
    },
    watchdog::Operation,
};
use base::{Failure, Result};
use std::{
    thread,
    time::{Duration, Instant},
};
use tracing::{info, warn};

/// Bytes of the mode parameters that are read: header and one block descriptor.
const MODE_BYTES: u8 = 12;

/// What a drive without a usable medium says.
#[derive(Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// It is on its way.
    Becoming,
    /// A new medium is measured, which takes long.
    Measuring,
    /// It lies there and is not threaded.
    ToLoad,
    /// There is none.
    Empty,
}

impl<T: Transport> ScsiDrive<T> {
    /// Waits until the medium that the changer has put in is threaded; orders it if the drive does not by itself.
    pub(super) fn thread(&mut self) -> Result<()> {
        let begun = Instant::now();
        let deadlines = self.times.deadlines;
        let (mut deadline, mut is_ordered) = (deadlines.load, false);
        loop {
            let readiness = self.readiness()?;
            match readiness {
                Readiness::Ready => break,
                Readiness::Measuring if deadline != deadlines.first_load => {
                    info!(drive = self.device.name(), "a new medium is measured, which can take two hours");
                    deadline = deadlines.first_load;
                    if let Some(watchdog) = &self.watchdog {
                        watchdog.begin(Operation::FirstLoad, begun);
                    }
                }
                Readiness::ToLoad | Readiness::Empty if !is_ordered => {
                    is_ordered = true;
                    let command = Command::load(true);
                    let ordered = self.device.run(&command, Data::None, Attention::Repeat);
                    match ordered {
                        Ok(_) => continue,
                        // The next question says what is wrong.
                        Err(Trouble::Sense(sense)) if sense.key == SenseKey::NotReady => {}
                        Err(trouble) => return Err(self.failure(&command, trouble)),
                    }
                }
                Readiness::Empty => {
                    let name = self.device.name();
                    return Err(Failure::not_found(format!("drive {name}: there is no cartridge in it"))
                        .hint("let the changer move one there first"));
                }
                _ => {}
            }
            self.pause(begun, deadline)?;
        }
        self.medium = Some(Medium::new(self.device.resets()));
        Ok(())
    }

    fn pause(&self, begun: Instant, deadline: Duration) -> Result<()> {
        if begun.elapsed() >= deadline {
            let (name, seconds) = (self.device.name(), deadline.as_secs());
            let what = format!("drive {name}: the medium is not ready after {seconds} s");
            return Err(
                Failure::timeout(what).hint("look at the drive's display; the cartridge may be stuck")
            );
        }
        thread::sleep(self.times.ready_pause);
        Ok(())
    }

    /// Whether a medium is threaded. What happened since the last command is forgotten.
    pub(super) fn is_ready(&mut self) -> Result<bool> {
        Ok(self.readiness()? == Readiness::Ready)
    }

    fn readiness(&mut self) -> Result<Readiness> {
        let command = Command::test_unit_ready();
        let sense = match self.device.run(&command, Data::None, Attention::Repeat) {
            Ok(_) => return Ok(Readiness::Ready),
            Err(Trouble::Sense(sense)) => sense,
            Err(trouble) => return Err(self.failure(&command, trouble)),
        };
        Ok(match sense {
            Sense { key: SenseKey::NotReady, code: (0x3a, _), .. } => Readiness::Empty,
            Sense { key: SenseKey::NotReady, code: (0x04, 0x02), .. } => Readiness::ToLoad,
            Sense { key: SenseKey::NotReady, code: (0x04, 0x07), .. } => Readiness::Measuring,
            Sense { key: SenseKey::NotReady, code: (0x04, 0x00 | 0x01), .. } => Readiness::Becoming,
            sense => return Err(self.failure(&command, Trouble::Sense(sense))),
        })
    }

    /// Asks what the drive can do with this medium, and sets it up: blocks of any length, held while it is in use.
    pub(super) fn prepare(&mut self) -> Result<()> {
        self.set_variable_blocks()?;
        self.ask_block_limits()?;
        // A changer must not take the medium away while it is written. Not every drive offers that.
        let command = Command::prevent_removal(true);
        match self.run(&command, Data::None) {
            Err(Trouble::Sense(sense)) if sense.is_not_offered() => self.not_offered(&command),
            Err(trouble) => return Err(self.fail(&command, trouble)),
            Ok(_) => {}
        }
        self.cross_check()
    }

    fn set_variable_blocks(&mut self) -> Result<()> {
        let command = Command::mode_sense(MODE_BYTES);
        let mut mode = [0; MODE_BYTES as usize];
        match self.run(&command, Data::In(&mut mode)) {
            Err(Trouble::Sense(sense)) if sense.is_not_offered() => {
                self.not_offered(&command);
                return Ok(());
            }
            Err(trouble) => return Err(self.fail(&command, trouble)),
            Ok(_) => {}
        }
        let has_descriptor = mode[3] == 8;
        if !has_descriptor || mode[9..12] == [0; 3] {
            return Ok(());
        }
        mode[0] = 0;
        // The write protection is told, not set.
        mode[2] &= 0x7f;
        mode[9..12].fill(0);
        let command = Command::mode_select(MODE_BYTES);
        self.run(&command, Data::Out(&mode)).map(drop).map_err(|trouble| self.fail(&command, trouble))
    }

    fn ask_block_limits(&mut self) -> Result<()> {
        let command = Command::read_block_limits();
        let mut limits = [0; 6];
        match self.run(&command, Data::In(&mut limits)) {
            Err(Trouble::Sense(sense)) if sense.is_not_offered() => self.not_offered(&command),
            Err(trouble) => return Err(self.fail(&command, trouble)),
            Ok(_) => {
                let longest = u32::from_be_bytes([0, limits[1], limits[2], limits[3]]);
                if longest > 0 {
                    self.block_bytes_max = longest;
                }
            }
        }
        Ok(())
    }

    /// Lets the medium go.
    pub(super) fn eject(&mut self) -> Result<()> {
        let allow = Command::prevent_removal(false);
        match self.device.run(&allow, Data::None, Attention::Repeat) {
            Err(Trouble::Sense(sense)) if sense.is_not_offered() => {}
            Err(trouble) => return Err(self.failure(&allow, trouble)),
            Ok(_) => {}
        }
        let command = Command::load(false);
        match self.device.run(&command, Data::None, Attention::Repeat) {
            Ok(_) => Ok(()),
            // Somebody was faster.
            Err(Trouble::Sense(Sense {
                key: SenseKey::NotReady, code: (0x3a, _) | (0x04, 0x02), ..
            })) => Ok(()),
            Err(trouble) => Err(self.failure(&command, trouble)),
        }
    }

    /// How full the medium is, by its own memory.
    pub(super) fn ask_capacity(&mut self) -> Result<Option<Capacity>> {
        let Capabilities { attributes, .. } = self.capabilities;
        if !attributes {
            return Ok(None);
        }
        match attributes::capacity(&mut self.device) {
            Ok(capacity) => Ok(capacity),
            Err(Trouble::Sense(sense)) if sense.key != SenseKey::Hardware => {
                // A cartridge whose memory is broken is still a good tape.
                if sense.is_not_offered() {
                    self.capabilities.attributes = false;
                } else {
                    warn!(drive = self.device.name(), %sense, "cannot read the memory of the cartridge");
                }
                Ok(None)
            }
            Err(trouble) => Err(self.failure(&Command::read_attribute(0, 0), trouble)),
        }
    }

    /// Compares the position that is counted here with the drive's own, if the drive tells that truthfully.
    pub(super) fn cross_check(&mut self) -> Result<()> {
        let Some(at) = self.medium()?.at else { return Ok(()) };
        let Some(found) = self.ask_position()? else { return Ok(()) };
        if found == at {
            if at > 0 {
                self.capabilities.read_position = PositionReport::True;
            }
            return Ok(());
        }
        if found == 0 && self.capabilities.read_position == PositionReport::Unproven {
            // A drive that always says 0.
            self.capabilities.read_position = PositionReport::No;
            return Ok(());
        }
        let name = self.device.name();
        let what = format!("drive {name}: it stands at block {found}, but should be at {at}");
        let failure = Failure::new(base::ErrorKind::Io, what)
            .hint("unload the volume and load it again; if it happens again, have the drive checked");
        if let Some(medium) = &mut self.medium {
            (medium.at, medium.failed) = (None, Some(failure.clone()));
        }
        Err(failure)
    }

    /// The drive's own position; `None` if it does not tell.
    pub(super) fn ask_position(&mut self) -> Result<Option<u64>> {
        if self.capabilities.read_position == PositionReport::No {
            return Ok(None);
        }
        let command = Command::read_position();
        let mut answer = [0; 20];
        match self.run(&command, Data::In(&mut answer)) {
            Err(Trouble::Sense(sense)) if sense.is_not_offered() => {
                self.not_offered(&command);
                self.capabilities.read_position = PositionReport::No;
                Ok(None)
            }
            Err(trouble) => Err(self.fail(&command, trouble)),
            // Position unknown, or an error of the report itself.
            Ok(_) if answer[0] & 0x06 != 0 => {
                if self.capabilities.read_position == PositionReport::Unproven {
                    self.capabilities.read_position = PositionReport::No;
                }
                Ok(None)
            }
            Ok(_) => Ok(Some(u32::from_be_bytes([answer[4], answer[5], answer[6], answer[7]]).into())),
        }
    }
}
