//! Files that programs of this host have open.

use crate::{loss::Loss, writeback::Buffer};
use base::{Failure, FileId, Result, Timestamp};
use client::LiveFile as Bytes;
use share::{ClientId, Generation, LockOwner, Mode};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};
use wire::control::{Entry, LockKind, ShareGrant};

/// How long a thread sleeps that waits for another one of this mount; then it looks whether its caller is still there.
const LOOK: Duration = Duration::from_secs(1);

/// A file that is open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Which.
    pub(crate) id: FileId,
    state: Mutex<FileState>,
    /// Notified when something has changed that somebody may wait for.
    pub(crate) changed: Condvar,
}

/// What is known of it. A short lock: nobody holds it while bytes are on their way or the head is asked.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    /// The session that grant, opens and locks belong to.
    pub(crate) session: ClientId,
    /// What may be done with it now.
    pub(crate) grant: Option<HeldGrant>,
    /// A grant that came with an open and was not used yet: nothing was opened at a disk server.
    pub(crate) offered: Option<(Mode, ShareGrant)>,
    /// A thread asks for a grant.
    pub(crate) is_asking: bool,
    /// The set-id bits are gone: whoever writes need not take them away.
    pub(crate) is_set_id_gone: bool,
    /// Grants up to this one are not taken any more: they were returned unseen.
    pub(crate) disowned: Generation,
    /// The head asks for this grant, which is not known here, since then.
    pub(crate) unknown: Option<(Generation, Instant)>,
    /// Requests under way under the grant, which is returned when they have ended.
    pub(crate) users: u32,
    /// One of them is alone: the others wait.
    pub(crate) is_alone: bool,
    /// How far the return of the grant is.
    pub(crate) returning: Returning,
    /// Reads so far that were answered while the kernel dropped its pages.
    pub(crate) late_reads: u64,
    /// Threads that have the kernel drop its pages because the grant was lost.
    pub(crate) dropping: u32,
    /// Bytes, as of the grant and what was written since.
    pub(crate) size: u64,
    /// Bytes of which the disk server must have all.
    pub(crate) solid: u64,
    /// Time of its content, likewise.
    pub(crate) modified: Timestamp,
    /// Changes so far, and how many of them are committed.
    pub(crate) changes: u64,
    pub(crate) committed: u64,
    /// A thread commits.
    pub(crate) is_committing: bool,
    /// What programs have written and the disk server does not have.
    pub(crate) buffer: Buffer,
    /// Threads that send what is in the buffer.
    pub(crate) senders: u32,
    /// Where the disk was full.
    pub(crate) full_from: Option<u64>,
    /// What was written is lost: told by fsync and close.
    pub(crate) lost: Loss,
    /// A lock was lost: nothing is done with the file until all have closed it.
    pub(crate) is_lock_lost: bool,
    /// Opens, by what for: to read, to write.
    pub(crate) opens: BTreeMap<(bool, bool), u32>,
    /// Who may have locks.
    pub(crate) lockers: HashSet<(LockKind, LockOwner)>,
    /// What the head said of it last: attributes that are not its size and time.
    pub(crate) entry: Option<Entry>,
}

/// How far the return of a grant is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Returning {
    /// It is not returned.
    #[default]
    Not,
    /// The kernel drops its pages. Who wants to use the grant waits; but the kernel waits for pages that it reads, so that reads are
    /// answered after a while.
    Pages,
    /// Nothing more is done under it, but to commit.
    Ending,
    /// The head is told: nothing more is sent under it.
    Told,
}

/// How long an answer may take that was sent before its grant was asked back. After that the grant is none that is waited for: its
/// answer, or its return, was lost.
const ANSWER: Duration = Duration::from_secs(1);

/// A grant with its open connection.
#[derive(Debug, Clone)]
pub(crate) struct HeldGrant {
    /// What for.
    pub(crate) mode: Mode,
    /// Its number.
    pub(crate) generation: Generation,
    /// The bytes; `None`: the file has none yet.
    pub(crate) bytes: Option<Arc<Bytes>>,
}

impl HeldGrant {
    /// The bytes, to be written.
    pub(crate) fn writable(&self) -> Result<&Bytes> {
        let missing = || Failure::unavailable("the head has not said where the file is to be written");
        self.bytes.as_deref().ok_or_else(missing)
    }
}

