//! What programs have written is gathered and sent to the disk server in large pieces, some at a time.
//!
//! **Problem.** A program that writes 4 KiB at a time waits for a disk server each time.
//!
//! **Idea.** Under a grant to write nobody else reads the file. So what is written stays here ([`Buffer`]) until it
//! fills a piece, somebody wants it durable, or the grant is asked back. The kernel writes through: its own write-back
//! would make pages dirty after the grant was asked back.
//!
//! **Failures.** A piece that cannot be stored is told by the next fsync or close, once; that the disk is full, by
//! writes, too.

mod buffer;

pub(crate) use buffer::{Buffer, PIECE_BYTES};

use crate::{
    caller::Caller,
    content::is_no_space,
    errno::Refusal,
    files::{FileState, HeldGrant, OpenFile, Returning},
    grants::{Need, Turn},
    mount::Mount,
};
use base::{Failure, Result};
use buffer::Flight;
use share::Mode;
use std::sync::{MutexGuard, atomic::Ordering};

/// Bytes of one file that wait: what a disk server stores in a tenth of a second, so that a program and the disk are both busy.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Bytes of all files of a mount that wait: what a host spares for it.
const MOUNT_BYTES_MAX: u64 = 256 << 20;
/// Pieces of one file on their way at a time.
const SENDERS_MAX: u32 = 4;

