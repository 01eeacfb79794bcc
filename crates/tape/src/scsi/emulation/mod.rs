//! SCSI drives and a changer in this process, over the cartridges of a virtual library.
//!
//! They answer the commands that [`ScsiDrive`] and [`ScsiChanger`] send, down to sense data,
//! so that everything above the transport runs as it does with real devices. What a drive offers can be reduced
//! ([`Offer`]), and faults happen at the commands that a [`FaultPlan`] names.

mod answer;
mod changer;
mod drive;
mod fault;

use super::{
    changer::{NamedDrive, ScsiChanger},
    drive::{DriveTimes, ScsiDrive},
};
use crate::virtual_library::VirtualLibrary;
use base::Result;
pub use changer::EmulatedChanger;
pub use drive::EmulatedDrive;
pub use fault::{ChangerFault, DriveFault, FaultPlan};

/// What a drive offers beside the commands that all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// LOCATE.
    pub locate: bool,
    /// READ POSITION; without it the drive answers that it does not know.
    pub read_position: bool,
    /// The memory of cartridges.
    pub attributes: bool,
    /// TapeAlert.
    pub alerts: bool,
    /// Of a block that is shorter than what was asked for, all comes; some targets send as many bytes as are missing.
    pub short_blocks: bool,
    /// Questions after which a cartridge is threaded.
    pub load_polls: u32,
    /// The same for a new one, which the drive measures first.
    pub first_load_polls: u32,
}

impl Offer {
    /// A modern drive.
    pub const ALL: Self = Self {
        locate: true,
        read_position: true,
        attributes: true,
        alerts: true,
        short_blocks: true,
        load_polls: 1,
        first_load_polls: 3,
    };
    /// As little as a drive can offer.
    pub const LEAST: Self = Self {
        locate: false,
        read_position: false,
        attributes: false,
        alerts: false,
        short_blocks: false,
        ..Self::ALL
    };
}

/// A library of emulated devices.
#[derive(Debug, Clone)]
pub struct EmulatedLibrary {
    library: VirtualLibrary,
    name: String,
    offer: Offer,
    plan: FaultPlan,
}

impl EmulatedLibrary {
    /// Emulates devices over the cartridges of `library`.
    pub fn new(name: impl Into<String>, library: VirtualLibrary) -> Self {
        Self { name: name.into(), library, offer: Offer::ALL, plan: FaultPlan::default() }
    }

    /// Sets what its drives offer.
    #[must_use]
    pub fn with_offer(self, offer: Offer) -> Self {
        Self { offer, ..self }
    }

    /// Sets the faults that happen.
    #[must_use]
    pub fn with_faults(self, plan: FaultPlan) -> Self {
        Self { plan, ..self }
    }

    /// The faults that happen.
    #[must_use]
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// Switches drive `number` on.
    pub fn drive(&self, number: u16) -> Result<EmulatedDrive> {
        let drive = self.library.drive(number)?;
        Ok(EmulatedDrive::new(self.serial(number), drive, self.offer, self.plan.clone()))
    }

    /// Switches the changer on.
    pub fn changer(&self) -> Result<EmulatedChanger> {
        let serials = self.library.drive_numbers()?.into_iter().map(|number| self.serial(number));
        Ok(EmulatedChanger::new(
            self.name.clone(),
            self.library.clone(),
            serials.collect(),
            self.plan.clone(),
        ))
    }

    /// All drives and the changer, as the tape server uses them. `capacity_bytes`: of each cartridge.
    pub fn open(
        &self,
        times: DriveTimes,
        capacity_bytes: u64,
    ) -> Result<(Vec<ScsiDrive<EmulatedDrive>>, ScsiChanger<EmulatedChanger>)> {
        let (mut drives, mut named) = (Vec::new(), Vec::new());
        for number in self.library.drive_numbers()? {
            let name = format!("{}.drive{number}", self.name);
            drives.push(ScsiDrive::open(name.clone(), self.drive(number)?)?.with_times(times));
            named.push(NamedDrive { name, serial: self.serial(number) });
        }
        let changer = ScsiChanger::open(self.name.clone(), self.changer()?, named, Some(capacity_bytes))?;
        Ok((drives, changer))
    }

    fn serial(&self, number: u16) -> String {
        format!("{}-{number}", self.name)
    }
}

/// Standard INQUIRY data, or the page with the serial number.
fn inquiry(cdb: &[u8], code: u8, model: &str, serial: &str) -> Option<Vec<u8>> {
    if cdb[1] & 1 != 0 {
        let page = [&[code, 0x80, 0, serial.len() as u8], serial.as_bytes()].concat();
        return (cdb[2] == 0x80).then_some(page);
    }
    let mut data = vec![code, 0x80, 0x06, 0x02, 31, 0, 0, 0];
    data.extend(format!("{:<8}{model:<16}{:<4}", "BACKPLNE", "0001").bytes());
    Some(data)
}
