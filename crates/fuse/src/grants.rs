//! Grants of open files, asked for when they are needed.
//!
//! Any number of requests run under a grant at a time ([`Turn`]); it is returned when they have ended (`returns.rs`).

use crate::{
    caller::Caller,
    errno::Refusal,
    files::{FileState, HeldGrant, OpenFile, Returning},
    mount::Mount,
};
use base::{Failure, Millis, Result};
use client::LiveFile;
use rustix::io::Errno;
use share::{Mode, RequestId};
use std::{
    sync::{Arc, MutexGuard, atomic::Ordering},
    time::{Duration, Instant},
};
use wire::control::{AskGrant, OpenNode, ShareGrant};

/// How long a read waits while the kernel drops its pages: longer than it takes to drop all that nobody reads.
const PAGE_PATIENCE: Duration = Duration::from_millis(2);

/// What a request wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// To read. The kernel has locked the pages for which it reads.
    Read,
    /// To write.
    Write,
    /// To change it while nobody else reads or writes.
    WriteAlone,
}

impl Need {
    fn mode(self) -> Mode {
        match self {
            Self::Read => Mode::Read,
            Self::Write | Self::WriteAlone => Mode::Write,
        }
    }
}

/// A request under way under a grant. The grant is not returned before it ends.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) file: &'a OpenFile,
    grant: Option<HeldGrant>,
    is_alone: bool,
}

impl<'a> Turn<'a> {
    /// Begins one; the grant is there.
    pub(crate) fn begin(file: &'a OpenFile, state: &mut FileState, is_alone: bool) -> Option<Self> {
        let grant = state.grant.clone()?;
        state.users += 1;
        state.is_alone |= is_alone;
        Some(Self { file, grant: Some(grant), is_alone })
    }

    /// The grant.
    pub(crate) fn grant(&self) -> Result<&HeldGrant> {
        self.grant.as_ref().ok_or_else(|| Failure::internal("a turn has ended"))
    }

    /// Refuses what is done late: the grant was lost meanwhile.
    pub(crate) fn require(&self, state: &FileState) -> Result<()> {
        if state.is_under(self.grant()?.generation) {
            return Ok(());
        }
        Err(Failure::unavailable("the grant was lost meanwhile"))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Whoever returns the grant closes its connection then.
        self.grant = None;
        self.file.change(|state| {
            state.users -= 1;
            state.is_alone &= !self.is_alone;
        });
    }
}

/// Whether a request may begin now.
enum Admission<'a> {
    Turn(Turn<'a>),
    /// Something is to be waited for, at most so long.
    Wait(Option<Duration>),
    /// There is no grant for it.
    Ask,
}

