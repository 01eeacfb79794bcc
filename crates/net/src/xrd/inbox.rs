//! Received bytes: many small requests per receive, large data past the buffer.

use super::{Counters, limits::INBOX_BYTES};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};

/// The receiving side of a session.
#[derive(Debug)]
pub(super) struct Inbox {
    socket: Arc<TcpStream>,
    counters: Arc<Counters>,
    buffer: Vec<u8>,
    /// Received and not yet consumed: `start..end` of the buffer.
    start: usize,
    end: usize,
}

impl Inbox {
    pub(super) fn new(socket: Arc<TcpStream>, counters: Arc<Counters>) -> Self {
        Self { socket, counters, buffer: vec![0; INBOX_BYTES], start: 0, end: 0 }
    }

    /// What was received and not consumed.
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

    /// Receives until `count` bytes are ready. The caller has bounded `count`.
    pub(super) async fn fill(&mut self, count: usize, deadline: Duration) -> io::Result<()> {
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        while self.end - self.start < count {
            if self.buffer.len() - self.start < count {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let count = receive(&self.socket, &mut self.buffer[self.end..], deadline).await?;
            self.count(count);
            self.end += count;
        }
        Ok(())
    }

    /// Fills `data` with what comes next.
    pub(super) async fn take(&mut self, data: &mut [u8], deadline: Duration) -> io::Result<()> {
        let mut at = self.ready().len().min(data.len());
        data[..at].copy_from_slice(&self.ready()[..at]);
        self.consume(at);
        while at < data.len() {
            let count = receive(&self.socket, &mut data[at..], deadline).await?;
            self.count(count);
            at += count;
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.counters.received_bytes_total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Gives memory of long requests back; nothing may be ready.
    pub(super) fn shrink(&mut self) {
        if self.ready().is_empty() && self.buffer.len() > INBOX_BYTES {
            self.buffer = vec![0; INBOX_BYTES];
        }
    }

    /// Throws away the next `count` bytes.
    pub(super) async fn skip(&mut self, mut count: usize, deadline: Duration) -> io::Result<()> {
        while count > 0 {
            self.fill(1, deadline).await?;
            let some = self.ready().len().min(count);
            self.consume(some);
            count -= some;
        }
        Ok(())
    }
}

/// Receives at least one byte.
async fn receive(socket: &TcpStream, buffer: &mut [u8], deadline: Duration) -> io::Result<usize> {
    loop {
        match socket.try_read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(deadline, socket.readable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            }
            Err(error) => return Err(error),
        }
    }
}
