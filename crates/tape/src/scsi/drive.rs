//! A tape drive that understands SCSI stream commands.
//!
//! The position is counted here. Where the drive tells its own truthfully (READ POSITION), the two are compared, because a block that
//! is written somewhere else destroys a volume. A reset in the middle of a session loses the position: the drive then refuses
//! everything until it is unloaded and loaded.

mod medium;
mod moves;
mod transfer;

use super::{
    command::Command,
    device::{Attention, Device, Outcome, Trouble},
    health,
    inquiry::{DeviceType, Inquiry},
    sense::Sense,
    transport::{Data, Transport},
};
use crate::{
    drive::{At, Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, TapeDrive, Written},
    watchdog::{Deadlines, Watchdog},
};
use base::{Failure, Result, limits::TAPE_BLOCK_BYTES};
use std::time::Duration;
use tracing::{debug, warn};
use wire::media::label::Text;

/// Pause between two questions whether a medium is threaded.
const READY_PAUSE: Duration = Duration::from_millis(250);

/// What a drive can do. Nothing is assumed: a command that the drive refuses is not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// LOCATE(16).
    pub locate_16: bool,
    /// LOCATE(10).
    pub locate_10: bool,
    /// READ POSITION, with the truth.
    pub read_position: PositionReport,
    /// The memory of cartridges.
    pub attributes: bool,
    /// Marks that are written with the next blocks.
    pub immediate_filemarks: bool,
}

/// What READ POSITION is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionReport {
    /// It was 0 at the beginning, where a drive that always says 0 is right, too.
    Unproven,
    /// It was right at another position.
    True,
    /// The drive does not offer it, or does not know.
    No,
}

/// How the drive is used.
#[derive(Debug, Clone, Copy)]
pub struct DriveTimes {
    /// Pause between two questions whether a medium is threaded.
    pub ready_pause: Duration,
    /// How long the drive may take.
    pub deadlines: Deadlines,
}

impl Default for DriveTimes {
    fn default() -> Self {
        Self { ready_pause: READY_PAUSE, deadlines: Deadlines::default() }
    }
}

/// The medium that is threaded.
#[derive(Debug)]
struct Medium {
    /// The object that is read or written next; `None` after an error, until the next absolute move.
    at: Option<u64>,
    /// The object at which the data end, once that was seen.
    end: Option<u64>,
    /// Something was written that no flush has made durable.
    is_dirty: bool,
    /// The drive refuses until it is unloaded and loaded.
    failed: Option<Failure>,
    /// Resets of the device before: one more, and the position is lost.
    resets: u64,
}

impl Medium {
    /// A medium that was just threaded, or found threaded.
    fn new(resets: u64) -> Self {
        Self { at: None, end: None, is_dirty: false, failed: None, resets }
    }
}

/// A tape drive behind a transport.
#[derive(Debug)]
pub struct ScsiDrive<T> {
    device: Device<T>,
    identity: Identity,
    serial: String,
    capabilities: Capabilities,
    times: DriveTimes,
    watchdog: Option<Watchdog>,
    medium: Option<Medium>,
    /// Longest block that the drive takes.
    block_bytes_max: u32,
    /// Length of the last long block: what is asked for next.
    block_bytes: u32,
}

