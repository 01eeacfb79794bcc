//! How grants end: returned when the head asks or the last program closes the file, or lost.
//!
//! Before a grant is returned the kernel drops the pages that it has of the file. It waits for pages that it is reading
//! just then, and writes back those that programs have mapped and changed: neither may wait for the end of the return.
//! So reads are answered under the old grant after a while, and the kernel drops its pages once more.

use crate::{
    caller::Caller,
    content::Commit,
    errno::Refusal,
    files::{FileState, HeldGrant, OpenFile, Returning},
    mount::Mount,
};
use base::{Failure, FileId};
use share::{ClientId, Generation, Mode};
use std::{
    sync::{Arc, MutexGuard},
    time::Instant,
};
use wire::control::{CloseNode, Recall, ReturnGrant, ShareGrant};

/// After so many rounds somebody is told: programs are not that fast.
const ROUNDS_MAX: u32 = 1000;

impl Mount {
    /// Commits what was written, and gives the grant back, if it is that one. `has_pages`: the kernel drops its pages before; else it
    /// does when the file is opened next.
    pub(crate) fn give_back(&self, file: &OpenFile, generation: Generation, has_pages: bool) {
        if let Some(leaving) = self.begin_return(file, generation, has_pages) {
            self.end_return(file, leaving, None);
        }
    }

    /// Ends an open. With the last one the grant is returned, and what was written is committed.
    pub(crate) fn end_open(&self, file: &OpenFile, access: (bool, bool)) {
        let is_last = self.files.is_last(file.id);
        let held = file.lock().grant.as_ref().map(|held| held.generation).filter(|_| is_last);
        let leaving = held.and_then(|generation| self.begin_return(file, generation, false));
        let (client, offered) = file.change(|state| {
            if let Some(count) = state.opens.get_mut(&access) {
                *count = count.saturating_sub(1);
            }
            (state.session, is_last.then(|| state.take_offered()).flatten())
        });
        let closed = Some(if access.1 { Mode::Write } else { Mode::Read });
        let is_told = match (leaving, offered) {
            (Some(leaving), offered) => {
                if let Some((_, ShareGrant { generation, .. })) = offered {
                    let _ = self.tell(unused(client, file.id, generation));
                }
                self.end_return(file, leaving, closed)
            }
            (None, Some((_, ShareGrant { generation, .. }))) => {
                let call = ReturnGrant { closed, ..unused(client, file.id, generation) };
                self.tell(call).is_ok()
            }
            (None, None) => false,
        };
        self.files.close(file.id);
        if is_told {
            return;
        }
        let close = |client| CloseNode { client, file: file.id, is_write: access.1 };
        if let Err(refusal) = self.head.call(&Caller::nobody(), close) {
            tracing::warn!(file = %file.id, %refusal, "a file was not closed at the head");
        }
    }

    /// Lets nothing more be done under a grant, and stores what was written under it.
    fn begin_return(&self, file: &OpenFile, generation: Generation, has_pages: bool) -> Option<Leaving> {
        let mut state = file.lock();
        while state.returning != Returning::Not {
            state = file.wait(state);
        }
        let client = state.session;
        let held = state.grant.clone().filter(|held| held.generation == generation)?;
        if has_pages {
            state = self.drop_pages(file, state);
        }
        state.returning = Returning::Ending;
        while state.users > 0 {
            state = file.wait(state);
        }
        drop(state);
        let is_written = held.mode == Mode::Write;
        let commit = is_written.then(|| self.begin_commit(file, &held)).flatten();
        let mut state = file.lock();
        state.returning = Returning::Told;
        while state.senders > 0 {
            state = file.wait(state);
        }
        Some(Leaving { client, held, commit })
    }

    /// Tells the head that a grant is returned, what was written under it, and that an open has `closed` with it. Yields whether it
    /// knows.
    fn end_return(&self, file: &OpenFile, leaving: Leaving, closed: Option<Mode>) -> bool {
        let Leaving { client, held, commit } = leaving;
        let (generation, written) = (held.generation, commit.and_then(|commit| commit.written));
        let ends_writes = held.bytes.as_ref().filter(|_| held.mode == Mode::Write);
        let fenced = ends_writes.map(|bytes| bytes.fence()).unwrap_or_default();
        let is_complete = held.bytes.as_deref().is_none_or(client::LiveFile::is_even);
        let all = ReturnGrant { closed, fenced, is_complete, ..plain(client, file.id, generation) };
        let call = |commit| ReturnGrant { commit, ..all.clone() };
        let is_held = file.change(|state| state.is_under(generation) && state.session == client);
        let told = if is_held { self.tell(call(written)) } else { Ok(()) };
        let is_told = match (told, commit) {
            (Err(refusal), Some(commit)) if written.is_some() => {
                tracing::warn!(file = %file.id, %refusal, "a file was not committed");
                self.fail_commit(file, &commit, refusal.into_failure());
                self.tell(call(None)).is_ok()
            }
            (told, commit) => {
                if let Some(commit) = commit {
                    self.end_commit(file, &commit, None);
                }
                told.is_ok()
            }
        };
        file.change(|state| {
            if state.session == client && state.is_under(generation) {
                state.grant = None;
            }
            state.returning = Returning::Not;
        });
        close(file.id, held);
        self.send_loose(file);
        is_held && is_told
    }

