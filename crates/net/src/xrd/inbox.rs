//! Received bytes: many small requests per receive, large data past the buffer.

use super::{Counters, limits::INBOX_BYTES, transport::Transport};
use base::limits::UNPROVEN_BYTES;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

/// The receiving side of a session.
#[derive(Debug)]
pub(super) struct Inbox {
    counters: Arc<Counters>,
    buffer: Vec<u8>,
    /// Received and not yet consumed: `start..end` of the buffer.
    start: usize,
    end: usize,
    /// The buffer is not smaller.
    least: usize,
}

impl Inbox {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self { counters, buffer: Vec::new(), start: 0, end: 0, least: UNPROVEN_BYTES }
    }

    /// Has a buffer for many requests at a time from now on: the peer has proven who it is.
    pub(super) fn set_generous(&mut self) {
        self.least = INBOX_BYTES;
    }

    /// Gives back what is not needed for a request of `wanted` bytes.
    pub(super) fn fit(&mut self, wanted: usize) {
        let room = wanted.max(self.least).max(self.ready().len());
        if self.buffer.len() > room {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.truncate(room);
            self.buffer.shrink_to_fit();
        }
    }

    /// Bytes of the buffer.
    pub(super) fn room(&self) -> usize {
        self.buffer.len()
    }

    /// Received bytes that were not consumed.
    pub(super) fn ready(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Forgets the first `count` bytes of what is ready.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "consumed what was not received");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives once, into a buffer that can hold `wanted` bytes in one piece; the caller has bounded `wanted`.
    /// `false`: nothing has come.
    pub(super) fn receive(&mut self, transport: &mut Transport, wanted: usize) -> io::Result<bool> {
        let room = wanted.max(self.least);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        if self.buffer.len() - self.start < wanted || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let Some(count) = transport.receive(&mut self.buffer[self.end..])? else {
            return Ok(false);
        };
        self.count(count);
        self.end += count;
        Ok(true)
    }

    /// Moves what comes next into `data`: what is ready, else what the socket has. Yields the bytes moved, `None` if
    /// nothing has come.
    pub(super) fn take(&mut self, transport: &mut Transport, data: &mut [u8]) -> io::Result<Option<usize>> {
        let count = self.ready().len().min(data.len());
        if count > 0 {
            data[..count].copy_from_slice(&self.ready()[..count]);
            self.consume(count);
            return Ok(Some(count));
        }
        let received = transport.receive_due(data)?;
        self.count(received.unwrap_or(0));
        Ok(received)
    }

    fn count(&self, bytes: usize) {
        self.counters.received_bytes_total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Gives memory back if nothing is ready.
    pub(super) fn shrink(&mut self) {
        if self.ready().is_empty() {
            self.buffer = Vec::new();
        }
    }
}
