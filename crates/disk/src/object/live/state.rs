//! What may be done with a live object, and the room that it takes.

use super::{
    FENCED_BIT, LiveObject,
    fences::{self, LiveFences},
};
use crate::object::space::LOOK_EVERY_BYTES;
use base::{ByteRange, ErrorKind, Failure, Result};
use share::{Generation, Refusal};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::MetadataExt,
    sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard},
};

/// What may be done with a live object.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing was read of it yet.
    Unread,
    /// It may be written, but for what is fenced.
    Open(LiveFences),
    /// Its fences cannot be trusted: nobody may write.
    Damaged(Failure),
    /// It is being sealed, or was: nobody may write any more.
    Sealed,
    /// Nothing any more.
    Removed,
}

/// The room that a live object takes of its partition.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes of the share, if the partition has one: up to its end.
    pub(super) claimed: u64,
    /// Bytes written since somebody looked at the free space.
    unlooked: Option<u64>,
    /// What has its space, as far as is kept in mind.
    pub(super) promised: Option<ByteRange>,
}

impl Room {
    /// Keeps in mind that a range has its space: with the one before if they touch, else the longer one of both.
    pub(super) fn promise(&mut self, range: ByteRange) {
        self.promised = Some(match self.promised {
            Some(old) if old.offset <= range.end && range.offset <= old.end => {
                ByteRange { offset: old.offset.min(range.offset), end: old.end.max(range.end) }
            }
            Some(old) if old.length() > range.length() => old,
            _ => range,
        });
    }

    fn has_promised(&self, range: ByteRange) -> bool {
        self.promised.is_some_and(|old| old.offset <= range.offset && range.end <= old.end)
    }
}

impl LiveObject {
    /// Lets nobody else change what may be done.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be done with it; shared with others who read and write.
    pub(super) fn ready(&self) -> Result<RwLockReadGuard<'_, State>> {
        let shared = || self.state.read().unwrap_or_else(PoisonError::into_inner);
        let state = shared();
        if !matches!(*state, State::Unread) {
            return Ok(state);
        }
        drop(state);
        let mut state = self.alone();
        if matches!(*state, State::Unread) {
            *state = self.load()?;
        }
        drop(state);
        Ok(shared())
    }

    /// Finds out what lies on the medium.
    fn load(&self) -> Result<State> {
        let (shared, object) = (&self.shared, self.object);
        // Where a disk is not mounted, nothing was removed.
        shared.check_in_place()?;
        if let Some(file) = self.open(File::open(shared.data(object)))? {
            let _ = self.file.set(file);
            return Ok(State::Sealed);
        }
        let mut way = OpenOptions::new();
        let file = self.open(way.read(true).write(true).open(shared.live_data(object)))?;
        let mode = file.as_ref().map(File::metadata).transpose();
        let mode = mode.map_err(|cause| self.failed("stat", &cause))?.map_or(0, |metadata| metadata.mode());
        let fences = LiveFences::read(shared, object);
        if let Some(file) = file {
            self.room().claimed = self.size_of(&file)?;
            let _ = self.file.set(file);
        }
        match fences {
            Ok(None) if mode & FENCED_BIT != 0 => {
                Ok(State::Damaged(fences::damaged(shared, object, "they are missing")))
            }
            Ok(None) => Ok(State::Open(LiveFences::none(object))),
            Ok(Some(fences)) if fences.is_sealed => Ok(State::Sealed),
            Ok(Some(fences)) => Ok(State::Open(fences)),
            Err(failure) if failure.kind == ErrorKind::Corrupt => Ok(State::Damaged(failure)),
            Err(failure) => Err(failure),
        }
    }

    /// What was opened, if it is there.
    fn open(&self, opened: io::Result<File>) -> Result<Option<File>> {
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.failed("open", &cause)),
        }
    }

    /// Refuses a write that may not be carried out.
    pub(super) fn admit(&self, state: &State, generation: Generation, range: ByteRange) -> Result<()> {
        let Self { object, .. } = self;
        let fences = self.writable(state)?;
        self.memory.admit(generation).and_then(|()| fences.fences.admit(generation, range)).map_err(
            |refusal| {
                let from = match refusal {
                    Refusal::Fenced(floor) => format!(": only grants from {floor} on may write there"),
                    _ => String::new(),
                };
                Failure::locked(format!("grant {generation} of object {object} has ended{from}"))
                    .hint("open the file again; what was not synced is lost")
            },
        )
    }

    /// What is refused of an object that may be written at all.
    pub(super) fn writable<'a>(&self, state: &'a State) -> Result<&'a LiveFences> {
        match state {
            State::Open(fences) => Ok(fences),
            State::Damaged(failure) => Err(failure.clone()),
            State::Sealed => {
                Err(Failure::locked(format!("object {} is sealed: it can no longer be written", self.object))
                    .hint("open the file again"))
            }
            State::Removed => Err(self.gone()),
            State::Unread => Err(self.unread()),
        }
    }

    pub(super) fn begun(&self) -> Result<&File> {
        self.file.get().ok_or_else(|| Failure::invalid(format!("object {} was not begun", self.object)))
    }

    pub(super) fn gone(&self) -> Failure {
        Failure::not_found(format!("object {} was removed from {}", self.object, self.shared.name()))
    }

    pub(super) fn unread(&self) -> Failure {
        Failure::internal(format!("object {} was used before its fences were read", self.object))
    }

    pub(super) fn failed(&self, what: &str, cause: &io::Error) -> Failure {
        self.shared.failed(what, self.object, cause)
    }

    /// Takes room for a write of `length` bytes in `range`.
    pub(super) fn take_room(&self, file: &File, length: u64, range: ByteRange) -> Result<()> {
        let (mut room, end) = (self.room(), range.end);
        if room.has_promised(range) {
            return Ok(());
        }
        let unlooked = room.unlooked.map_or(LOOK_EVERY_BYTES, |bytes| bytes.saturating_add(length));
        if unlooked >= LOOK_EVERY_BYTES {
            match self.shared.account.check_free(length) {
                // What has its blocks already needs no more.
                Err(failure) if !Self::has_blocks(file, end) => return Err(failure),
                _ => room.unlooked = Some(0),
            }
        } else {
            room.unlooked = Some(unlooked);
        }
        self.shared.account.take_share(end.saturating_sub(room.claimed))?;
        room.claimed = room.claimed.max(end);
        Ok(())
    }

    /// Whether all bytes up to `end` have room on the medium already.
    fn has_blocks(file: &File, end: u64) -> bool {
        file.metadata().is_ok_and(|at| at.len() >= end && at.blocks().saturating_mul(512) >= at.len())
    }
}