impl Mount {
    /// Waits until `need` may be done with the file.
    pub(crate) fn acquire<'a>(
        &self,
        caller: &Caller,
        file: &'a OpenFile,
        need: Need,
    ) -> Result<Turn<'a>, Refusal> {
        let begun = Instant::now();
        let mut state = file.lock();
        loop {
            self.follow_session(file, &mut state)?;
            if state.is_lock_lost {
                return Err(Failure::unavailable("a lock on the file was lost with the session").into());
            }
            match self.enter(file, &mut state, need, begun) {
                Admission::Turn(turn) => {
                    while turn.is_alone && state.users > 1 {
                        state = file.wait(state);
                    }
                    return Ok(turn);
                }
                Admission::Wait(most) => {
                    // Of the lease the session is told, of the others who has done it.
                    state = caller.waiting(|| {
                        Ok(match most {
                            Some(most) => file.wait_for(state, most),
                            None => file.wait(state),
                        })
                    })?;
                    if self.head.stop().is_set() {
                        return Err(Errno::IO.into());
                    }
                }
                Admission::Ask => state = self.ask_and_install(caller, file, state, need.mode())?,
            }
        }
    }

    fn enter<'a>(
        &self,
        file: &'a OpenFile,
        state: &mut FileState,
        need: Need,
        begun: Instant,
    ) -> Admission<'a> {
        let has_grant = state.allows(need.mode());
        match state.returning {
            Returning::Pages if need == Need::Read && has_grant && self.head.is_lease_valid() => {
                if let Some(left) = PAGE_PATIENCE.checked_sub(begun.elapsed()) {
                    return Admission::Wait(Some(left.max(Duration::from_micros(1))));
                }
                // The kernel may wait for this page before it has dropped the others: the grant still holds.
                state.late_reads += 1;
            }
            Returning::Pages | Returning::Ending | Returning::Told => return Admission::Wait(None),
            Returning::Not if !has_grant && !state.is_asking => return Admission::Ask,
            Returning::Not if !has_grant || !self.head.is_lease_valid() => return Admission::Wait(None),
            Returning::Not => {}
        }
        if state.is_alone {
            return Admission::Wait(None);
        }
        let is_alone = need == Need::WriteAlone;
        Turn::begin(file, state, is_alone).map_or(Admission::Wait(None), Admission::Turn)
    }

    /// Asks the head for a grant and begins to use it. Nothing is locked meanwhile: to give it, the head may ask another one back.
    fn ask_and_install<'a>(
        &self,
        caller: &Caller,
        file: &'a OpenFile,
        mut state: MutexGuard<'a, FileState>,
        mode: Mode,
    ) -> Result<MutexGuard<'a, FileState>, Refusal> {
        state.is_asking = true;
        let client = state.session;
        let offered = state.take_offered().filter(|(offered, _)| *offered >= mode);
        let mode = offered.as_ref().map_or(mode, |(offered, _)| *offered);
        drop(state);
        let answer = offered.map_or_else(|| self.ask(caller, file, mode), |(_, grant)| Ok(grant));
        let opened = answer.as_ref().ok().map(|grant| self.open_bytes(mode, grant));
        let mut state = file.lock();
        state.is_asking = false;
        file.changed.notify_all();
        let grant = answer?;
        if state.session != client || self.head.client() != client || grant.generation <= state.disowned {
            return Ok(state);
        }
        match opened.unwrap_or(Ok(None)) {
            Ok(bytes) => install(&mut state, mode, &grant, bytes),
            Err(failure) => {
                state.grant = None;
                drop(state);
                self.return_grant(client, (file.id, grant.generation), true);
                return Err(failure.into());
            }
        }
        Ok(state)
    }

    /// The number of a new request.
    pub(crate) fn next_request(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    fn ask(&self, caller: &Caller, file: &OpenFile, mode: Mode) -> Result<ShareGrant, Refusal> {
        let request = self.next_request();
        let ask = |client| AskGrant { client, request, file: file.id, mode };
        let answer = self.head.call_until(caller, ask)?;
        answer.grant.ok_or_else(|| Failure::internal("a reply is pending and is not").into())
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
        let opens = state.change_session(client);
        self.forget_pages(file, state, None);
        for (is_read, is_write) in opens {
            let open = OpenNode { client, file: file.id, is_read, is_write, is_run: false, grant: None };
            let opened = self.head.call_once(&open, Millis(0));
            opened.inspect_err(|failure| {
                tracing::warn!(file = %file.id, %failure, "a file that was open cannot be opened again");
            })?;
        }
        Ok(())
    }
}

/// Begins to use a grant. The one before, if any, to read, was given up by asking for this one.
fn install(state: &mut FileState, mode: Mode, grant: &ShareGrant, bytes: Option<LiveFile>) {
    state.grant = Some(HeldGrant { mode, generation: grant.generation, bytes: bytes.map(Arc::new) });
    (state.size, state.solid) = (grant.size, grant.size);
    if !state.is_dirty() {
        state.modified = grant.modified;
    }
    // Mapped pages that were written back while there was no grant do not make the file longer.
    state.buffer.cut(grant.size);
    state.entry = None;
}
