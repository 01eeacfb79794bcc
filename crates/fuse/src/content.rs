//! Bytes of files, under grants: read from the disk server and from what is not sent yet, written to the buffer.

use crate::{
    caller::Caller,
    errno::Refusal,
    files::{HeldGrant, OpenFile, Returning},
    grants::{Need, Turn},
    loss::Loss,
    mount::Mount,
    writeback::PIECE_BYTES,
};
use base::{ByteRange, ErrorKind, Failure, FileId, Result, Timestamp};
use std::time::SystemTime;
use wire::control::{CommitNode, Entry};

/// Longest file: offsets are signed in the protocol of the kernel.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// How a program writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Where, as the kernel knows it.
    pub(crate) offset: u64,
    /// At the end instead, wherever that is.
    pub(crate) is_append: bool,
    /// Past all caches.
    pub(crate) is_direct: bool,
}

/// The time that a change gets.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

impl Mount {
    /// Reads; fewer bytes at the end of the file.
    pub(crate) fn read(
        &self,
        caller: &Caller,
        file: &OpenFile,
        (offset, length): (u64, u32),
    ) -> Result<Vec<u8>, Refusal> {
        self.with_turn(caller, file, Need::Read, |turn| Ok(read(turn, offset, u64::from(length))?))
    }

    /// Writes.
    pub(crate) fn write(
        &self,
        caller: &Caller,
        file: &OpenFile,
        target: Target,
        data: &[u8],
    ) -> Result<(), Refusal> {
        self.with_turn(caller, file, Need::Write, |turn| {
            if target.is_direct {
                return Ok(self.write_through(caller, turn, target, data)?);
            }
            let length = data.len() as u64;
            let mut state = self.wait_for_room(caller, file, file.lock(), (length, turn.grant()?))?;
            let offset = state.target(target.offset, target.is_append);
            let end = end_of(offset, length)?;
            state.buffer.write(offset, data);
            state.size = state.size.max(end);
            state.note_change(now());
            if offset / PIECE_BYTES != end / PIECE_BYTES {
                self.start_sending(file, &mut state, false);
            }
            Ok(())
        })
    }

    /// Writes past the buffer, after what is in it.
    fn write_through(&self, caller: &Caller, turn: &Turn<'_>, target: Target, data: &[u8]) -> Result<()> {
        let (file, held) = (turn.file, turn.grant()?);
        self.drain(file, held)?;
        let offset = file.lock().target(target.offset, target.is_append);
        let end = end_of(offset, data.len() as u64)?;
        self.on_copies(caller, file.id, held, |bytes| bytes.write_at(offset, data))?;
        let mut state = file.lock();
        turn.require(&state)?;
        (state.size, state.solid) = (state.size.max(end), state.solid.max(end));
        state.note_change(now());
        Ok(())
    }

    /// Sets the size.
    pub(crate) fn truncate(&self, caller: &Caller, file: &OpenFile, size: u64) -> Result<(), Refusal> {
        if size > SIZE_MAX {
            return Err(rustix::io::Errno::FBIG.into());
        }
        self.with_turn(caller, file, Need::WriteAlone, |turn| {
            let mut state = file.lock();
            state.buffer.cut(size);
            while state.buffer.is_sending() {
                state = file.wait(state);
            }
            turn.require(&state)?;
            let is_other = state.size != size;
            drop(state);
            if is_other {
                self.on_copies(caller, file.id, turn.grant()?, |bytes| bytes.truncate(size))?;
            }
            let mut state = file.lock();
            turn.require(&state)?;
            if is_other {
                (state.size, state.solid) = (size, size);
            }
            state.note_change(now());
            Ok(())
        })
    }

    /// Commits what was written. What is lost is told now, if `told` says so.
    pub(crate) fn sync(
        &self,
        caller: &Caller,
        file: &OpenFile,
        told: impl FnOnce(&mut Loss) -> Option<Failure>,
    ) -> Result<(), Refusal> {
        self.sync_unless_lost(caller, file)?;
        let lost = told(&mut file.lock().lost);
        lost.map_or(Ok(()), |failure| Err(Refusal::of_bytes(failure)))
    }

    /// Commits what was written; that something was lost is told later, by fsync or close.
    pub(crate) fn sync_unless_lost(&self, caller: &Caller, file: &OpenFile) -> Result<(), Refusal> {
        let mut state = file.lock();
        loop {
            self.follow_session(file, &mut state)?;
            if !state.is_dirty() {
                return Ok(());
            }
            if state.returning == Returning::Not {
                break;
            }
            // Whoever returns the grant commits.
            state = caller.waiting(|| Ok(file.wait(state)))?;
        }
        drop(state);
        let turn = self.acquire(caller, file, Need::Write)?;
        self.commit_under(caller, file, turn.grant()?)
    }