impl FileState {
    /// Whether `mode` may be done under the grant.
    pub(crate) fn allows(&self, mode: Mode) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.mode >= mode)
    }

    /// The head asks for a grant that is not here. Yields whether it is returned unseen; else its answer may be on its way.
    pub(crate) fn disowns(&mut self, generation: Generation, now: Instant) -> bool {
        let begun = self.unknown.filter(|(unknown, _)| *unknown == generation);
        let since = begun.map_or(now, |(_, since)| since);
        let is_lost = !self.is_asking || now - since > ANSWER;
        self.unknown = (!is_lost).then_some((generation, since));
        if is_lost {
            self.disowned = self.disowned.max(generation);
        }
        is_lost
    }

    /// The grant that came with an open, if it is there still.
    pub(crate) fn take_offered(&mut self) -> Option<(Mode, ShareGrant)> {
        self.offered.take().filter(|(_, grant)| grant.generation > self.disowned)
    }

    /// Whether bytes may be sent under the grant.
    pub(crate) fn may_send(&self) -> bool {
        self.allows(Mode::Write) && self.returning != Returning::Told
    }

    /// Whether this grant is the one that counts.
    pub(crate) fn is_under(&self, generation: Generation) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.generation == generation)
    }

    /// Whether pages that the kernel has are those of the file.
    pub(crate) fn has_pages(&self) -> bool {
        self.grant.is_some() && self.returning == Returning::Not && self.dropping == 0
    }

    /// Something was written that is not committed.
    pub(crate) fn is_dirty(&self) -> bool {
        self.changes != self.committed
    }

    /// Whether size and time are more recent than what the head knows.
    pub(crate) fn is_ahead(&self, client: ClientId) -> bool {
        self.session == client && self.is_dirty() && self.allows(Mode::Write)
    }

    /// The content has changed. Its time is never the one before: the kernel compares it to know whether its pages are old.
    pub(crate) fn note_change(&mut self, now: Timestamp) {
        self.changes += 1;
        self.modified = if now == self.modified { Timestamp(now.0 + 1) } else { now };
    }

    /// What was written since the last commit is lost.
    pub(crate) fn lose(&mut self, failure: Failure) {
        self.buffer.clear();
        if self.is_dirty() {
            tracing::error!(%failure, "what was written to a file is lost");
            self.lost.note(failure);
        }
        self.committed = self.changes;
    }

    /// All that belongs to the old session is gone. Yields the opens that the new one is to be told of.
    pub(crate) fn change_session(&mut self, client: ClientId) -> Vec<(bool, bool)> {
        self.session = client;
        self.grant = None;
        self.offered = None;
        self.disowned = Generation(0);
        self.lose(Failure::unavailable("the head has ended the session of this mount"));
        self.is_lock_lost |= !self.lockers.is_empty();
        self.lockers.clear();
        let opens = self.opens.iter();
        opens.flat_map(|(what, count)| std::iter::repeat_n(*what, *count as usize)).collect()
    }

    /// Where bytes go that are to be written at `offset`: a file that is opened to append is written at its end, wherever that was
    /// when the kernel looked last.
    pub(crate) fn target(&self, offset: u64, is_append: bool) -> u64 {
        if is_append { self.size } else { offset }
    }
}

impl OpenFile {
    pub(crate) fn lock(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and wakes who waits for that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut FileState) -> T) -> T {
        let outcome = change(&mut self.lock());
        self.changed.notify_all();
        outcome
    }

    /// Sleeps until something has changed, at most a second: then the caller looks whether it is still wanted.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, FileState>) -> MutexGuard<'a, FileState> {
        self.wait_for(state, LOOK)
    }

    /// The same with another bound.
    pub(crate) fn wait_for<'a>(
        &self,
        state: MutexGuard<'a, FileState>,
        most: Duration,
    ) -> MutexGuard<'a, FileState> {
        self.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// All files that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<FileId, (u32, Arc<OpenFile>)>>,
    /// Bytes in all buffers.
    pub(crate) buffered: Arc<AtomicU64>,
}

impl OpenFiles {
    /// A file that is open.
    pub(crate) fn get(&self, id: FileId) -> Option<Arc<OpenFile>> {
        self.table().get(&id).map(|(_, file)| Arc::clone(file))
    }

