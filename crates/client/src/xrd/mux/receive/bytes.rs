//! Takes bytes from the connection, and notices a server that is silent.

use super::Piece;
use crate::xrd::mux::{Mux, table::Table};
use crate::xrd::process::lock;
use base::Failure;
use std::{
    io::{ErrorKind, IoSliceMut},
    time::Instant,
};
use wire::xrd::ANSWER_HEADER_BYTES;

/// Receive buffer: many small answers fit.
const BUFFER_BYTES: usize = 128 << 10;
/// What is longer than this goes from the system to its place; what is shorter goes through the buffer, with what follows.
const DIRECT_BYTES_MIN: usize = 16 << 10;

/// Received bytes that were not parsed yet.
#[derive(Debug, Default)]
pub(in crate::xrd::mux) struct Receiver {
    pub(super) buffer: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Receiver {
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether a whole header is there.
    pub(in crate::xrd::mux) fn has_more(&self) -> bool {
        self.end - self.start >= ANSWER_HEADER_BYTES
    }

    /// Takes as much as there is of what `target` wants.
    pub(super) fn take(&mut self, target: &mut [u8]) -> usize {
        let count = target.len().min(self.end - self.start);
        target[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        count
    }
}

/// Copies what another thread received for `pieces` to their places.
pub(in crate::xrd::mux) fn settle(table: &mut Table, pieces: &mut [Piece<'_>]) {
    for piece in pieces {
        let Some(slot) = table.slot(piece.stream) else { continue };
        let count = slot.chunk.filled;
        if count > 0 && slot.chunk.parts.is_empty() {
            let chunk = std::mem::take(&mut slot.chunk);
            piece.target[piece.filled..piece.filled + count].copy_from_slice(chunk.bytes());
            piece.filled += count;
            table.recycle(chunk.buffer);
        }
    }
}

impl Mux {
    pub(super) fn skip(&self, rx: &mut Receiver, mut length: usize) -> Result<(), Failure> {
        while length > 0 {
            self.need(rx, 1)?;
            let count = length.min(rx.rest().len());
            rx.start += count;
            length -= count;
        }
        Ok(())
    }

    /// Fills `target`. Large ones do not pass through the buffer; of what follows only the next header is taken along.
    pub(super) fn fill(
        &self,
        rx: &mut Receiver,
        target: &mut [u8],
        next_header: usize,
    ) -> Result<(), Failure> {
        let mut at = rx.take(target);
        while at < target.len() {
            let rest = &mut target[at..];
            if rest.len() < DIRECT_BYTES_MIN {
                self.need(rx, 1)?;
                at += rx.take(rest);
                continue;
            }
            let length = rest.len();
            (rx.start, rx.end) = (0, 0);
            rx.buffer.resize(BUFFER_BYTES, 0);
            let tail = IoSliceMut::new(&mut rx.buffer[..next_header]);
            let count = self.receive_into(&mut [IoSliceMut::new(rest), tail], length)?;
            at += count.min(length);
            rx.end = count.saturating_sub(length);
        }
        Ok(())
    }

    /// Receives until the buffer has `count` bytes.
    pub(super) fn need(&self, rx: &mut Receiver, count: usize) -> Result<(), Failure> {
        while rx.end - rx.start < count {
            if rx.start == rx.end {
                (rx.start, rx.end) = (0, 0);
                rx.buffer.resize(BUFFER_BYTES, 0);
            } else if rx.buffer.len() - rx.start < count {
                rx.buffer.copy_within(rx.start..rx.end, 0);
                (rx.start, rx.end) = (0, rx.end - rx.start);
            }
            let end = rx.end;
            rx.end += self.receive_into(&mut [IoSliceMut::new(&mut rx.buffer[end..])], 1)?;
        }
        Ok(())
    }

    /// Receives some bytes; `due` are sure to come.
    fn receive_into(&self, parts: &mut [IoSliceMut<'_>], due: usize) -> Result<usize, Failure> {
        let peer = &self.greeting.peer;
        let began = Instant::now();
        loop {
            match self.transport.receive_due(parts, due) {
                Ok(0) => {
                    return Err(Failure::unavailable(format!("no answer from {peer}: connection closed")));
                }
                Ok(count) => return Ok(count),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => self.check_silence(began)?,
                    _ => return Err(Failure::io(format!("no answer from {peer}"), &error)),
                },
            }
        }
    }

    /// Fails if the server is silent for too long while something is due.
    fn check_silence(&self, began: Instant) -> Result<(), Failure> {
        let now = Instant::now();
        let table = lock(&self.table);
        if let Some(failure) = &table.broken {
            return Err(failure.clone());
        }
        // Nothing can be due before somebody waited for it here.
        let is_young = now.duration_since(began) < self.progress_timeout;
        match table.overdue(now, self.progress_timeout) {
            Some(late) if !is_young => {
                drop(table);
                Err(Failure::timeout(format!(
                    "no answer from {}: no progress for {:.0} s",
                    self.greeting.peer,
                    late.as_secs_f64()
                ))
                .hint("the server is overloaded or the way to it is broken; try again"))
            }
            _ => Ok(()),
        }
    }
}
