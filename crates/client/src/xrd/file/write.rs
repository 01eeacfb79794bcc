//! Uploads: one piece after the other, with many requests in flight.

use super::{
    core::Core,
    lane::{FileConnection, refused},
};
use crate::xrd::{
    mux::{Outcome, Sink, Ticket, Wait},
    process::lock,
    task::{in_thread, now},
    trouble::RequestError,
};
use base::{ByteRange, Failure, Result};
use std::{collections::VecDeque, io::IoSlice, sync::Arc};
use wire::xrd::{PAGE_CRC_BYTES, Pgwrite, Request, Write, encode_pages, parse_bad_pages};

/// Longest answer to a write.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Writes under way, from one offset on.
#[derive(Debug)]
pub(in crate::xrd) struct Upload {
    offset: u64,
    in_flight: VecDeque<Sent>,
    bytes_in_flight: usize,
    pub(in crate::xrd) written: u64,
}

/// A write that was not yet acknowledged.
#[derive(Debug)]
struct Sent {
    ticket: Ticket,
    range: ByteRange,
    /// Data with their page checksums, in case pages arrive damaged.
    pages: Option<Vec<u8>>,
}

impl Upload {
    pub(in crate::xrd) fn new(offset: u64) -> Self {
        Self { offset, in_flight: VecDeque::new(), bytes_in_flight: 0, written: 0 }
    }

    /// Sends `data`, at most a chunk.
    pub(in crate::xrd) async fn send(
        &mut self,
        core: &Core,
        data: &[u8],
        wait: Wait,
    ) -> Result<(), RequestError> {
        let lane = core.lane(wait).await?;
        let room = core.options.window_bytes.saturating_sub(data.len());
        self.settle(&lane, room, wait).await?;
        core.sum_up(&lane, self.offset, data);
        let range = ByteRange { offset: self.offset, end: self.offset + data.len() as u64 };
        let pages = lane.has_pages.then(|| encode_pages(range.offset, data));
        let ticket = match &pages {
            Some(pages) => submit_pages(&lane, range.offset, pages, false, wait).await?,
            None => {
                let length = data.len() as u32;
                let write = Write { handle: lane.handle, offset: range.offset, path_id: 0, length };
                submit(&lane, Request::Write(write), data, wait).await?
            }
        };
        self.in_flight.push_back(Sent { ticket, range, pages });
        self.bytes_in_flight += data.len();
        self.offset = range.end;
        Ok(())
    }

    /// Waits for answers until at most `bytes` are in flight.
    async fn settle(
        &mut self,
        lane: &Arc<FileConnection>,
        bytes: usize,
        wait: Wait,
    ) -> Result<(), RequestError> {
        while self.bytes_in_flight > bytes || self.is_answered() {
            let Some(Sent { ticket, range, pages }) = self.in_flight.pop_front() else { break };
            let answer = acknowledged(lane, ticket, wait).await?;
            if let Some(pages) = pages {
                send_again(lane, range, &pages, &answer, wait).await?;
            }
            self.bytes_in_flight -= range.length() as usize;
            self.written += range.length();
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.in_flight.front().is_some_and(|sent| sent.ticket.is_over())
    }

    /// Waits for every answer.
    pub(in crate::xrd) async fn finish(&mut self, core: &Core, wait: Wait) -> Result<(), RequestError> {
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

/// Waits for the answer to a write.
async fn acknowledged(
    lane: &Arc<FileConnection>,
    ticket: Ticket,
    wait: Wait,
) -> Result<Vec<u8>, RequestError> {
    match ticket.answer(wait, &mut []).await? {
        Outcome::Body(answer) => Ok(answer),
        Outcome::AgainAfter(_) => {
            let failure = Failure::busy(format!("server {} does not accept data now", lane.peer()));
            Err(failure.hint("write the file again later").into())
        }
        outcome => Err(refused(lane, outcome)),
    }
}

/// Sends the pages again that the server's answer lists as damaged.
async fn send_again(
    lane: &Arc<FileConnection>,
    range: ByteRange,
    pages: &[u8],
    answer: &[u8],
    wait: Wait,
) -> Result<(), RequestError> {
    let bad = parse_bad_pages(answer)?;
    if bad.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        server = lane.peer(),
        pages = bad.len(),
        "the server received damaged pages; sending them again"
    );
    let mut at = 0;
    for page in wire::xrd::pages(range.offset, range.length() as usize) {
        let end = at + PAGE_CRC_BYTES + page.length;
        if bad.contains(&page) {
            let ticket = submit_pages(lane, page.offset, &pages[at..end], true, wait).await?;
            if !parse_bad_pages(&acknowledged(lane, ticket, wait).await?)?.is_empty() {
                let what = format!("server {}: the page at {} arrives damaged", lane.peer(), page.offset);
                return Err(Failure::corrupt(what)
                    .hint("tell the operator: the network to the server damages data")
                    .into());
            }
        }
        at = end;
    }
    Ok(())
}

async fn submit_pages(
    lane: &Arc<FileConnection>,
    offset: u64,
    pages: &[u8],
    is_retry: bool,
    wait: Wait,
) -> Result<Ticket, RequestError> {
    let length = pages.len() as u32;
    let write = Pgwrite { handle: lane.handle, offset, path_id: 0, is_retry, length };
    submit(lane, Request::Pgwrite(write), pages, wait).await
}

/// Sends a request with its data. Sending may block, so for a task a thread does it.
async fn submit(
    lane: &Arc<FileConnection>,
    request: Request,
    data: &[u8],
    wait: Wait,
) -> Result<Ticket, RequestError> {
    let sink = Sink::Gather { max: ANSWER_BYTES_MAX };
    if wait == Wait::Thread {
        return lane.mux().submit_with(&request, &[IoSlice::new(data)], sink);
    }
    let (mux, data) = (Arc::clone(lane.mux()), data.to_vec());
    in_thread(move || mux.submit_with(&request, &[IoSlice::new(&data)], sink)).await?
}

impl Core {
    /// Adds to the sum of what was written, if somebody will ask for it.
    fn sum_up(&self, lane: &FileConnection, offset: u64, data: &[u8]) {
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

    async fn write_all(&self, upload: &mut Upload, data: &[u8], wait: Wait) -> Result<(), RequestError> {
        for chunk in data.chunks(self.options.chunk()) {
            upload.send(self, chunk, wait).await?;
        }
        upload.finish(self, wait).await
    }

    /// A write failed: what the file holds is not known, so it must not be committed.
    pub(in crate::xrd) fn write_failed(&self, trouble: RequestError) -> Failure {
        let failure = match trouble {
            RequestError::Broken(failure) => Failure { hint: None, ..failure }
                .hint("the server discards files that were not closed; write the file again"),
            RequestError::Refused(failure) => failure,
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
/// A later call reports a failed write, at the latest [`Writer::finish`]. A writer that is dropped before that, with
/// bytes that were not yet acknowledged, makes [`File::close`](super::File::close) fail: a short file is never
/// committed by mistake.
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
