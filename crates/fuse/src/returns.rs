//! How grants end: returned when the head asks or the last program closes the file, or lost.
//!
//! Before a grant is returned the kernel drops the pages that it has of the file. It waits for pages that it is reading
//! just then, and writes back those that programs have mapped and changed: neither may wait for the end of the return.
//! So reads are answered under the old grant after a while, and the kernel drops its pages once more.

use crate::{
    caller::Caller,
    files::{FileState, HeldGrant, OpenFile, Returning},
    mount::Mount,
};
use base::{Failure, FileId};
use share::{ClientId, Generation, Mode};
use std::{
    sync::{Arc, MutexGuard},
    time::Instant,
};
use wire::control::{Recall, ReturnGrant};

/// After so many rounds somebody is told: programs are not that fast.
const ROUNDS_MAX: u32 = 1000;

impl Mount {
    /// Commits what was written, and gives the grant back, if it is that one. `has_pages`: the kernel drops its pages before; else it
    /// does when the file is opened next.
    pub(crate) fn give_back(&self, file: &OpenFile, generation: Generation, has_pages: bool) {
        let mut state = file.lock();
        while state.returning != Returning::Not {
            state = file.wait(state);
        }
        let client = state.session;
        let Some(held) = state.grant.clone().filter(|held| held.generation == generation) else { return };
        if has_pages {
            state = self.drop_pages(file, state);
        }
        state.returning = Returning::Ending;
        while state.users > 0 {
            state = file.wait(state);
        }
        drop(state);
        if held.mode == Mode::Write
            && let Err(refusal) = self.commit_under(&Caller::nobody(), file, &held)
        {
            tracing::warn!(file = %file.id, %refusal, "a file was not committed");
        }
        let mut state = file.lock();
        while state.senders > 0 {
            state = file.wait(state);
        }
        let is_held = state.session == client && state.is_under(generation);
        if is_held {
            state.grant = None;
        }
        drop(state);
        if is_held {
            let is_complete = held.bytes.as_deref().is_none_or(client::LiveFile::is_even);
            close(file.id, held);
            self.return_grant(client, (file.id, generation), is_complete);
        }
        file.change(|state| state.returning = Returning::Not);
        self.send_loose(file);
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
            self.return_grant(client, (id, generation), true);
            return true;
        };
        let mut state = file.lock();
        if state.session != client {
            return true;
        }
        let is_held = state.is_under(generation);
        if !is_held && (state.returning != Returning::Not || !state.disowns(generation, Instant::now())) {
            return false;
        }
        drop(state);
        if is_held {
            self.give_back(&file, generation, true);
        } else {
            self.return_grant(client, (id, generation), true);
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
        let give_back = |_| ReturnGrant { client, file, generation, is_complete };
        if let Err(refusal) = self.head.call(&Caller::nobody(), give_back) {
            // The head asks for it when somebody needs it.
            tracing::debug!(%file, %generation, %refusal, "a grant was not returned");
        }
    }
}

/// Ends the connection of a grant that nobody uses any more.
fn close(file: FileId, held: HeldGrant) {
    let bytes = held.bytes.and_then(Arc::into_inner);
    if let Some(Err(failure)) = bytes.map(client::LiveFile::close) {
        // All that counts was synced before.
        tracing::debug!(%file, %failure, "a file was not closed at its disk server");
    }
}
