//! One AWSTAPE file as a medium: an index of its objects, a position, a write buffer.

use crate::{
    drive::{At, Capacity, DriveStatus, Position, Read, SpaceKind, Spaced, Stop, Written},
    virtual_drive::DriveOptions,
    virtual_library::Lock,
};
use base::{Cause, Failure, Result, Vid};
use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};
use wire::media::awstape::{self, AwstapeError, CHUNK_HEADER_BYTES, Object, Scanner};

/// Bytes read at once when headers are looked for: a page, so that a long block costs one and short ones share it.
const WINDOW_BYTES: usize = 4096;

/// A threaded medium.
#[derive(Debug)]
pub(crate) struct Image {
    vid: Vid,
    path: PathBuf,
    /// Locked, so that the changer leaves it where it is.
    lock: Lock,
    /// Nobody may write the file: the tab of a cartridge.
    is_protected: bool,
    options: DriveOptions,
    /// Every whole object of the image, in order, the buffered ones too.
    index: Vec<Object>,
    /// The object that is read or written next.
    at: usize,
    /// Bytes of the file that hold whole objects.
    in_file: u64,
    /// Objects that go behind them and are not in the file yet.
    buffer: Vec<u8>,
    /// What ends the data before the image ends; the next write cuts it off.
    damage: Option<AwstapeError>,
    /// After a failed write or flush nobody knows what the file holds: nothing more is done with it.
    failed: Option<Failure>,
    scratch: Vec<u8>,
}

impl Image {
    /// Opens the image, takes it for this drive alone, and finds its objects.
    pub(crate) fn open(vid: Vid, path: &Path, options: DriveOptions) -> Result<Self> {
        let io = |what: &str, cause: &std::io::Error| {
            Failure::io(format!("volume {vid}: {what} {}", base::tail(path)), cause)
        };
        let mode = path.metadata().map_err(|cause| io("look at", &cause))?.mode();
        let is_protected = mode & 0o222 == 0;
        let file = File::options().read(true).write(!is_protected).open(path);
        let file = file.map_err(|cause| io("open", &cause))?;
        let busy = || {
            Failure::busy(format!("volume {vid} is being moved or used by another process"))
                .hint("try again when it is done")
        };
        let lock = Lock::take(file, busy)?;
        let opened = lock.file().metadata().map_err(|cause| io("look at", &cause))?;
        let there = path.metadata().map_err(|cause| io("look at", &cause))?;
        if (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
            // The changer took it away between finding and locking.
            return Err(busy());
        }
        let scan = scan(lock.file(), opened.len()).map_err(|cause| io("read", &cause))?;
        Ok(Self {
            vid,
            path: path.to_owned(),
            lock,
            is_protected,
            options,
            index: scan.objects,
            at: 0,
            in_file: scan.end,
            buffer: Vec::new(),
            damage: scan.damage,
            failed: None,
            scratch: Vec::new(),
        })
    }

    pub(crate) fn vid(&self) -> &Vid {
        &self.vid
    }

    pub(crate) fn damage(&self) -> Option<&AwstapeError> {
        self.damage.as_ref()
    }

    pub(crate) fn status(&self) -> DriveStatus {
        match &self.failed {
            Some(failure) => DriveStatus::Failed { reason: failure.what.clone() },
            None => DriveStatus::Loaded { damage: self.damage.map(|damage| damage.to_string()) },
        }
    }

    pub(crate) fn position(&self) -> Position {
        let at = match self.at {
            0 => At::Beginning,
            at if at == self.index.len() => At::EndOfData,
            _ => At::Middle,
        };
        Position { block: self.at as u64, at }
    }

    pub(crate) fn capacity(&self) -> Capacity {
        Capacity { used_bytes: self.end(), total_bytes: self.options.capacity_bytes }
    }

    pub(crate) fn locate(&mut self, block: u64) -> Result<()> {
        let end = self.index.len();
        self.at = usize::try_from(block).unwrap_or(usize::MAX).min(end);
        if self.at as u64 == block {
            return Ok(());
        }
        let damage = self.damage.map_or_else(String::new, |damage| format!(" ({damage})"));
        Err(Failure::corrupt(format!(
            "volume {}: block {block} is beyond the end of the data, block {end}{damage}",
            self.vid
        ))
        .hint("the volume differs from the catalogue; disable it and check it"))
    }

