//! Files of the facility that are changed in place, with a position.

use crate::{
    attributes::Attributes,
    descriptor::Channel,
    fault::{Fault, Result},
    flags::{Access, OpenMode, understand},
    local::past_the_end,
    place::{self, masked, options},
};
use base::{ByteRange, FilePath};
use client::{Facility, xrd::ReadMode};
use fuse::shared::{How, Make, SharedFile, SharedSession};
use libc::{c_int, mode_t};
use share::LockMode;
use std::{
    io::SeekFrom,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// The session of this process, as long as it has files open like this.
static SESSION: Mutex<Option<(String, Weak<SharedSession>)>> = Mutex::new(None);

/// An open file.
#[derive(Debug)]
pub(crate) struct SharedChannel {
    file: SharedFile,
    path: FilePath,
    access: Access,
    /// Where the next read or write at the position goes.
    position: Mutex<u64>,
}

/// The session with the facility that `BP_FACILITY` names, begun if there is none.
fn session(path: &FilePath) -> Result<Arc<SharedSession>> {
    let facility = place::facility(path)?;
    let address = facility.control.address();
    // Not waited for: in a fork it may be held by a thread that is not there. Who does not get it has a session of its own.
    let held = SESSION.try_lock().ok();
    let known = held.as_ref().and_then(|held| held.as_ref()).filter(|(known, _)| *known == address);
    let known = known.and_then(|(_, session)| session.upgrade());
    drop(held);
    // A fork has the memory of its parent's session, and nothing else of it.
    if let Some(session) = known.filter(|session| session.is_own()) {
        return Ok(session);
    }
    let Facility { control, user, .. } = facility;
    let session = Arc::new(SharedSession::begin(control, user, options(), "rfio")?);
    if let Ok(mut held) = SESSION.try_lock() {
        *held = Some((address, Arc::downgrade(&session)));
    }
    Ok(session)
}

fn how(access: Access, open_mode: OpenMode, mode: mode_t) -> How {
    let (make, is_emptied) = match open_mode {
        OpenMode::Read | OpenMode::Update => (Make::Never, false),
        OpenMode::UpdateOrCreate => (Make::Missing, false),
        OpenMode::Create => (Make::New, false),
        OpenMode::Replace => (Make::Missing, true),
        OpenMode::ReplaceExisting => (Make::Never, true),
    };
    let Access { can_read: is_read, can_write: is_write, is_append } = access;
    How { is_read, is_write, is_append, is_emptied, make, mode: masked(mode).into() }
}

impl SharedChannel {
    /// Opens or makes it as the flags of `open` say.
    pub(crate) fn open(path: &FilePath, flags: c_int, mode: mode_t) -> Result<Self> {
        let (access, open_mode) = understand(flags)?;
        let file = session(path)?.open(path, how(access, open_mode, mode))?;
        Ok(Self { file, path: path.clone(), access, position: Mutex::new(0) })
    }

    /// Closes: what was written is durable then.
    pub(crate) fn close(&self) -> Result<()> {
        Ok(self.file.close()?)
    }

    fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, is_allowed: bool) -> Result<()> {
        let refused = || Fault::new(libc::EBADF, format!("{} was not opened for that", self.path));
        is_allowed.then_some(()).ok_or_else(refused)
    }
}

impl Channel for SharedChannel {
    fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut position = self.position();
        let count = self.read_at(*position, buffer)?;
        *position += count as u64;
        Ok(count)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.require(self.access.can_read)?;
        Ok(self.file.read_at(offset, buffer)?)
    }

    fn read_ranges(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()> {
        for (range, buffer) in ranges.iter().zip(buffers) {
            if self.read_at(range.offset, buffer)? < buffer.len() {
                return Err(past_the_end(*range, &self.path.to_string()));
            }
        }
        Ok(())
    }

    fn write(&self, data: &[u8]) -> Result<usize> {
        let mut position = self.position();
        self.write_at(*position, data)?;
        *position = if self.access.is_append { self.file.size()? } else { *position + data.len() as u64 };
        Ok(data.len())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.require(self.access.can_write)?;
        self.file.write_at(offset, data)?;
        Ok(data.len())
    }

    fn seek(&self, to: SeekFrom) -> Result<u64> {
        let mut position = self.position();
        let place = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(offset) => position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.file.size()?.checked_add_signed(offset),
        };
        let outside = || Fault::invalid(format!("seek in {}: the position would be negative", self.path));
        let place = place.ok_or_else(outside)?;
        if i64::try_from(place).is_err() {
            let text = format!("seek in {}: the position would be too large", self.path);
            return Err(Fault::new(libc::EOVERFLOW, text));
        }
        *position = place;
        Ok(place)
    }

    fn preseek(&self, _: &[ByteRange]) -> Result<()> {
        // What others may change meanwhile is not asked for ahead.
        self.require(self.access.can_read)
    }

    fn advise(&self, _: ReadMode) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, size: u64) -> Result<()> {
        if !self.access.can_write {
            return Err(Fault::invalid(format!("truncate {}: it was not opened for writing", self.path)));
        }
        Ok(self.file.truncate(size)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }

    fn attributes(&self) -> Result<Attributes> {
        Ok(Attributes::shared(&self.file.entry()?))
    }

    fn lock(&self, range: ByteRange, mode: Option<LockMode>, is_patient: bool) -> Result<bool> {
        let wait = if is_patient && mode.is_some() { Some(self.file.lock_wait()?) } else { None };
        Ok(self.file.lock(range, mode, wait.as_ref())?)
    }
}
