//! Files that change in place, opened by capability.

use crate::{
    LiveObject,
    serve::{
        open_file::{Meter, ReadFile},
        traffic::Traffic,
    },
};
use base::{ByteRange, Failure, FileId, Result, Timestamp};
use share::Generation;
use std::{fs::File, io::IoSliceMut, sync::Arc, time::UNIX_EPOCH};
use wire::{
    auth::capability::{Cap, WHOLE},
    xrd::{RangeChange, RangeKind},
};

/// A file that changes in place. Its size is that of this moment, and it has no sums. To close it does nothing: what was not synced
/// may be lost.
pub struct LiveFile {
    object: Arc<LiveObject>,
    file: FileId,
    /// The grant under which it is written; `None`: it is only read.
    grant: Option<Generation>,
    /// Bytes that may be touched.
    range: ByteRange,
    meter: Meter,
    door: Arc<Traffic>,
}

impl LiveFile {
    /// A file that is read, and written under `grant` if there is one, in the `range` of `cap`.
    pub(super) fn new(
        object: Arc<LiveObject>,
        cap: &Cap,
        grant: Option<Generation>,
        meter: Meter,
        door: Arc<Traffic>,
    ) -> Self {
        Self { object, file: cap.file, grant, range: cap.range, meter, door }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Whether it may be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.grant.is_some()
    }

    /// Its bytes now.
    pub fn size(&self) -> Result<u64> {
        self.object.size()
    }

    /// When its bytes changed last, by the clock of this host; 0 if nobody has begun it.
    #[must_use]
    pub fn modified(&self) -> Timestamp {
        let since = self.object.modified().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Timestamp(since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0))
    }

    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file. Blocks.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check(ByteRange { offset, end: offset.saturating_add(buffer.len() as u64) })?;
        let count = self.object.read_at(buffer, offset)?;
        self.meter.add(count as u64);
        Ok(count)
    }

    /// Fills all of `buffers` from `offset`. Blocks.
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buffer in buffers {
            if self.read_at(at, buffer)? < buffer.len() {
                let object = self.object.object();
                return Err(Failure::invalid(format!("object {object} was cut while it was read")));
            }
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Writes all of `data` at `offset`. Blocks.
    ///
    /// # Errors
    /// [`base::ErrorKind::Locked`] if its grant has ended, or the object is sealed.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let grant = self.writable()?;
        self.check(ByteRange { offset, end: offset.saturating_add(data.len() as u64) })?;
        self.object.write_at(grant, offset, data)?;
        self.door.add_in(data.len() as u64);
        Ok(())
    }

    /// Sets the size. Blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&self, size: u64) -> Result<()> {
        let grant = self.writable()?;
        self.check(ByteRange { offset: size, end: u64::MAX })?;
        self.object.truncate(grant, size)
    }

    /// Returns when everything that was written so far is on stable storage. Blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn sync(&self) -> Result<()> {
        self.grant.map_or(Ok(()), |grant| self.object.sync(grant, self.range))
    }

    /// Takes space for a range, or makes zeros of it. Blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn change_range(&self, range: ByteRange, change: RangeChange) -> Result<()> {
        let grant = self.writable()?;
        self.check(range)?;
        self.object.change_range(grant, range, change)
    }

    /// Refuses the grant of this file from now on. Yields the start of the object that does: one that starts anew has forgotten it.
    ///
    /// # Errors
    /// [`base::ErrorKind::Locked`] if the object is sealed.
    pub fn fence(&self) -> Result<u64> {
        let grant = self.writable()?;
        if self.range != WHOLE {
            return Err(Failure::unsupported("a grant of a range is fenced by the head"));
        }
        self.object.end_grant(grant).map(|start| start.0)
    }

    /// Finds the next data or hole from `offset` on. Blocks.
    pub fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        self.check(ByteRange { offset, end: u64::MAX })?;
        self.object.find(kind, offset)
    }

    /// Copies a range of another file, or of this one. Blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn copy_from(&self, source: &Self, from: ByteRange, to: u64) -> Result<()> {
        source.check(from)?;
        let empty = || Failure::invalid("what is to be copied was never written");
        self.copy(source.object.to_read()?.ok_or_else(empty)?, from, to)
    }

    /// Copies a range of a file that never changes. Blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn copy_from_sealed(&self, source: &ReadFile, from: ByteRange, to: u64) -> Result<()> {
        let elsewhere = || Failure::unsupported("what is to be copied is not on this disk server");
        self.copy(source.reader().ok_or_else(elsewhere)?.file(), from, to)
    }

    fn copy(&self, source: &File, from: ByteRange, to: u64) -> Result<()> {
        let grant = self.writable()?;
        self.check(ByteRange { offset: to, end: to.saturating_add(from.length()) })?;
        self.object.copy_in(grant, source, from, to)
    }

    fn writable(&self) -> Result<Generation> {
        self.grant.ok_or_else(|| Failure::invalid("the file is open for reading only"))
    }

    fn check(&self, touched: ByteRange) -> Result<()> {
        let ByteRange { offset: first, end: last } = self.range;
        if self.range == WHOLE || (first <= touched.offset && touched.end <= last) {
            return Ok(());
        }
        let ByteRange { offset, end } = touched;
        Err(Failure::permission(format!(
            "the capability is for bytes {first} to {last}, not {offset} to {end}"
        )))
    }
}