impl<T: Transport> ScsiDrive<T> {
    /// Opens the drive at the other end of `transport`.
    ///
    /// A medium that an earlier process has left in it counts as threaded, at an unknown position.
    pub fn open(name: impl Into<String>, transport: T) -> Result<Self> {
        let mut device = Device::new(name, transport);
        let during = |failure: Failure, device: &Device<T>| failure.during(place(device));
        let inquiry = Inquiry::of(&mut device)
            .map_err(|trouble| during(trouble.failure(&Command::inquiry(None, 0)), &device))?;
        if inquiry.kind != DeviceType::Drive {
            let what = format!("{}: it is no tape drive ({:?})", place(&device), inquiry.kind);
            return Err(Failure::invalid(what).hint("compare the configuration with `lsscsi -g`"));
        }
        let identity = Identity {
            vendor: Text::fitted(&inquiry.vendor),
            model: Text::fitted(&inquiry.model),
            serial: Text::fitted(last_characters(&inquiry.serial, 12)),
        };
        let mut drive = Self {
            device,
            identity,
            serial: inquiry.serial,
            capabilities: Capabilities {
                locate_16: true,
                locate_10: true,
                read_position: PositionReport::Unproven,
                attributes: true,
                immediate_filemarks: true,
            },
            times: DriveTimes::default(),
            watchdog: None,
            medium: None,
            block_bytes_max: wire::media::awstape::BLOCK_BYTES_MAX as u32,
            block_bytes: TAPE_BLOCK_BYTES,
        };
        let ready = drive.device.run(&Command::test_unit_ready(), Data::None, Attention::Repeat);
        if ready.is_ok() {
            drive.medium = Some(Medium::new(drive.device.resets()));
        }
        Ok(drive)
    }

    /// Sets how long it may take and how often it is asked.
    #[must_use]
    pub fn with_times(self, times: DriveTimes) -> Self {
        Self { times, ..self }
    }

    /// Its serial number in full; empty if it does not say.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The medium, if it can be used.
    fn medium(&mut self) -> Result<&mut Medium> {
        match &mut self.medium {
            None => Err(Failure::not_found(format!("drive {}: no medium is loaded", self.device.name()))),
            Some(Medium { failed: Some(failure), .. }) => Err(failure.clone()),
            Some(medium) => Ok(medium),
        }
    }

    /// The position; an error if it is not known.
    fn at(&mut self) -> Result<u64> {
        let name = self.device.name().to_owned();
        let at = self.medium()?.at;
        at.ok_or_else(|| {
            Failure::new(base::ErrorKind::Io, format!("drive {name}: its position is not known"))
        })
    }

    fn set_at(&mut self, at: Option<u64>) {
        if let Some(medium) = &mut self.medium {
            medium.at = at;
        }
    }

    /// Runs a command that depends on the position.
    fn run(&mut self, command: &Command, data: Data<'_>) -> Result<Outcome, Trouble> {
        let resets = self.device.resets();
        if self.medium.as_ref().is_some_and(|medium| medium.resets != resets) {
            return Err(Trouble::Reset);
        }
        self.device.run(command, data, Attention::KeepsPosition)
    }

    /// The failure for trouble with a command, with the health of the drive if it says something of that.
    fn failure(&mut self, command: &Command, trouble: Trouble) -> Failure {
        let is_reached = !matches!(trouble, Trouble::Transport(_));
        let failure = trouble.failure(command).during(place(&self.device));
        let alerts = if is_reached { health::alerts(&mut self.device) } else { Vec::new() };
        if alerts.is_empty() {
            return failure;
        }
        let words = health::words(&alerts);
        warn!(drive = self.device.name(), alerts = %words, "tape drive reports TapeAlert flags");
        Failure { what: format!("{}; TapeAlert {words}", failure.what), ..failure }
    }

    /// The same, after which the drive refuses until it is unloaded and loaded: what it did is not known.
    fn fail(&mut self, command: &Command, trouble: Trouble) -> Failure {
        let failure = self
            .failure(command, trouble)
            .hint("unload the volume and load it again; unflushed files must be repeated");
        if let Some(medium) = &mut self.medium {
            (medium.at, medium.failed) = (None, Some(failure.clone()));
        }
        failure
    }

    /// Tells of TapeAlert flags before the medium leaves, while they are still about it.
    fn note_alerts(&mut self) {
        let alerts = health::alerts(&mut self.device);
        if !alerts.is_empty() {
            let alerts = health::words(&alerts);
            warn!(drive = self.device.name(), %alerts, "tape drive reports TapeAlert flags");
        }
    }
}

