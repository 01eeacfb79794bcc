//! Bytes of files, under grants: read from the disk server and from what is not sent yet, written to the buffer.

use crate::{
    cache::Asked,
    caller::Caller,
    errno::Refusal,
    files::{HeldGrant, OpenFile, Returning},
    grants::{Need, Turn},
    loss::Loss,
    mount::Mount,
    writeback::PIECE_BYTES,
};
use base::{ByteRange, ErrorKind, Failure, FileId, Result, Timestamp};
use share::{ClientId, Generation};
use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};
use wire::control::{CommitNode, Entry, MountedNode, Written};

/// Longest file: offsets are signed in the protocol of the kernel.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// How long programs wait for a disk server that has gone: longer than one takes to start again.
const AWAY_PATIENCE: Duration = Duration::from_secs(30);
/// Between looks at it: the first pause, and the longest.
const AWAY_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

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

/// A commit under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    client: ClientId,
    generation: Generation,
    /// Changes that are in it.
    changes: u64,
    /// What is stored; none: it is lost.
    pub(crate) written: Option<Written>,
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
        let Some(commit) = self.begin_commit(file, held) else { return Ok(()) };
        let Some(Written { size, modified }) = commit.written else {
            self.end_commit(file, &commit, None);
            return Ok(());
        };
        let (Commit { client, generation, .. }, asked) = (commit, self.asked());
        let call = |_| CommitNode { client, file: file.id, generation, size, modified };
        match self.head.call(caller, call) {
            Ok(node) => {
                self.end_commit(file, &commit, Some((asked, node)));
                Ok(())
            }
            Err(Refusal::Failure(failure)) => {
                self.fail_commit(file, &commit, failure);
                Ok(())
            }
            Err(refusal) => {
                file.change(|state| state.is_committing = false);
                Err(refusal)
            }
        }
    }

    /// Makes durable what was written under a grant, if there is something. Until the commit ends nobody else commits.
    pub(crate) fn begin_commit(&self, file: &OpenFile, held: &HeldGrant) -> Option<Commit> {
        let mut state = file.lock();
        while state.is_committing {
            state = file.wait(state);
        }
        if !state.is_dirty() || !state.is_under(held.generation) {
            return None;
        }
        state.is_committing = true;
        let (client, changes, size) = (state.session, state.changes, state.size);
        drop(state);
        let written = self.store(file, held, size);
        Some(Commit { client, generation: held.generation, changes, written })
    }

    /// Yields what is stored and synced; none: what was written is lost, which is told later.
    fn store(&self, file: &OpenFile, held: &HeldGrant, size: u64) -> Option<Written> {
        self.drain(file, held).ok()?;
        let (size, modified) = {
            let state = file.lock();
            // What was written since is not stored.
            (size.min(state.size), state.modified)
        };
        let sync = |bytes: &client::LiveFile| bytes.sync(size);
        let synced = held.bytes.as_ref().map(|_| self.on_copies(&Caller::nobody(), file.id, held, sync));
        if let Err(failure) = synced.unwrap_or(Ok(())) {
            file.change(|state| state.lose(failure));
            return None;
        }
        Some(Written { size, modified })
    }

    /// The head has committed what was written, and has said what the file is now; or it is lost.
    pub(crate) fn end_commit(&self, file: &OpenFile, commit: &Commit, told: Option<(Asked, MountedNode)>) {
        file.change(|state| {
            state.is_committing = false;
            let Some(written) = commit.written.filter(|_| state.is_under(commit.generation)) else { return };
            state.committed = commit.changes;
            // Before the lock is free: who waits for it asks again.
            match told {
                Some((asked, MountedNode { entry: Some(entry), lease, .. })) => {
                    self.cache.committed(asked, &entry, lease);
                }
                _ => self.cache.changed(file.id),
            }
            state.solid = state.solid.max(written.size);
            state.entry = None;
        });
        if commit.written.is_none() {
            // The kernel has seen what is lost.
            self.device.forget_attributes(self.node(file.id));
        }
    }

    /// The head has refused a commit: what was written is lost, which is told later.
    pub(crate) fn fail_commit(&self, file: &OpenFile, commit: &Commit, failure: Failure) {
        let mut state = file.lock();
        let _ = self.follow_session(file, &mut state);
        state.lose(failure);
        drop(state);
        self.end_commit(file, &Commit { written: None, ..*commit }, None);
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

    /// Does something under a grant. If that fails, once more under a new one, for the old one may have been fenced; and as long as a
    /// disk server is not there again that has just gone.
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
        let (begun, mut pause) = (Instant::now(), Duration::ZERO);
        loop {
            match attempt() {
                Err(Refusal::Failure(failure)) if !is_final(&failure) => {
                    let is_hopeless = !is_away(&failure) || begun.elapsed() > AWAY_PATIENCE;
                    if is_hopeless && !pause.is_zero() {
                        return Err(Refusal::of_bytes(failure));
                    }
                    tracing::info!(file = %file.id, %failure, "trying once more under a new grant");
                }
                outcome => return outcome,
            }
            caller.waiting(|| {
                thread::sleep(pause);
                Ok(())
            })?;
            pause = (pause * 2).clamp(AWAY_PAUSE.0, AWAY_PAUSE.1);
        }
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

/// Whether a disk server has gone that may come back.
fn is_away(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Whether a new grant would not help.
fn is_final(failure: &Failure) -> bool {
    is_no_space(failure) || matches!(failure.kind, ErrorKind::Invalid | ErrorKind::Unsupported)
}