impl Mount {
    /// Waits until there is room for `length` bytes. A refusal says that the disk is full.
    pub(crate) fn wait_for_room<'a>(
        &self,
        caller: &Caller,
        file: &'a OpenFile,
        mut state: MutexGuard<'a, FileState>,
        (length, held): (u64, &HeldGrant),
    ) -> Result<MutexGuard<'a, FileState>, Refusal> {
        loop {
            if let Some(failure) = state.lost.untold().filter(|failure| is_no_space(failure)) {
                return Err(failure.clone().into());
            }
            if !state.is_under(held.generation) {
                return Err(Failure::unavailable("the grant was lost meanwhile").into());
            }
            let all = self.files.buffered.load(Ordering::Relaxed);
            let has_room = state.buffer.bytes() + length <= FILE_BYTES_MAX && all + length <= MOUNT_BYTES_MAX;
            if has_room || state.buffer.is_empty() {
                return Ok(state);
            }
            self.start_sending(file, &mut state, true);
            state = caller.waiting(|| Ok(file.wait(state)))?;
        }
    }

    /// Has threads send what is in the buffer. `is_any`: also what can still grow.
    pub(crate) fn start_sending(&self, file: &OpenFile, state: &mut FileState, is_any: bool) {
        if state.senders >= SENDERS_MAX || !state.may_send() {
            return;
        }
        let (Some(own), Some(open)) = (self.own.upgrade(), self.files.get(file.id)) else { return };
        state.senders += 1;
        let send = move || {
            own.send(&open, is_any);
            open.change(|state| state.senders -= 1);
        };
        if !self.senders.run(send) {
            // Whoever waits for it sends it himself.
            state.senders -= 1;
        }
    }

    fn send(&self, file: &OpenFile, is_any: bool) {
        loop {
            let mut state = file.lock();
            let Some(held) = state.grant.clone().filter(|_| state.may_send()) else { return };
            let Some(flight) = state.buffer.take(is_any) else { return };
            if is_any && !state.buffer.is_empty() {
                self.start_sending(file, &mut state, true);
            }
            drop(state);
            self.send_one(file, &held, &flight);
        }
    }

    fn send_one(&self, file: &OpenFile, held: &HeldGrant, flight: &Flight) {
        let (offset, end) = (flight.offset, flight.offset + flight.data.len() as u64);
        let write = |bytes: &client::LiveFile| bytes.write_at(offset, &flight.data);
        let outcome = self.on_copies(&Caller::nobody(), file.id, held, write);
        let failure = file.change(|state| {
            let is_late = !state.is_under(held.generation);
            state.buffer.landed(flight.number);
            match outcome {
                _ if is_late => None,
                Ok(()) => {
                    state.solid = state.solid.max(end);
                    end_if_full(state);
                    None
                }
                Err(failure) if is_no_space(&failure) => {
                    tracing::error!(file = %file.id, %failure, "what was written is not stored");
                    state.lost.note(failure);
                    state.full_from = Some(state.full_from.map_or(offset, |from| from.min(offset)));
                    end_if_full(state);
                    None
                }
                Err(failure) => Some(failure),
            }
        });
        if let Some(failure) = failure {
            self.abandon(file, held.generation, &failure);
        }
    }

    /// Returns when everything that was written until now is stored, though not durable. Fails if the grant is lost.
    pub(crate) fn drain(&self, file: &OpenFile, held: &HeldGrant) -> Result<()> {
        let mut state = file.lock();
        let last = state.buffer.last();
        loop {
            if !state.is_under(held.generation) {
                return Err(Failure::unavailable("the grant was lost meanwhile"));
            }
            if state.buffer.is_stored(last) {
                return Ok(());
            }
            let Some(flight) = state.buffer.take(true) else {
                state = file.wait(state);
                continue;
            };
            if !state.buffer.is_empty() {
                self.start_sending(file, &mut state, true);
            }
            drop(state);
            self.send_one(file, held, &flight);
            state = file.lock();
        }
    }

    /// Sends what was written, if anything: before a lock is given back.
    pub(crate) fn flush(&self, file: &OpenFile) {
        let turn = {
            let mut state = file.lock();
            let is_due = !state.buffer.is_empty() && state.returning == Returning::Not;
            if !is_due || !state.allows(Mode::Write) {
                return;
            }
            Turn::begin(file, &mut state, false)
        };
        // What fails is told by the next fsync or close.
        if let Some(turn) = turn
            && let Err(failure) = turn.grant().and_then(|held| self.drain(file, held))
        {
            tracing::debug!(file = %file.id, %failure, "a file was not flushed");
        }
    }

    /// Sends what lies in buffers for a while.
    pub(crate) fn send_old(&self) {
        for file in self.files.all() {
            let mut state = file.lock();
            if !state.buffer.is_empty() {
                self.start_sending(&file, &mut state, true);
            }
        }
    }

    /// Takes mapped pages that the kernel writes back. It does not wait for a grant: the kernel may do it while it drops pages, because
    /// another mount waits for ours.
    pub(crate) fn write_mapped(&self, file: &OpenFile, offset: u64, data: &[u8]) {
        let mut state = file.lock();
        let is_held = state.may_send();
        // The end of the file is where the grant says, not where the kernel thought.
        let room = if is_held { state.size.saturating_sub(offset) } else { u64::MAX };
        let data = &data[..data.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if data.is_empty() {
            return;
        }
        state.buffer.write(offset, data);
        state.note_change(crate::content::now());
        if is_held {
            self.start_sending(file, &mut state, false);
        } else {
            drop(state);
            self.send_loose(file);
        }
    }

    /// Has a thread ask for the grant for pages that were written back without one.
    pub(crate) fn send_loose(&self, file: &OpenFile) {
        let (Some(own), Some(open)) = (self.own.upgrade(), self.files.get(file.id)) else { return };
        let state = open.lock();
        if state.buffer.is_empty() || state.returning != Returning::Not || state.allows(Mode::Write) {
            return;
        }
        drop(state);
        let job = move || {
            let sent = own.acquire(&Caller::nobody(), &open, Need::Write);
            let sent = sent.and_then(|turn| Ok(own.drain(&open, turn.grant()?)?));
            if let Err(refusal) = sent {
                let failure = Failure::unavailable(format!("mapped pages were not stored: {refusal}"));
                open.change(|state| state.lose(failure));
            }
        };
        if !self.pool.run(job) {
            tracing::error!(file = %file.id, "mapped pages wait: too many requests are under way");
        }
    }
}

/// If the disk was full, and nothing is on its way any more: the file ends there if nothing is stored behind, so that it has no hole.
fn end_if_full(state: &mut FileState) {
    if state.buffer.is_sending() {
        return;
    }
    if let Some(from) = state.full_from.take().filter(|from| *from >= state.solid) {
        state.buffer.cut(from);
        state.size = state.size.min(from);
    }
}