    /// Keeps a file until [`Self::close`].
    pub(crate) fn open(&self, id: FileId, client: ClientId) -> Arc<OpenFile> {
        let mut table = self.table();
        let (count, file) = table.entry(id).or_insert_with(|| {
            let buffer = Buffer::new(Arc::clone(&self.buffered));
            let state = Mutex::new(FileState { session: client, buffer, ..FileState::default() });
            (0, Arc::new(OpenFile { id, state, changed: Condvar::new() }))
        });
        *count += 1;
        Arc::clone(file)
    }

    /// Ends one [`Self::open`].
    pub(crate) fn close(&self, id: FileId) {
        let mut table = self.table();
        if let Some((count, _)) = table.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                table.remove(&id);
            }
        }
    }

    /// Whether somebody else has it open, too.
    pub(crate) fn is_last(&self, id: FileId) -> bool {
        self.table().get(&id).is_none_or(|(count, _)| *count <= 1)
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        self.table().values().map(|(_, file)| Arc::clone(file)).collect()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<FileId, (u32, Arc<OpenFile>)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(mode: Mode) -> HeldGrant {
        HeldGrant { mode, generation: Generation(1), bytes: None }
    }

    #[test]
    fn who_may_write_may_read() {
        let mut state = FileState::default();
        assert!(!state.allows(Mode::Read));
        state.grant = Some(grant(Mode::Read));
        assert!(state.allows(Mode::Read) && !state.allows(Mode::Write));
        state.grant = Some(grant(Mode::Write));
        assert!(state.allows(Mode::Read) && state.allows(Mode::Write));
    }

    #[test]
    fn a_grant_that_does_not_come_is_returned_unseen_after_a_while() {
        let mut state = FileState { is_asking: true, ..FileState::default() };
        let begin = Instant::now();
        assert!(!state.disowns(Generation(3), begin) && !state.disowns(Generation(3), begin + ANSWER));
        assert!(!state.disowns(Generation(4), begin + ANSWER * 2), "another one");
        assert!(state.disowns(Generation(4), begin + ANSWER * 4));
        assert_eq!(state.disowned, Generation(4));
        state.is_asking = false;
        assert!(state.disowns(Generation(5), begin), "nobody waits for it");
    }

    #[test]
    fn a_grant_that_came_with_an_open_is_used_once_unless_it_was_asked_back() {
        let grant = |number| ShareGrant {
            generation: Generation(number),
            layout: wire::control::Layout::default(),
            size: 0,
            modified: Timestamp(0),
        };
        let mut state = FileState { offered: Some((Mode::Write, grant(4))), ..FileState::default() };
        assert!(state.disowns(Generation(4), Instant::now()), "it was not used");
        assert!(state.take_offered().is_none());
        state.offered = Some((Mode::Read, grant(5)));
        assert!(state.take_offered().is_some() && state.take_offered().is_none());
    }

    #[test]
    fn appends_go_to_the_end_as_of_the_grant() {
        let state = FileState { size: 100, ..FileState::default() };
        assert_eq!((state.target(7, true), state.target(7, false)), (100, 7));
    }

    #[test]
    fn an_evicted_mount_loses_what_it_had_not_committed_and_says_so_once() {
        let mut state = FileState { changes: 1, grant: Some(grant(Mode::Write)), ..FileState::default() };
        state.buffer.write(0, b"text");
        state.opens = BTreeMap::from([((true, false), 1), ((true, true), 2)]);
        state.lockers.insert((LockKind::Posix, LockOwner(1)));
        assert_eq!(state.change_session(ClientId(9)), [(true, false), (true, true), (true, true)]);
        assert!(state.lost.at_sync(1).is_some() && state.is_lock_lost && state.grant.is_none());
        assert!(state.buffer.is_empty() && !state.is_dirty());
        state.change_session(ClientId(10));
        assert!(state.lost.at_sync(1).is_none(), "nothing was written since");
    }

    #[test]
    fn a_file_is_kept_until_its_last_user_has_closed_it() {
        let files = OpenFiles::default();
        let (first, second) = (files.open(FileId(7), ClientId(1)), files.open(FileId(7), ClientId(1)));
        assert!(Arc::ptr_eq(&first, &second) && !files.is_last(FileId(7)));
        files.close(FileId(7));
        assert!(files.is_last(FileId(7)) && files.get(FileId(7)).is_some());
        files.close(FileId(7));
        assert!(files.get(FileId(7)).is_none() && files.all().is_empty());
    }
}
