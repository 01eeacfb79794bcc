//! A file that is open for reading: its bytes are of an object of this host, or of pieces on others.

use crate::{
    ObjectReader,
    replicate::coded::CodedFile,
    serve::{traffic::Traffic, usage::Uses},
};
use base::{ByteRange, ErrorKind, Failure, ObjectId, Result};
use client::xrd::File;
use std::{
    io::IoSliceMut,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use wire::{auth::capability::WHOLE, control::ReadObject, xrd::RangeKind};

/// Counts what is read, and puts it on the owner's bill when the file is closed.
pub struct Meter {
    uses: Arc<Uses>,
    owner: String,
    object: ObjectId,
    door: Arc<Traffic>,
    out: AtomicU64,
}

impl Meter {
    /// Counts for `owner`; nobody pays if that is empty.
    pub(crate) fn new(uses: &Arc<Uses>, (owner, object): (&str, ObjectId), door: Arc<Traffic>) -> Self {
        uses.began();
        Self { uses: Arc::clone(uses), owner: owner.to_owned(), object, door, out: AtomicU64::new(0) }
    }

    pub(in crate::serve) fn add(&self, bytes: u64) {
        self.out.fetch_add(bytes, Ordering::Relaxed);
        self.door.add_out(bytes);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.uses.closed();
        if !self.owner.is_empty() {
            self.uses.read(&self.owner, self.object, *self.out.get_mut());
        }
    }
}

/// The source of a file's bytes.
pub enum Source {
    /// A partition of this host.
    Object(Arc<ObjectReader>),
    /// Another disk server.
    Remote(File),
    /// Pieces, here and on other disk servers.
    Coded(Box<CodedFile>),
}

/// A file open for reading.
pub struct ReadFile {
    source: Source,
    /// What the head said about it.
    pub grant: Arc<ReadObject>,
    /// Bytes that may be read.
    range: ByteRange,
    meter: Meter,
}

impl ReadFile {
    /// A file that is read from `source` by the right that `grant` gives.
    pub fn new(source: Source, grant: Arc<ReadObject>, meter: Meter) -> Self {
        Self { source, grant, range: WHOLE, meter }
    }

    /// Lets only these bytes be read.
    pub(crate) fn within(self, range: ByteRange) -> Self {
        Self { range, ..self }
    }

    pub(super) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.saturating_add(length as u64).min(self.grant.size);
        if self.range == WHOLE || (self.range.offset <= offset && end <= self.range.end) {
            return Ok(());
        }
        let ByteRange { offset: first, end: last } = self.range;
        Err(Failure::permission(format!(
            "the capability is for bytes {first} to {last}, not {offset} to {end}"
        )))
    }

    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file. Blocks.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.peek_at(offset, buffer)?;
        self.meter.add(count as u64);
        Ok(count)
    }

    /// The same, and it is nobody's traffic. Blocks.
    pub(crate) fn peek_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check(offset, buffer.len())?;
        match &self.source {
            Source::Object(reader) => {
                reader.read_at(buffer, offset).inspect_err(|failure| self.look(failure))
            }
            Source::Remote(file) => file.read_at(offset, buffer),
            Source::Coded(file) => file.read_at(offset, buffer),
        }
    }

    /// Fills all buffers; the end of the file before that is a failure. Blocks.
    pub fn read_many_at(&self, wanted: &mut [(u64, &mut [u8])]) -> Result<()> {
        let Source::Coded(file) = &self.source else {
            return wanted.iter_mut().try_for_each(|(offset, buffer)| {
                self.read_vectored_at(*offset, &mut [IoSliceMut::new(buffer)])
            });
        };
        wanted.iter().try_for_each(|(offset, buffer)| self.check(*offset, buffer.len()))?;
        file.read_many(wanted)?;
        self.meter.add(wanted.iter().map(|(_, buffer)| buffer.len() as u64).sum());
        Ok(())
    }

    /// Fills all of `buffers` from `offset`. Blocks.
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.check(offset, bytes)?;
        match &self.source {
            Source::Object(reader) => {
                reader.read_vectored_at(buffers, offset).inspect_err(|failure| self.look(failure))?;
            }
            Source::Remote(file) => fill(buffers, offset, |at, buffer| file.read_at(at, buffer))?,
            Source::Coded(file) => fill(buffers, offset, |at, buffer| file.read_at(at, buffer))?,
        }
        self.meter.add(bytes as u64);
        Ok(())
    }

    /// Finds the next data or hole from `offset` on. What lies elsewhere is taken for data. Blocks.
    pub fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        if let Some(reader) = self.reader() {
            return crate::object::live::find(reader, kind, offset).map_err(|cause| {
                Failure::io(format!("look for a hole in object {}", reader.info().object), &cause)
            });
        }
        let at = if kind == RangeKind::Data { offset } else { self.grant.size };
        Ok((offset < self.grant.size).then_some(at))
    }

    /// Whether reading waits for other servers.
    pub fn waits_for_peers(&self) -> bool {
        !matches!(self.source, Source::Object(_))
    }

    /// The object, if it is on this host and all of it may be read.
    pub fn reader(&self) -> Option<&ObjectReader> {
        match &self.source {
            Source::Object(reader) if self.range == WHOLE => Some(reader),
            _ => None,
        }
    }

    /// The head is to send readers elsewhere if the disk is why a read failed.
    fn look(&self, failure: &Failure) {
        if matches!(failure.kind, ErrorKind::Io | ErrorKind::Corrupt) {
            self.found_unreadable();
        }
    }

    /// The disk does not give bytes of the object.
    pub fn found_unreadable(&self) {
        self.meter.uses.unreadable(self.grant.file, self.grant.object);
    }

    /// Counts bytes that left without being read.
    pub fn count_sent(&self, bytes: u64) {
        self.meter.add(bytes);
    }
}

/// Fills all of `buffers`, one after the other.
pub(super) fn fill(
    buffers: &mut [IoSliceMut<'_>],
    offset: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<usize>,
) -> Result<()> {
    let mut at = offset;
    for buffer in buffers {
        let taken = read(at, buffer)?;
        if taken < buffer.len() {
            return Err(Failure::corrupt(format!("the file ended at {}", at + taken as u64)));
        }
        at += taken as u64;
    }
    Ok(())
}
