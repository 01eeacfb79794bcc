//! Grants of open files: asked for when they are needed, returned when somebody else needs them.

use crate::{
    caller::Caller,
    errno::Refusal,
    files::{FileState, HeldGrant, OpenFile},
    mount::Mount,
};
use base::{Failure, Millis, Result};
use client::LiveFile;
use rustix::io::Errno;
use share::{ClientId, Generation, Mode, RequestId};
use std::{
    sync::{MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use wire::control::{AskGrant, CommitNode, OpenNode, Recall, ReturnGrant, ShareGrant};

/// How long a thread sleeps that waits for another one of this mount; then it looks whether its caller is still there.
const LOOK: Duration = Duration::from_secs(1);

impl Mount {
    /// Waits until `mode` may be done with the file. It may as long as the guard is held.
    pub(crate) fn acquire<'a>(
        &self,
        caller: &Caller,
        file: &'a OpenFile,
        mode: Mode,
    ) -> Result<MutexGuard<'a, FileState>, Refusal> {
        let mut state = file.lock();
        loop {
            self.follow_session(file, &mut state)?;
            if state.is_lock_lost {
                return Err(Failure::unavailable("a lock on the file was lost with the session").into());
            }
            if state.allows(mode) && self.head.is_lease_valid() {
                return Ok(state);
            }
            if state.allows(mode) || state.is_asking {
                // Of the lease the session is told, of an answer the thread that asked.
                let woken = caller.waiting(|| Ok(file.answered.wait_timeout(state, LOOK)))?;
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                if self.head.stop().is_set() {
                    return Err(Errno::IO.into());
                }
                continue;
            }
            state.is_asking = true;
            let client = state.session;
            drop(state);
            let answer = self.ask(caller, file, mode);
            state = file.lock();
            state.is_asking = false;
            file.answered.notify_all();
            let grant = answer?;
            if state.session == client && self.head.client() == client {
                self.install(&mut state, mode, &grant)?;
                return Ok(state);
            }
        }
    }

    /// Asks the head until it has the grant. Nothing is locked meanwhile: to give this one, the head may ask another one back.
    fn ask(&self, caller: &Caller, file: &OpenFile, mode: Mode) -> Result<ShareGrant, Refusal> {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let ask = |client| AskGrant { client, request, file: file.id, mode };
        let answer = self.head.call_until(caller, ask)?;
        answer.grant.ok_or_else(|| Failure::internal("a reply is pending and is not").into())
    }

    /// Begins to use a grant. The one before, if any, to read, was given up by asking for this one.
    fn install(&self, state: &mut FileState, mode: Mode, grant: &ShareGrant) -> Result<()> {
        state.grant = None;
        state.size = grant.size;
        state.modified = grant.modified;
        let bytes = match self.open_bytes(mode, grant) {
            Ok(bytes) => bytes,
            Err(failure) => {
                // It is known here, so that it is returned like others when it is asked back.
                state.grant = Some(HeldGrant { mode: Mode::Read, generation: grant.generation, bytes: None });
                return Err(failure);
            }
        };
        state.grant = Some(HeldGrant { mode, generation: grant.generation, bytes });
        Ok(())
    }

    fn open_bytes(&self, mode: Mode, grant: &ShareGrant) -> Result<Option<LiveFile>> {
        if grant.layout.columns.is_empty() {
            return Ok(None);
        }
        match mode {
            Mode::Read => LiveFile::open_read(&grant.layout, &self.options),
            Mode::Write => LiveFile::open_update(&grant.layout, grant.size, &self.options),
        }
        .map(Some)
    }

    /// If the head has ended the session, what belonged to it is forgotten, and the new one is told what is open.
    pub(crate) fn follow_session(&self, file: &OpenFile, state: &mut FileState) -> Result<(), Refusal> {
        let client = self.head.client();
        if state.session == client {
            return Ok(());
        }
        for (is_read, is_write) in state.change_session(client) {
            let open = OpenNode { client, file: file.id, is_read, is_write };
            let opened = self.head.call_once(&open, Millis(0));
            opened.inspect_err(|failure| {
                tracing::warn!(file = %file.id, %failure, "a file that was open cannot be opened again");
            })?;
        }
        Ok(())
    }

    /// Makes durable what was written, and tells the head. Nothing is done if nothing was written.
    pub(crate) fn commit(
        &self,
        caller: &Caller,
        file: &OpenFile,
        state: &mut FileState,
    ) -> Result<(), Refusal> {
        self.follow_session(file, state)?;
        let Some(grant) = state.grant.as_ref().filter(|_| state.is_dirty) else { return Ok(()) };
        let (client, generation) = (state.session, grant.generation);
        let synced = grant.bytes.as_ref().map_or(Ok(()), |bytes| bytes.sync(state.size));
        if let Err(failure) = synced {
            state.lose(failure);
            return Ok(());
        }
        let (size, modified) = (state.size, state.modified);
        let commit = |_| CommitNode { client, file: file.id, generation, size, modified };
        match self.head.call(caller, commit) {
            Ok(_) => state.is_dirty = false,
            Err(Refusal::Failure(failure)) => {
                let _ = self.follow_session(file, state);
                state.lose(failure);
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Commits what was written, and gives the grant back.
    pub(crate) fn give_back(&self, file: &OpenFile, state: &mut FileState) {
        let nobody = Caller::nobody();
        if let Err(refusal) = self.commit(&nobody, file, state) {
            tracing::warn!(file = %file.id, %refusal, "a file was not committed");
        }
        if let Some(grant) = state.grant.take() {
            if let Some(bytes) = grant.bytes
                && let Err(failure) = bytes.close()
            {
                // All that counts was synced before.
                tracing::debug!(file = %file.id, %failure, "a file was not closed at its disk server");
            }
            self.return_grant(state.session, file.id, grant.generation);
        }
    }

    /// Something is wrong with the grant or the connection: it is given up. What was not committed is lost.
    pub(crate) fn abandon(&self, file: &OpenFile, state: &mut FileState, failure: &Failure) {
        tracing::warn!(file = %file.id, %failure, "a grant is given up");
        state.lose(failure.clone());
        if let Some(grant) = state.grant.take() {
            self.return_grant(state.session, file.id, grant.generation);
        }
    }

    /// The head asks for a grant back. Yields whether that was done; else its answer is still on its way to the thread that asked.
    pub(crate) fn recall(&self, client: ClientId, recall: &Recall) -> bool {
        let Some(file) = self.files.get(recall.file) else {
            self.return_grant(client, recall.file, recall.generation);
            return true;
        };
        let mut state = file.lock();
        if state.session != client {
            return true;
        }
        if state.grant.as_ref().is_some_and(|grant| grant.generation == recall.generation) {
            self.give_back(&file, &mut state);
        } else if state.is_asking {
            return false;
        } else {
            self.return_grant(client, recall.file, recall.generation);
        }
        true
    }

    fn return_grant(&self, client: ClientId, file: base::FileId, generation: Generation) {
        let give_back = |_| ReturnGrant { client, file, generation };
        if let Err(refusal) = self.head.call(&Caller::nobody(), give_back) {
            // The head asks for it when somebody needs it.
            tracing::debug!(%file, %generation, %refusal, "a grant was not returned");
        }
    }
}
