//! A drive whose media are AWSTAPE files in a directory.

use crate::{
    drive::{Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, TapeDrive, Written},
    image::Image,
    virtual_library::{Lock, cartridge_in},
};
use base::{Failure, Result, Vid};
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};
use wire::media::{awstape, label::Text};

/// What a virtual drive makes of its media.
#[derive(Debug, Clone, Copy)]
pub struct DriveOptions {
    /// Bytes of image that a cartridge can hold.
    pub capacity_bytes: u64,
    /// How long before the end the early warning comes. Must leave room for a block and the labels behind it.
    pub early_warning_bytes: u64,
    /// Bytes gathered in memory before they are written to the image.
    pub buffer_bytes: usize,
    /// How long a load takes: a real drive needs some 15 s to thread the tape.
    pub load_time: Duration,
}

impl DriveOptions {
    /// Cartridges of `capacity_bytes`, with an early warning in proportion.
    #[must_use]
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        let early_warning_bytes = (capacity_bytes / 64).clamp(512 << 10, 64 << 20);
        Self { capacity_bytes, early_warning_bytes, buffer_bytes: 4 << 20, load_time: Duration::ZERO }
    }
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self::with_capacity(20_000_000_000)
    }
}

/// A virtual drive. It owns its directory: a second process that opens it is refused.
///
/// Writes are gathered in memory and lost with the process until [`TapeDrive::flush`].
#[derive(Debug)]
pub struct VirtualDrive {
    name: String,
    directory: PathBuf,
    identity: Identity,
    options: DriveOptions,
    /// Of its directory, for as long as the drive lives.
    _lock: Lock,
    medium: Option<Image>,
}

impl VirtualDrive {
    /// Opens the drive whose cartridge lies in `directory`; `Busy` if somebody else has it open.
    pub fn open(name: impl Into<String>, directory: impl AsRef<Path>, options: DriveOptions) -> Result<Self> {
        let (name, directory) = (name.into(), directory.as_ref().to_owned());
        if options.early_warning_bytes < awstape::image_bytes(1) || options.buffer_bytes == 0 {
            return Err(Failure::invalid(format!(
                "drive {name}: early warning and buffer must not be empty"
            )));
        }
        let folder = File::open(&directory)
            .map_err(|cause| Failure::io(format!("drive {name}: open {}", base::tail(&directory)), &cause))?;
        let lock = Lock::take(folder, || {
            Failure::busy(format!("drive {name} ({}) is in use by another process", base::tail(&directory)))
                .hint("stop the other tape server of this library first")
        })?;
        let identity = Identity {
            vendor: Text::fitted("BACKPLNE"),
            model: Text::fitted("VIRTUAL"),
            serial: Text::fitted(&name),
        };
        Ok(Self { name, directory, identity, options, _lock: lock, medium: None })
    }

    /// The cartridge that lies in it, threaded or not.
    pub(crate) fn cartridge(&self) -> Result<Option<(Vid, PathBuf)>> {
        cartridge_in(&self.directory)
    }

    /// Lets the medium go without its buffer, as when the power fails.
    pub(crate) fn lose_buffer(&mut self) {
        self.medium = None;
    }

    fn medium(&mut self) -> Result<&mut Image> {
        let name = &self.name;
        let medium = self.medium.as_mut();
        medium.ok_or_else(|| Failure::not_found(format!("drive {name}: no medium is loaded")))
    }

    /// Runs `call` on the medium and puts the drive's name in front of what fails.
    fn on_medium<T>(&mut self, call: impl FnOnce(&mut Image) -> Result<T>) -> Result<T> {
        let answer = call(self.medium()?);
        answer.map_err(|failure| failure.during(format_args!("drive {}", self.name)))
    }
}

impl TapeDrive for VirtualDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn load(&mut self) -> Result<()> {
        if self.medium.is_some() {
            return self.rewind();
        }
        let during = |failure: Failure| failure.during(format_args!("drive {}", self.name));
        let cartridge = cartridge_in(&self.directory).map_err(during)?;
        let Some((vid, path)) = cartridge else {
            return Err(Failure::not_found(format!("drive {}: there is no cartridge in it", self.name))
                .hint("let the changer move one there first"));
        };
        let image = Image::open(vid, &path, self.options).map_err(during)?;
        std::thread::sleep(self.options.load_time);
        if let Some(damage) = image.damage() {
            tracing::warn!(drive = %self.name, vid = %image.vid(), %damage, "tape image is damaged; data after \
                the damage are not readable");
        }
        self.medium = Some(image);
        Ok(())
    }

    fn unload(&mut self) -> Result<()> {
        let answer = self.on_medium(Image::flush);
        self.medium = None;
        answer
    }

    fn rewind(&mut self) -> Result<()> {
        self.on_medium(|image| image.locate(0))
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written> {
        self.on_medium(|image| image.write_block(block))
    }

    fn write_filemarks(&mut self, count: u32) -> Result<Written> {
        self.on_medium(|image| image.write_filemarks(count))
    }

    fn flush(&mut self) -> Result<()> {
        self.on_medium(Image::flush)
    }

    fn read_block(&mut self, block: &mut Vec<u8>) -> Result<Read> {
        self.on_medium(|image| image.read_block(block))
    }

    fn space(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced> {
        self.on_medium(|image| image.space(kind, count))
    }

    fn locate(&mut self, block: u64) -> Result<()> {
        self.on_medium(|image| image.locate(block))
    }

    fn position(&mut self) -> Result<Position> {
        self.on_medium(|image| Ok(image.position()))
    }

    fn capacity(&mut self) -> Result<Option<Capacity>> {
        self.on_medium(|image| Ok(Some(image.capacity())))
    }

    fn status(&self) -> DriveStatus {
        self.medium.as_ref().map_or(DriveStatus::Empty, Image::status)
    }

    fn address(&self) -> String {
        base::tail(&self.directory)
    }
}
