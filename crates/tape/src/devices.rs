//! The devices of a library, of whatever kind.

use crate::{
    changer::Changer,
    drive::TapeDrive,
    scsi::{
        ScsiChanger, ScsiDrive,
        changer::NamedDrive,
        drive::DriveTimes,
        emulation::EmulatedLibrary,
        iscsi::{IscsiAddress, IscsiTransport, Login},
        sg::SgTransport,
        transport::Transport,
    },
    virtual_library::VirtualLibrary,
};
use base::Result;
use std::path::PathBuf;

/// The drives and the changer of a library, opened.
pub struct Devices {
    /// The drives.
    pub drives: Vec<Box<dyn TapeDrive>>,
    /// The changer.
    pub changer: Box<dyn Changer>,
}

impl Devices {
    /// Those of a virtual library.
    pub fn of_virtual(library: &VirtualLibrary) -> Result<Self> {
        let drive = |number| Ok(Box::new(library.drive(number)?) as Box<dyn TapeDrive>);
        let drives = library.drive_numbers()?.into_iter().map(drive).collect::<Result<_>>()?;
        Ok(Self { drives, changer: Box::new(library.clone()) })
    }

    /// Those of an emulated library.
    pub fn of_emulated(library: &EmulatedLibrary, capacity_bytes: u64) -> Result<Self> {
        let (drives, changer) = library.open(DriveTimes::default(), capacity_bytes)?;
        let drives = drives.into_iter().map(|drive| Box::new(drive) as Box<dyn TapeDrive>).collect();
        Ok(Self { drives, changer: Box::new(changer) })
    }

    /// Those at paths of this host. `capacity_bytes`: of every cartridge; `None`: as its bar code says.
    pub fn of_sg(library: &str, paths: &SgPaths, capacity_bytes: Option<u64>) -> Result<Self> {
        let changer = SgTransport::open(&paths.changer)?;
        let drives = paths.drives.iter().map(SgTransport::open).collect::<Result<_>>()?;
        Self::of_scsi(library, changer, drives, capacity_bytes)
    }

    /// Those behind an iSCSI target, each with a session of its own.
    pub fn of_iscsi(library: &str, target: &IscsiTarget, capacity_bytes: Option<u64>) -> Result<Self> {
        let open = |lun: u16| {
            let IscsiTarget { portal, target, initiator, login, .. } = target.clone();
            IscsiTransport::open(IscsiAddress { portal, target, lun, initiator, login })
        };
        let changer = open(target.changer_lun)?;
        let drives = target.drive_luns.iter().copied().map(open).collect::<Result<_>>()?;
        Self::of_scsi(library, changer, drives, capacity_bytes)
    }

    fn of_scsi<T: Transport + 'static>(
        library: &str,
        changer: T,
        transports: Vec<T>,
        capacity_bytes: Option<u64>,
    ) -> Result<Self> {
        let (mut drives, mut named) = (Vec::new(), Vec::new());
        for (number, transport) in transports.into_iter().enumerate() {
            let name = format!("{library}.drive{number}");
            let drive = ScsiDrive::open(name.clone(), transport)?;
            named.push(NamedDrive { name, serial: drive.serial().to_owned() });
            drives.push(Box::new(drive) as Box<dyn TapeDrive>);
        }
        let changer = ScsiChanger::open(library, changer, named, capacity_bytes)?;
        Ok(Self { drives, changer: Box::new(changer) })
    }
}

/// Where the devices of a library are on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SgPaths {
    /// The changer.
    pub changer: PathBuf,
    /// The drives; drive 0 is the first.
    pub drives: Vec<PathBuf>,
}

/// Where the devices of a library are behind an iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiTarget {
    /// Host and port.
    pub portal: String,
    /// Name of the target.
    pub target: String,
    /// Number of the changer.
    pub changer_lun: u16,
    /// Numbers of the drives; drive 0 is the first.
    pub drive_luns: Vec<u16>,
    /// Name of this host.
    pub initiator: String,
    /// User and password, if the target demands them.
    pub login: Option<Login>,
}