    /// Makes durable what was written under a grant, and tells the head.
    pub(crate) fn commit_under(
        &self,
        caller: &Caller,
        file: &OpenFile,
        held: &HeldGrant,
    ) -> Result<(), Refusal> {
        let mut state = file.lock();
        while state.is_committing {
            state = file.wait(state);
        }
        if !state.is_dirty() || !state.is_under(held.generation) {
            return Ok(());
        }
        state.is_committing = true;
        let (client, changes, size) = (state.session, state.changes, state.size);
        drop(state);
        let outcome = self.commit_changes(caller, file, held, (client, size));
        file.change(|state| {
            state.is_committing = false;
            if let Ok(Some(size)) = outcome
                && state.is_under(held.generation)
            {
                state.committed = changes;
                // Before the lock is free: who waits for it asks again.
                self.cache.changed(file.id);
                state.solid = state.solid.max(size);
                state.entry = None;
            }
        });
        if matches!(outcome, Ok(None)) {
            // The kernel has seen what is lost.
            self.device.forget_attributes(self.node(file.id));
        }
        outcome.map(|_| ())
    }

    /// Yields the size that was committed; none: what was written is lost, which is told later.
    fn commit_changes(
        &self,
        caller: &Caller,
        file: &OpenFile,
        held: &HeldGrant,
        (client, size): (share::ClientId, u64),
    ) -> Result<Option<u64>, Refusal> {
        if self.drain(file, held).is_err() {
            return Ok(None);
        }
        let (size, modified) = {
            let state = file.lock();
            // What was written since is not stored.
            (size.min(state.size), state.modified)
        };
        let sync = |bytes: &client::LiveFile| bytes.sync(size);
        let synced = held.bytes.as_ref().map(|_| self.on_copies(caller, file.id, held, sync));
        if let Err(failure) = synced.unwrap_or(Ok(())) {
            file.change(|state| state.lose(failure));
            return Ok(None);
        }
        let commit = |_| CommitNode { client, file: file.id, generation: held.generation, size, modified };
        match self.head.call(caller, commit) {
            Ok(_) => Ok(Some(size)),
            Err(Refusal::Failure(failure)) => {
                let mut state = file.lock();
                let _ = self.follow_session(file, &mut state);
                state.lose(failure);
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// What is known of a file whose pages the kernel has, if they are those of the file; once they are dropped that are not.
    pub(crate) fn known(&self, caller: &Caller, file: FileId) -> Result<Option<Entry>, Refusal> {
        let Some(open) = self.files.get(file) else { return Ok(None) };
        let mut state = open.lock();
        while state.returning != Returning::Not || state.dropping > 0 {
            state = caller.waiting(|| Ok(open.wait(state)))?;
        }
        let is_valid = state.has_pages() && state.session == self.head.client() && self.head.is_lease_valid();
        Ok(state.entry.clone().filter(|_| is_valid))
    }

    /// Remembers what the head said of a file. It holds as long as the grant does, but for what is not of the content.
    pub(crate) fn note_known(&self, entry: &Entry) {
        if let Some(open) = self.files.get(entry.id) {
            let mut state = open.lock();
            let is_current = state.has_pages() && entry.size == state.size;
            state.entry = is_current.then(|| entry.clone());
        }
    }

    /// Does something under a grant; if that fails, once more under a new one: the old one may have been fenced.
    pub(crate) fn with_turn<T>(
        &self,
        caller: &Caller,
        file: &OpenFile,
        need: Need,
        work: impl Fn(&Turn<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let attempt = || {
            let turn = self.acquire(caller, file, need)?;
            let outcome = work(&turn);
            if let Err(Refusal::Failure(failure)) = &outcome
                && !is_final(failure)
            {
                self.abandon(file, turn.grant()?.generation, failure);
            }
            outcome
        };
        match attempt() {
            Err(Refusal::Failure(failure)) if !is_final(&failure) => {
                tracing::info!(file = %file.id, %failure, "trying once more under a new grant");
            }
            outcome => return outcome,
        }
        attempt().map_err(|refusal| match refusal {
            Refusal::Failure(failure) => Refusal::of_bytes(failure),
            Refusal::Errno(_) => refusal,
        })
    }
}

/// Reads from the disk server, and puts over it what it does not have yet.
fn read(turn: &Turn<'_>, offset: u64, length: u64) -> Result<Vec<u8>> {
    let (range, solid, overlay) = {
        let state = turn.file.lock();
        turn.require(&state)?;
        let range = ByteRange { offset, end: state.size.min(offset.saturating_add(length)).max(offset) };
        // Before the disk server is asked: what is stored meanwhile is there.
        (range, state.solid, state.buffer.overlay(range))
    };
    let mut buffer = vec![0; range.length() as usize];
    if let Some(bytes) = turn.grant()?.bytes.as_deref()
        && !overlay.covers(range)
    {
        let end = offset + bytes.read_at(offset, &mut buffer)? as u64;
        let missing = ByteRange { offset: end, end: range.end.min(solid).max(end) };
        if !overlay.covers(missing) {
            return Err(Failure::corrupt(format!(
                "file {} ends at {end} on its disk server, which should have {solid} bytes",
                turn.file.id
            )));
        }
    }
    overlay.apply(offset, &mut buffer);
    Ok(buffer)
}

fn end_of(offset: u64, length: u64) -> Result<u64> {
    let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
    end.ok_or_else(|| Failure::no_space("the file would be too long"))
}

/// Whether there is no space for more bytes.
pub(crate) fn is_no_space(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NoSpace | ErrorKind::OverQuota)
}

/// Whether a new grant would not help.
fn is_final(failure: &Failure) -> bool {
    is_no_space(failure) || matches!(failure.kind, ErrorKind::Invalid | ErrorKind::Unsupported)
}
