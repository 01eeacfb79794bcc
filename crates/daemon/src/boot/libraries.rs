//! The tape libraries of a host, each with threads of its own.

use super::{catalogue::read_password, rooms::RoomConfiguration};
use crate::facility::{
    config::{LibraryConfig, LibraryKind},
    layout::LIBRARY,
};
use base::{Result, Timestamp, Vid};
use std::time::{Duration, Instant};
use tape::{
    Devices, DriveOptions, IscsiTarget, RoomConfig, SgPaths, TapeRoom, VirtualLibrary,
    copier::XrdDisk,
    scsi::{emulation::EmulatedLibrary, iscsi::Login},
    session::LabelStyle,
};
use wire::media::label::LabelDate;

/// Bytes of a virtual cartridge, if the configuration does not say.
const VIRTUAL_BYTES: u64 = 16 << 30;

/// The running libraries.
#[derive(Default)]
pub(super) struct Libraries(Vec<TapeRoom>);

impl Libraries {
    /// Starts the library of `[tape]`, if it has drives, and those beside it. Devices that cannot be reached are tried again.
    pub(super) fn start(host: &RoomConfiguration<'_>) -> Result<Self> {
        let tape = &host.config.tape;
        let mut rooms = Vec::new();
        if tape.drives > 0 {
            let load_time = Duration::from_millis(tape.load_time.0.0.unsigned_abs());
            let options = DriveOptions { load_time, ..DriveOptions::with_capacity(tape.volume_size.0) };
            let library = VirtualLibrary::open(host.layout.library())?.with_options(options);
            let library = library.named(format!("{}{LIBRARY}", host.prefix));
            let config = RoomConfig::new(labels(host), tape.volume_size.0);
            let devices = Devices::of_virtual(&library)?;
            rooms.push(TapeRoom::start(config, devices, host.control.clone(), disk(host))?);
        }
        for library in &tape.library {
            rooms.push(start(host, library)?);
        }
        Ok(Self(rooms))
    }

    /// Tells them to stop, without waiting.
    pub(super) fn tell(&self) {
        self.0.iter().for_each(TapeRoom::tell);
    }

    /// Waits until they have, all together for `deadline`.
    pub(super) fn stop(self, deadline: Duration) -> Result<()> {
        self.tell();
        let begun = Instant::now();
        let stopped = self.0.into_iter().map(|room| room.stop(deadline.saturating_sub(begun.elapsed())));
        stopped.fold(Ok(()), Result::and)
    }
}

fn labels(host: &RoomConfiguration<'_>) -> LabelStyle {
    LabelStyle {
        site: host.site.clone(),
        host: if host.prefix.is_empty() { "localhost".to_owned() } else { host.config.host_name() },
        block_bytes: u32::try_from(host.config.tape.block.0).unwrap_or(u32::MAX),
        today: || LabelDate::from_timestamp(Timestamp::from_system(std::time::SystemTime::now())),
    }
}

fn disk(host: &RoomConfiguration<'_>) -> XrdDisk {
    XrdDisk::new(host.authorities.clone())
}

fn start(host: &RoomConfiguration<'_>, library: &LibraryConfig) -> Result<TapeRoom> {
    let name = format!("{}{}", host.prefix, library.name);
    let capacity_bytes = library.capacity_bytes();
    let config = RoomConfig::new(labels(host), capacity_bytes.unwrap_or(VIRTUAL_BYTES));
    let open: Box<dyn Fn() -> Result<Devices> + Send + Sync> = match library.kind {
        LibraryKind::Virtual => {
            let library = made(host, library)?.named(name.clone());
            Box::new(move || Devices::of_virtual(&library))
        }
        LibraryKind::Emulated => {
            let library = EmulatedLibrary::new(name.clone(), made(host, library)?);
            Box::new(move || Devices::of_emulated(&library, capacity_bytes.unwrap_or(VIRTUAL_BYTES)))
        }
        LibraryKind::Sg => {
            let paths = SgPaths { changer: library.changer.clone(), drives: library.drive_paths.clone() };
            let name = name.clone();
            Box::new(move || Devices::of_sg(&name, &paths, capacity_bytes))
        }
        LibraryKind::Iscsi => {
            let target = target(host, library)?;
            let name = name.clone();
            Box::new(move || Devices::of_iscsi(&name, &target, capacity_bytes))
        }
    };
    TapeRoom::start_when_reached(name, config, open, host.control.clone(), disk(host))
}

/// The virtual library behind it, made at the first start.
fn made(host: &RoomConfiguration<'_>, library: &LibraryConfig) -> Result<VirtualLibrary> {
    let directory = host.layout.library_named(&library.name);
    let load_time = Duration::from_millis(library.load_time.0.0.unsigned_abs());
    let capacity_bytes = library.capacity_bytes().unwrap_or(VIRTUAL_BYTES);
    let options = DriveOptions { load_time, ..DriveOptions::with_capacity(capacity_bytes) };
    // Cartridges that were taken out of a library stay out.
    if directory.exists() {
        return Ok(VirtualLibrary::open(directory)?.with_options(options));
    }
    let label = |number| format!("{}{number:04}", library.prefix).parse();
    let volumes: Vec<Vid> = (1..=library.volumes).map(label).collect::<Result<_>>()?;
    let made = VirtualLibrary::create(directory, library.drives, library.slots, &volumes)?;
    Ok(made.with_options(options))
}

fn target(host: &RoomConfiguration<'_>, library: &LibraryConfig) -> Result<IscsiTarget> {
    let login = if library.user.is_empty() {
        None
    } else {
        let password = read_password(&host.layout.root().join(&library.password_file))?;
        Some(Login { user: library.user.clone(), password })
    };
    Ok(IscsiTarget {
        portal: library.portal.clone(),
        target: library.target.clone(),
        changer_lun: library.changer_lun,
        drive_luns: library.drive_luns.clone(),
        initiator: library.initiator.clone(),
        login,
    })
}
