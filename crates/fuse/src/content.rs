//! Bytes of files: reads and writes go to the disk server at once, under a grant.

use crate::{
    caller::Caller,
    errno::Refusal,
    files::{FileState, OpenFile},
    mount::Mount,
};
use base::{ErrorKind, Failure, Result, Timestamp};
use share::Mode;
use std::time::SystemTime;

/// Longest file: offsets are signed in the protocol of the kernel.
const SIZE_MAX: u64 = i64::MAX as u64;

impl Mount {
    /// Reads; fewer bytes at the end of the file.
    pub(crate) fn read(
        &self,
        caller: &Caller,
        file: &OpenFile,
        (offset, length): (u64, u32),
    ) -> Result<Vec<u8>, Refusal> {
        self.with_grant(caller, file, Mode::Read, |state| {
            let length = state.size.saturating_sub(offset).min(u64::from(length)) as usize;
            let mut buffer = vec![0; length];
            let bytes = state.grant.as_ref().and_then(|grant| grant.bytes.as_ref());
            let count = match bytes {
                Some(bytes) if length > 0 => bytes.read_at(offset, &mut buffer)?,
                _ => 0,
            };
            buffer.truncate(count);
            Ok(buffer)
        })
    }

    /// Writes, at the end of the file if it was opened to append.
    pub(crate) fn write(
        &self,
        caller: &Caller,
        file: &OpenFile,
        (offset, is_append): (u64, bool),
        data: &[u8],
    ) -> Result<(), Refusal> {
        self.with_grant(caller, file, Mode::Write, |state| {
            let offset = state.target(offset, is_append);
            let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX);
            let end = end.ok_or_else(|| Failure::no_space("the file would be too long"))?;
            writable(state)?.write_at(offset, data)?;
            state.is_dirty = true;
            state.size = state.size.max(end);
            state.modified = Timestamp::from_system(SystemTime::now());
            Ok(())
        })
    }

    /// Sets the size, and commits that.
    pub(crate) fn truncate(&self, caller: &Caller, file: &OpenFile, size: u64) -> Result<(), Refusal> {
        if size > SIZE_MAX {
            return Err(rustix::io::Errno::FBIG.into());
        }
        self.with_grant(caller, file, Mode::Write, |state| {
            writable(state)?.truncate(size)?;
            state.is_dirty = true;
            state.size = size;
            state.modified = Timestamp::from_system(SystemTime::now());
            Ok(())
        })?;
        self.sync(caller, file)
    }

    /// Commits what was written. What was lost before is told now, once.
    pub(crate) fn sync(&self, caller: &Caller, file: &OpenFile) -> Result<(), Refusal> {
        let mut state = file.lock();
        self.commit(caller, file, &mut state)?;
        state.lost.take().map_or(Ok(()), |failure| Err(Refusal::of_bytes(failure)))
    }

    /// Commits what was written; that something was lost is told later, by fsync or close.
    pub(crate) fn sync_unless_lost(&self, caller: &Caller, file: &OpenFile) -> Result<(), Refusal> {
        self.commit(caller, file, &mut file.lock())
    }

    /// Does something under a grant; if that fails, once more under a new one: the old one may have been fenced.
    fn with_grant<T>(
        &self,
        caller: &Caller,
        file: &OpenFile,
        mode: Mode,
        mut work: impl FnMut(&mut FileState) -> Result<T>,
    ) -> Result<T, Refusal> {
        let failure = match self.acquire(caller, file, mode) {
            Ok(mut state) => match work(&mut state) {
                Ok(done) => return Ok(done),
                Err(failure) if is_final(&failure) => return Err(failure.into()),
                Err(failure) => {
                    self.abandon(file, &mut state, &failure);
                    failure
                }
            },
            Err(Refusal::Failure(failure)) if !is_final(&failure) => failure,
            Err(refusal) => return Err(refusal),
        };
        tracing::info!(file = %file.id, %failure, "trying once more under a new grant");
        let mut state = self.acquire(caller, file, mode)?;
        work(&mut state).map_err(|failure| {
            if !is_final(&failure) {
                self.abandon(file, &mut state, &failure);
            }
            Refusal::of_bytes(failure)
        })
    }
}

/// Whether a new grant would not help.
fn is_final(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NoSpace | ErrorKind::OverQuota | ErrorKind::Invalid)
}

fn writable(state: &FileState) -> Result<&client::LiveFile> {
    let bytes = state.grant.as_ref().and_then(|grant| grant.bytes.as_ref());
    bytes.ok_or_else(|| Failure::unavailable("the head has not said where the file is to be written"))
}