    pub(crate) fn space(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced> {
        if kind == SpaceKind::EndOfData {
            let passed = (self.index.len() - self.at) as u64;
            self.at = self.index.len();
            return Ok(Spaced { passed, stop: None });
        }
        let mut passed = 0;
        while passed < count.unsigned_abs() {
            let is_mark = match self.step(count > 0) {
                Ok(object) => object.is_mark(),
                Err(stop) => {
                    return Ok(Spaced { passed, stop: Some(stop) });
                }
            };
            if is_mark && kind == SpaceKind::Blocks {
                return Ok(Spaced { passed, stop: Some(Stop::Mark) });
            }
            passed += u64::from(is_mark || kind == SpaceKind::Blocks);
        }
        Ok(Spaced { passed, stop: None })
    }

    /// Moves over one object and returns it.
    fn step(&mut self, is_forward: bool) -> Result<Object, Stop> {
        if is_forward {
            let object = *self.index.get(self.at).ok_or(Stop::End)?;
            self.at += 1;
            return Ok(object);
        }
        self.at = self.at.checked_sub(1).ok_or(Stop::Beginning)?;
        Ok(self.index[self.at])
    }

    pub(crate) fn read_block(&mut self, block: &mut Vec<u8>) -> Result<Read> {
        self.usable()?;
        block.clear();
        let Some(object) = self.index.get(self.at).copied() else {
            return self.read_end();
        };
        if !object.is_mark() {
            let end = self.index.get(self.at + 1).map_or(self.end(), |next| next.offset);
            if end > self.in_file {
                self.spill()?;
            }
            // Scanned: the extent is part of the image, and longer than its data only by the headers.
            self.scratch.resize((end - object.offset) as usize, 0);
            let read = self.lock.file().read_exact_at(&mut self.scratch, object.offset);
            read.map_err(|cause| self.io(&format!("read byte {}", object.offset), &cause))?;
            awstape::join(&self.scratch, object.offset, block).map_err(|error| self.corrupt(error))?;
        }
        self.at += 1;
        Ok(if object.is_mark() { Read::Mark } else { Read::Block(block.len()) })
    }

    /// What a read behind the last whole object finds: nothing, or damage that is more than a tear.
    fn read_end(&self) -> Result<Read> {
        match self.damage {
            None | Some(AwstapeError::Torn { .. }) => Ok(Read::End),
            Some(damage) => Err(self.corrupt(damage)),
        }
    }

    pub(crate) fn write_block(&mut self, block: &[u8]) -> Result<Written> {
        if !(1..=awstape::BLOCK_BYTES_MAX).contains(&block.len()) {
            return Err(Failure::invalid(format!("a block of {} bytes cannot be written", block.len())));
        }
        let object = self.begin_write(block.len() as u32, awstape::image_bytes(block.len()))?;
        let last_chunk = awstape::encode_block(block, object.last_chunk, &mut self.buffer);
        self.end_write(Object { last_chunk, ..object })
    }

    pub(crate) fn write_filemarks(&mut self, count: u32) -> Result<Written> {
        let mut written = self.room();
        for _ in 0..count {
            let object = self.begin_write(0, CHUNK_HEADER_BYTES as u64)?;
            let last_chunk = awstape::encode_mark(object.last_chunk, &mut self.buffer);
            written = self.end_write(Object { last_chunk, ..object })?;
        }
        Ok(written)
    }

    /// Ends the data at the position and checks that an object of `bytes` fits there.
    ///
    /// Returns the object, with the last chunk of the one before it: the back link it needs.
    fn begin_write(&mut self, length: u32, bytes: u64) -> Result<Object> {
        self.usable()?;
        if self.is_protected {
            return Err(Failure::permission(format!("volume {} is write-protected", self.vid))
                .because(Cause::WriteProtected)
                .hint("files on it can be read; write elsewhere, or lift the protection"));
        }
        let offset = self.index.get(self.at).map_or(self.end(), |object| object.offset);
        if offset.saturating_add(bytes) > self.options.capacity_bytes {
            let capacity = self.options.capacity_bytes;
            return Err(Failure::no_space(format!("volume {}: its {capacity} bytes are full", self.vid)));
        }
        self.cut(offset)?;
        let last_chunk = self.index.last().map_or(0, |object| object.last_chunk);
        Ok(Object { offset, length, last_chunk })
    }

    /// Forgets the objects from the position on, and what is damaged behind them; the position is byte `offset`.
    fn cut(&mut self, offset: u64) -> Result<()> {
        if self.at == self.index.len() && self.damage.is_none() {
            return Ok(());
        }
        if offset >= self.in_file && self.damage.is_none() {
            self.buffer.truncate((offset - self.in_file) as usize);
        } else {
            self.buffer.clear();
            if let Err(cause) = self.lock.file().set_len(offset) {
                return Err(self.fail(&format!("cut at byte {offset}"), &cause));
            }
            self.in_file = offset;
        }
        self.index.truncate(self.at);
        self.damage = None;
        Ok(())
    }

    /// Takes an object that was just put into the buffer into the index.
    fn end_write(&mut self, object: Object) -> Result<Written> {
        self.index.push(object);
        self.at += 1;
        if self.buffer.len() >= self.options.buffer_bytes {
            self.spill()?;
        }
        Ok(self.room())
    }

    fn room(&self) -> Written {
        let DriveOptions { capacity_bytes, early_warning_bytes, .. } = self.options;
        // A small cartridge must not be all warning.
        let warning = capacity_bytes - early_warning_bytes.min(capacity_bytes / 2);
        if self.end() > warning { Written::EarlyWarning } else { Written::Plenty }
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.usable()?;
        self.spill()?;
        // Its directory entry was made durable when the cartridge was made or moved.
        match self.lock.file().sync_data() {
            Ok(()) => Ok(()),
            Err(cause) => Err(self.fail("flush", &cause)),
        }
    }

    /// Writes what is in the buffer to the file.
    fn spill(&mut self) -> Result<()> {
        if let Err(cause) = self.lock.file().write_all_at(&self.buffer, self.in_file) {
            return Err(self.fail(&format!("write byte {}", self.in_file), &cause));
        }
        self.in_file += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the end of the last whole object, including buffered ones.
    fn end(&self) -> u64 {
        self.in_file + self.buffer.len() as u64
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Takes the medium out of use after a write or flush that failed: what the file holds is not known any more.
    fn fail(&mut self, what: &str, cause: &std::io::Error) -> Failure {
        let failure = self
            .io(what, cause)
            .hint("unload the volume and load it again; unflushed files must be repeated");
        self.failed = Some(failure.clone());
        failure
    }

    fn io(&self, what: &str, cause: &std::io::Error) -> Failure {
        Failure::io(format!("volume {}: {what} of {}", self.vid, base::tail(&self.path)), cause)
    }

    fn corrupt(&self, error: AwstapeError) -> Failure {
        Failure::from(error).during(format_args!("volume {}: {}", self.vid, base::tail(&self.path)))
    }
}

/// The objects of an image.
#[derive(Debug)]
struct Scan {
    objects: Vec<Object>,
    end: u64,
    damage: Option<AwstapeError>,
}

/// Finds the objects of an image by its headers; seeks over the data.
fn scan(file: &File, image_bytes: u64) -> std::io::Result<Scan> {
    // Headers of long blocks lie far apart: what the kernel would read ahead is not wanted. Advice may be ignored.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    let mut scanner = Scanner::new(image_bytes);
    let mut window = Window { file, offset: 0, bytes: Vec::with_capacity(WINDOW_BYTES) };
    let mut objects = Vec::new();
    let damage = loop {
        let header = match scanner.next_header() {
            Ok(Some(offset)) => window.header(offset)?,
            Ok(None) => break None,
            Err(damage) => break Some(damage),
        };
        match scanner.take(header) {
            Ok(object) => objects.extend(object),
            Err(damage) => break Some(damage),
        }
    };
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
    Ok(Scan { objects, end: scanner.readable_bytes(), damage })
}

/// A small piece of the image around the header that was read last.
struct Window<'a> {
    file: &'a File,
    offset: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn header(&mut self, offset: u64) -> std::io::Result<[u8; CHUNK_HEADER_BYTES]> {
        let end = offset + CHUNK_HEADER_BYTES as u64;
        if offset < self.offset || end > self.offset + self.bytes.len() as u64 {
            self.fill(offset)?;
        }
        let at = (offset - self.offset) as usize;
        let mut header = [0; CHUNK_HEADER_BYTES];
        match self.bytes.get(at..at + CHUNK_HEADER_BYTES) {
            Some(bytes) => header.copy_from_slice(bytes),
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(header)
    }

    fn fill(&mut self, offset: u64) -> std::io::Result<()> {
        self.bytes.resize(WINDOW_BYTES, 0);
        let mut filled = 0;
        while filled < CHUNK_HEADER_BYTES {
            match self.file.read_at(&mut self.bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        self.bytes.truncate(filled);
        self.offset = offset;
        Ok(())
    }
}
