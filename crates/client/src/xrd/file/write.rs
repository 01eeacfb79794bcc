//! Uploads: one piece after the other, with many requests in flight.

use super::{
    core::Core,
    lane::{Lane, refused},
};
use crate::xrd::{
    mux::{Outcome, Sink, Ticket, Wait},
    process::lock,
    task::{in_thread, now},
    trouble::Trouble,
};
use base::{Failure, Result};
use std::{collections::VecDeque, io::IoSlice, sync::Arc};
use wire::xrd::{Request, Write};

/// Longest answer to a write.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Writes under way, from one offset on.
#[derive(Debug)]
pub(in crate::xrd) struct Upload {
    offset: u64,
    in_flight: VecDeque<(Ticket, usize)>,
    bytes_in_flight: usize,
    pub(in crate::xrd) written: u64,
}

impl Upload {
    pub(in crate::xrd) fn new(offset: u64) -> Self {
        Self { offset, in_flight: VecDeque::new(), bytes_in_flight: 0, written: 0 }
    }

    /// Sends `data`, at most a chunk.
    pub(in crate::xrd) async fn send(&mut self, core: &Core, data: &[u8], wait: Wait) -> Result<(), Trouble> {
        let lane = core.lane(wait).await?;
        let room = core.options.window_bytes.saturating_sub(data.len());
        self.settle(&lane, room, wait).await?;
        core.sum_up(&lane, self.offset, data);
        let write = Write { handle: lane.handle, offset: self.offset, path_id: 0, length: data.len() as u32 };
        let sink = Sink::Gather { max: ANSWER_BYTES_MAX };
        let ticket = submit(&lane, Request::Write(write), data, sink, wait).await?;
        self.in_flight.push_back((ticket, data.len()));
        self.bytes_in_flight += data.len();
        self.offset += data.len() as u64;
        Ok(())
    }

    /// Waits for answers until at most `bytes` are in flight.
    async fn settle(&mut self, lane: &Arc<Lane>, bytes: usize, wait: Wait) -> Result<(), Trouble> {
        while self.bytes_in_flight > bytes || self.is_answered() {
            let Some((ticket, length)) = self.in_flight.pop_front() else { break };
            match ticket.answer(wait, &mut []).await? {
                Outcome::Body(_) => {
                    self.bytes_in_flight -= length;
                    self.written += length as u64;
                }
                Outcome::AgainAfter(_) => {
                    let failure = Failure::busy(format!("server {} takes no data now", lane.peer()));
                    return Err(failure.hint("write the file again later").into());
                }
                outcome => return Err(refused(lane, outcome)),
            }
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.in_flight.front().is_some_and(|(ticket, _)| ticket.is_over())
    }

    /// Waits for every answer.
    pub(in crate::xrd) async fn finish(&mut self, core: &Core, wait: Wait) -> Result<(), Trouble> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        let lane = core.lane(wait).await?;
        self.settle(&lane, 0, wait).await
    }

    /// Whether something was sent and not acknowledged.
    pub(in crate::xrd) fn is_open(&self) -> bool {
        self.bytes_in_flight > 0
    }
}

/// Sends a request with its data. Sending may block, so for a task a thread does it.
async fn submit(
    lane: &Arc<Lane>,
    request: Request,
    data: &[u8],
    sink: Sink,
    wait: Wait,
) -> Result<Ticket, Trouble> {
    if wait == Wait::Thread {
        return lane.mux().submit_with(&request, &[IoSlice::new(data)], sink);
    }
    let (mux, data) = (Arc::clone(lane.mux()), data.to_vec());
    in_thread(move || mux.submit_with(&request, &[IoSlice::new(&data)], sink)).await?
}

impl Core {
    /// Adds to the sum of what was written, if somebody will ask for it.
    fn sum_up(&self, lane: &Lane, offset: u64, data: &[u8]) {
        let mut sent = lock(&self.state().sent);
        sent.0 = match sent.0 {
            Some((end, sum)) if end == offset && lane.has_feature("expect") => {
                Some((end + data.len() as u64, sum.extend(data)))
            }
            _ => None,
        };
    }

    pub(in crate::xrd) async fn write_at(&self, offset: u64, data: &[u8], wait: Wait) -> Result<()> {
        let mut upload = Upload::new(offset);
        let outcome = self.write_all(&mut upload, data, wait).await;
        outcome.map_err(|trouble| self.write_failed(trouble))
    }

    async fn write_all(&self, upload: &mut Upload, data: &[u8], wait: Wait) -> Result<(), Trouble> {
        for chunk in data.chunks(self.options.chunk()) {
            upload.send(self, chunk, wait).await?;
        }
        upload.finish(self, wait).await
    }

    /// A write failed: what the file holds is not known, so it must not be committed.
    pub(in crate::xrd) fn write_failed(&self, trouble: Trouble) -> Failure {
        let failure = match trouble {
            Trouble::Broken(failure) => Failure { hint: None, ..failure }
                .hint("the server gives up what was not closed; write the file again"),
            Trouble::Refused(failure) => failure,
        };
        let failure = self.failed("write", failure);
        if self.is_writable() {
            self.spoil(&failure);
        }
        failure
    }
}

/// Writes one after the other with many requests in flight.
///
/// A failed write is reported by a later call, at the latest by [`Writer::finish`]. Dropped before that, with bytes
/// that were not yet acknowledged, it makes [`File::close`](super::File::close) fail: a short file is never committed
/// by mistake.
#[derive(Debug)]
pub struct Writer<'a> {
    core: &'a Core,
    upload: Upload,
    /// Less than a chunk that was not sent yet.
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(core: &'a Core, offset: u64) -> Self {
        Self { core, upload: Upload::new(offset), buffer: Vec::new() }
    }

    /// Takes all of `data`.
    pub fn push(&mut self, mut data: &[u8]) -> Result<()> {
        let chunk = self.core.options.chunk();
        if !self.buffer.is_empty() {
            let count = data.len().min(chunk - self.buffer.len());
            self.buffer.extend_from_slice(&data[..count]);
            data = &data[count..];
            if self.buffer.len() < chunk {
                return Ok(());
            }
            self.send_buffer()?;
        }
        while data.len() >= chunk {
            self.send(&data[..chunk])?;
            data = &data[chunk..];
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// Sends the rest and waits for every answer; returns the bytes written.
    pub fn finish(mut self) -> Result<u64> {
        self.send_buffer()?;
        self.settle()?;
        Ok(self.upload.written)
    }

    fn send_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        self.send(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn send(&mut self, data: &[u8]) -> Result<()> {
        let outcome = now(self.upload.send(self.core, data, Wait::Thread));
        outcome.map_err(|trouble| self.core.write_failed(trouble))
    }

    fn settle(&mut self) -> Result<()> {
        let outcome = now(self.upload.finish(self.core, Wait::Thread));
        outcome.map_err(|trouble| self.core.write_failed(trouble))
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if (!self.buffer.is_empty() || self.upload.is_open()) && self.core.is_writable() {
            self.core.spoil(&Failure::unavailable("a writer was dropped before it had finished"));
        }
    }
}

impl std::io::Write for Writer<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.push(data).map_err(std::io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.send_buffer().and_then(|()| self.settle()).map_err(std::io::Error::other)
    }
}