impl<T: Transport> TapeDrive for ScsiDrive<T> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn load(&mut self) -> Result<()> {
        let before = self.medium.as_ref().map(|medium| (medium.failed.is_some(), medium.is_dirty));
        match before {
            // What was not flushed is lost, and nobody was told that it is there.
            Some((true, _)) => {
                self.eject()?;
                self.medium = None;
            }
            // A reset while nobody used the drive does no harm: from here on all begins at the beginning.
            Some((false, false)) => {
                let is_ready = self.is_ready()?;
                self.medium = is_ready.then(|| Medium::new(self.device.resets()));
            }
            _ => {}
        }
        if self.medium.is_none() {
            self.thread()?;
        }
        self.rewind()?;
        self.prepare()
    }

    fn unload(&mut self) -> Result<()> {
        let flushed = match &self.medium {
            Some(Medium { is_dirty: true, failed: None, .. }) => self.flush(),
            Some(Medium { failed: Some(failure), is_dirty: true, .. }) => Err(failure.clone()),
            Some(_) => Ok(()),
            None => return self.medium().map(drop),
        };
        self.note_alerts();
        let ejected = self.eject();
        if ejected.is_ok() {
            self.medium = None;
        }
        flushed.and(ejected)
    }

    fn rewind(&mut self) -> Result<()> {
        self.medium()?;
        let command = Command::rewind();
        self.run(&command, Data::None).map_err(|trouble| self.fail(&command, trouble))?;
        self.set_at(Some(0));
        Ok(())
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written> {
        self.write(block)
    }

    fn write_filemarks(&mut self, count: u32) -> Result<Written> {
        self.write_marks(count)
    }

    fn flush(&mut self) -> Result<()> {
        self.medium()?;
        let command = Command::write_filemarks(0, false);
        match self.run(&command, Data::None) {
            Ok(_) => {}
            // In the early warning zone a drive says so again; all is written.
            Err(Trouble::Sense(sense)) if is_early_warning(&sense) => {}
            // There is nothing to make durable on a cartridge that must not be written.
            Err(Trouble::Sense(sense)) if sense.is_write_protected() && !self.medium()?.is_dirty => {}
            Err(trouble) => return Err(self.fail(&command, trouble)),
        }
        self.medium()?.is_dirty = false;
        self.cross_check()
    }

    fn read_block(&mut self, block: &mut Vec<u8>) -> Result<Read> {
        self.read(block)
    }

    fn space(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced> {
        self.space_over(kind, count)
    }

    fn locate(&mut self, block: u64) -> Result<()> {
        self.go_to(block)
    }

    fn position(&mut self) -> Result<Position> {
        self.cross_check()?;
        let block = self.at()?;
        let end = self.medium()?.end;
        let at = match block {
            0 => At::Beginning,
            at if end == Some(at) => At::EndOfData,
            _ => At::Middle,
        };
        Ok(Position { block, at })
    }

    fn capacity(&mut self) -> Result<Option<Capacity>> {
        self.medium()?;
        self.ask_capacity()
    }

    fn status(&self) -> DriveStatus {
        match &self.medium {
            None => DriveStatus::Empty,
            Some(Medium { failed: Some(failure), .. }) => {
                DriveStatus::Failed { reason: failure.what.clone() }
            }
            Some(_) => DriveStatus::Loaded { damage: None },
        }
    }

    fn address(&self) -> String {
        self.device.transport().address()
    }

    fn watched_by(&mut self, watchdog: &Watchdog) {
        self.watchdog = Some(watchdog.clone());
    }
}

/// Name and address of a drive, for messages.
fn place<T: Transport>(device: &Device<T>) -> String {
    format!("drive {} ({})", device.name(), device.transport().address())
}

/// All was written, and the end of the medium is near.
fn is_early_warning(sense: &Sense) -> bool {
    use super::sense::SenseKey;
    sense.end_of_medium
        && !sense.is_deferred
        && matches!(sense.key, SenseKey::NoSense | SenseKey::Recovered)
        && sense.information.unwrap_or(0) == 0
}

/// The end of a text: serial numbers differ there.
fn last_characters(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().take(count).last().map_or(text.len(), |(at, _)| at);
    &text[start..]
}

impl<T: Transport> ScsiDrive<T> {
    /// Notes that the drive does not offer something.
    fn not_offered(&self, command: &Command) {
        debug!(drive = self.device.name(), command = command.name(), "the drive does not offer it");
    }
}
