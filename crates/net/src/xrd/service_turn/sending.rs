//! Sends answers, those of calls too, while there is room for more.

use super::{Park, Phase, Session, Task};
use crate::xrd::{
    Service,
    limits::{CHUNK_BYTES, PERMIT_BYTES_MIN, SLICES_MAX, TURN_BYTES},
    session::End,
};

impl<S: Service> Session<S> {
    /// The send queue is full.
    pub(super) fn is_heavy(&self) -> bool {
        (self.transport.is_tls() && self.sender.pending() > 0)
            || self.sender.pending() >= CHUNK_BYTES
            || self.sender.pieces() >= SLICES_MAX
    }

    /// Sends everything; `false` if the session waits for the peer or for a wait permit.
    pub(in crate::xrd) fn flush(&mut self) -> Result<bool, End> {
        if self.needs_wait_permit() {
            return Ok(false);
        }
        let is_done = self.sender.flush(&mut self.transport)?;
        let sent = self.sender.sent();
        while self.unsent_rooms.front().is_some_and(|(end, _)| *end <= sent) {
            self.unsent_rooms.pop_front();
        }
        self.is_slow = !is_done && (self.is_slow || self.wait_permit.is_some());
        Ok(is_done)
    }

    /// Whether what is to be sent has to wait for a wait permit.
    fn needs_wait_permit(&self) -> bool {
        self.wait_permit.is_none() && !self.is_slow && self.sender.pending() >= PERMIT_BYTES_MIN
    }

    /// Returns the event to wait for when not everything was sent.
    pub(super) fn unsent(&self) -> Park {
        if self.needs_wait_permit() { Park::WaitPermit } else { Park::Write }
    }

    /// Sends everything, with the answers of calls as many as one service turn sends; `false` if the peer has to be waited for.
    pub(in crate::xrd) fn send_all(&mut self) -> Result<bool, End> {
        let sent_before = self.sender.sent();
        loop {
            // Clients of the field look for one answer in a TLS record, where a second one would wait for ever: there
            // any byte that waits is heavy.
            while !self.is_heavy() && self.take_queued_reply() {}
            if !self.flush()? {
                return Ok(false);
            }
            // Calls go on answering meanwhile: there may be no end of it.
            if !self.has_queued_reply() || self.sender.sent() - sent_before >= TURN_BYTES {
                return Ok(true);
            }
        }
    }

    /// Whether the answer of a call waits, and may be sent: not into the middle of a frame.
    pub(in crate::xrd) fn has_queued_reply(&self) -> bool {
        matches!(&self.phase, Phase::Open(context) if !self.is_inside_frame() && !context.outbox.is_empty())
    }

    /// Adds the answer of a call to what is sent, if there is one.
    fn take_queued_reply(&mut self) -> bool {
        let Phase::Open(context) = &self.phase else { return false };
        if self.is_inside_frame() {
            return false;
        }
        let Some(reply) = context.outbox.take() else { return false };
        self.sender.extend(&reply.bytes);
        let end = self.sender.sent() + self.sender.pending() as u64;
        self.unsent_rooms.extend(reply.shared.map(|room| (end, room)));
        true
    }

    fn is_inside_frame(&self) -> bool {
        matches!(&self.task, Some(Task::Read(task)) if task.is_inside_frame())
    }
}