    /// Has the kernel drop all its pages of a file whose grant is about to be returned.
    fn drop_pages<'a>(
        &self,
        file: &'a OpenFile,
        mut state: MutexGuard<'a, FileState>,
    ) -> MutexGuard<'a, FileState> {
        state.returning = Returning::Pages;
        for round in 1.. {
            let before = state.late_reads;
            drop(state);
            self.device.drop_pages(self.node(file.id));
            state = file.lock();
            if state.late_reads == before {
                break;
            }
            if round == ROUNDS_MAX {
                tracing::warn!(file = %file.id, "programs read a file faster than its pages are dropped");
            }
        }
        state
    }

    /// Something is wrong with a grant or its connection: it is given up. What was not committed is lost.
    pub(crate) fn abandon(&self, file: &OpenFile, generation: Generation, failure: &Failure) {
        let mut state = file.lock();
        if !state.is_under(generation) {
            return;
        }
        tracing::warn!(file = %file.id, %failure, "a grant is given up");
        state.lose(failure.clone());
        state.grant = None;
        self.forget_pages(file, &mut state, Some(generation));
        file.changed.notify_all();
    }

    /// Has the kernel drop its pages of a file whose grant is gone, and returns that if it still exists. Another thread does it: the
    /// kernel may wait for a page that the caller is about to read.
    pub(crate) fn forget_pages(&self, file: &OpenFile, state: &mut FileState, returned: Option<Generation>) {
        let (id, client) = (file.id, state.session);
        let (Some(own), Some(open)) = (self.own.upgrade(), self.files.get(id)) else { return };
        state.dropping += 1;
        // Reads from the pages ask first from now on, and wait until they are dropped.
        self.cache.changed(id);
        self.device.forget_attributes(self.node(id));
        let job = move || {
            if let Some(generation) = returned {
                own.return_grant(client, (id, generation), false);
            }
            own.device.drop_pages(own.node(id));
            open.change(|state| state.dropping -= 1);
        };
        if !self.recallers.run(job) {
            tracing::error!(file = %id, "too many grants end at a time");
        }
    }

    /// The head asks for a grant back. Yields whether that was done; else its answer is still on its way to the thread that asked.
    pub(crate) fn recall(&self, client: ClientId, recall: &Recall) -> bool {
        let (id, generation) = (recall.file, recall.generation);
        let Some(file) = self.files.get(id) else {
            // It may have been given up a moment ago.
            self.return_grant(client, (id, generation), false);
            return true;
        };
        let mut state = file.lock();
        if state.session != client {
            return true;
        }
        let is_held = state.is_under(generation);
        let is_offered = |(_, grant): &mut (Mode, ShareGrant)| grant.generation == generation;
        if state.offered.take_if(is_offered).is_some() {
            drop(state);
            let _ = self.tell(unused(client, id, generation));
            return true;
        }
        if !is_held && (state.returning != Returning::Not || !state.disowns(generation, Instant::now())) {
            return false;
        }
        drop(state);
        if is_held {
            self.give_back(&file, generation, true);
        } else {
            self.return_grant(client, (id, generation), false);
        }
        true
    }

    /// Tells the head that a grant is over. `is_complete`: all copies have all that was written under it.
    pub(crate) fn return_grant(
        &self,
        client: ClientId,
        (file, generation): (FileId, Generation),
        is_complete: bool,
    ) {
        // If that fails the head asks for it when somebody needs it.
        let _ = self.tell(ReturnGrant { is_complete, ..plain(client, file, generation) });
    }

    fn tell(&self, call: ReturnGrant) -> Result<(), Refusal> {
        let told = self.head.call(&Caller::nobody(), |_| call.clone()).map(drop);
        told.inspect_err(|refusal| {
            let ReturnGrant { file, generation, .. } = &call;
            tracing::debug!(%file, %generation, %refusal, "a grant was not returned");
        })
    }
}

/// The return of a grant, if nothing more is to be said.
fn plain(client: ClientId, file: FileId, generation: Generation) -> ReturnGrant {
    let (commit, closed, fenced, is_unused, is_complete) = (None, None, Vec::new(), false, true);
    ReturnGrant { client, file, generation, commit, closed, fenced, is_unused, is_complete }
}

/// The return of a grant with which nothing was opened.
fn unused(client: ClientId, file: FileId, generation: Generation) -> ReturnGrant {
    ReturnGrant { is_unused: true, ..plain(client, file, generation) }
}

/// A grant that is about to be returned.
struct Leaving {
    /// The session that has it.
    client: ClientId,
    held: HeldGrant,
    /// What was written since the last commit.
    commit: Option<Commit>,
}

/// Ends the connection of a grant that nobody uses any more.
fn close(file: FileId, held: HeldGrant) {
    let bytes = held.bytes.and_then(Arc::into_inner);
    if let Some(Err(failure)) = bytes.map(client::LiveFile::close) {
        // All that counts was synced before.
        tracing::debug!(%file, %failure, "a file was not closed at its disk server");
    }
}
