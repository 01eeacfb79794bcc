//! Frames from the server, and where their bytes go.

mod bytes;

use super::{
    Mux, Outcome, Sink,
    table::{Table, is_final},
};
use crate::xrd::process::lock;
use base::Failure;
pub(super) use bytes::{Receiver, settle};
use std::time::{Duration, Instant};
use wire::xrd::{
    ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, STATUS_BYTES, Status, StatusKind, StreamId,
};

/// Longest answer that is neither data nor the answer to one request.
const ANSWER_BYTES_MAX: u32 = 1 << 20;
/// Longest late answer: a listing of some hundred thousand names.
const LATE_BYTES_MAX: u32 = 64 << 20;
/// A body that is kept whole grows by this, however long the server says that it is.
const GROWTH_BYTES: usize = 1 << 20;

/// Where a thread that waits wants the data of a request.
#[derive(Debug)]
pub(in crate::xrd) struct Piece<'a> {
    pub(in crate::xrd) stream: u16,
    pub(in crate::xrd) target: &'a mut [u8],
    /// Bytes that are there.
    pub(in crate::xrd) filled: usize,
}

/// The destination of the bytes of a frame.
enum PayloadTarget {
    /// To the thread that receives, piece number so.
    Piece(usize),
    /// To a buffer of the request.
    Chunk,
    /// To the body of the answer.
    Body(Vec<u8>),
    /// Nowhere.
    Away,
}

/// A frame of data.
#[derive(Clone, Copy)]
struct Frame {
    stream: StreamId,
    length: usize,
    is_last: bool,
    /// Of page reads: where in the file its data begin.
    offset: Option<u64>,
    /// Bytes of the header that probably follows.
    next_header: usize,
}

impl Mux {
    /// Receives until `is_enough`. The caller leads.
    pub(super) fn lead(
        &self,
        is_enough: &dyn Fn(&Table) -> bool,
        pieces: &mut [Piece<'_>],
    ) -> Result<(), Failure> {
        let mut receiver = lock(&self.receiver);
        loop {
            self.receive_frame(&mut receiver, pieces)?;
            if is_enough(&lock(&self.table)) {
                return Ok(());
            }
        }
    }

    /// Receives one frame, whole.
    pub(super) fn receive_frame(&self, rx: &mut Receiver, pieces: &mut [Piece<'_>]) -> Result<(), Failure> {
        self.need(rx, ANSWER_HEADER_BYTES)?;
        let mut header = [0; ANSWER_HEADER_BYTES];
        rx.take(&mut header);
        let header = AnswerHeader::parse(&header).map_err(|e| self.nonsense(e))?;
        match header.code {
            AnswerCode::Ok | AnswerCode::OkSoFar => {
                let frame = Frame {
                    stream: header.stream,
                    length: header.length as usize,
                    is_last: header.code == AnswerCode::Ok,
                    offset: None,
                    next_header: ANSWER_HEADER_BYTES,
                };
                self.receive_data(rx, frame, pieces)
            }
            AnswerCode::Status => self.receive_status(rx, header, pieces),
            code => {
                let max = if code == AnswerCode::Attn { LATE_BYTES_MAX } else { ANSWER_BYTES_MAX };
                if header.length > max {
                    return Err(self.nonsense("an answer is too long"));
                }
                let mut body = Vec::new();
                self.gather(rx, header.length as usize, &mut body)?;
                let answer = Answer::parse(&header, &body).map_err(|e| self.nonsense(e))?;
                self.dispatch(header.stream, answer)
            }
        }
    }

    fn receive_status(
        &self,
        rx: &mut Receiver,
        header: AnswerHeader,
        pieces: &mut [Piece<'_>],
    ) -> Result<(), Failure> {
        let mut body = [0; STATUS_BYTES - ANSWER_HEADER_BYTES];
        if header.length as usize != body.len() {
            return Err(self.nonsense("a status has the wrong length"));
        }
        self.need(rx, body.len())?;
        rx.take(&mut body);
        let status = Status::parse(&body).map_err(|e| self.nonsense(e))?;
        if status.kind == StatusKind::Progress && status.data_bytes == 0 {
            lock(&self.table).touch(status.stream.number(), Instant::now());
            return Ok(());
        }
        let frame = Frame {
            stream: status.stream,
            length: status.data_bytes as usize,
            is_last: is_final(status.kind),
            offset: Some(status.offset),
            next_header: STATUS_BYTES,
        };
        self.receive_data(rx, frame, pieces)
    }

    fn receive_data(&self, rx: &mut Receiver, frame: Frame, pieces: &mut [Piece<'_>]) -> Result<(), Failure> {
        let stream = frame.stream.number();
        let (place, mut chunk) = self.place(frame, pieces)?;
        let mut body = None;
        match place {
            PayloadTarget::Piece(index) => {
                let piece = &mut pieces[index];
                let target = &mut piece.target[piece.filled..piece.filled + frame.length];
                self.fill(rx, target, frame.next_header)?;
                piece.filled += frame.length;
            }
            PayloadTarget::Chunk => {
                let end = chunk.filled + frame.length;
                self.fill(rx, &mut chunk.buffer[chunk.filled..end], frame.next_header)?;
                chunk.filled = end;
                chunk.parts.extend(frame.offset.map(|offset| (offset, frame.length)));
            }
            PayloadTarget::Body(mut bytes) => {
                self.gather(rx, frame.length, &mut bytes)?;
                body = Some(bytes);
            }
            PayloadTarget::Away => self.skip(rx, frame.length)?,
        }
        let mut table = lock(&self.table);
        table.touch(stream, Instant::now());
        let Some(slot) = table.slot(stream) else { return Ok(()) };
        slot.total += frame.length;
        // The buffer stays with the request until its owner takes it.
        let is_chunk = matches!(slot.sink, Sink::Data { .. });
        slot.chunk = chunk;
        if let Some(bytes) = body {
            slot.body = bytes;
        }
        if frame.is_last {
            let chunk = std::mem::take(&mut slot.chunk);
            let body = std::mem::take(&mut slot.body);
            let outcome = if is_chunk { Outcome::Data(chunk) } else { Outcome::Body(body) };
            table.complete(stream, outcome);
        }
        Ok(())
    }

    /// Where the bytes of a frame go, and the buffer of the request, which is the receiver's meanwhile.
    fn place(&self, frame: Frame, pieces: &[Piece<'_>]) -> Result<(PayloadTarget, super::Chunk), Failure> {
        let mut table = lock(&self.table);
        let Some(slot) = table.awaited(frame.stream) else {
            drop(table);
            return Err(self.nonsense("an answer to nothing that was asked"));
        };
        if slot.is_unwanted {
            return Ok((PayloadTarget::Away, super::Chunk::default()));
        }
        let end = slot.total + frame.length;
        match slot.sink {
            Sink::Gather { max } if end <= max => {
                let body = std::mem::take(&mut slot.body);
                Ok((PayloadTarget::Body(body), super::Chunk::default()))
            }
            Sink::Data { wanted } if end <= wanted => {
                let mut chunk = std::mem::take(&mut slot.chunk);
                let stream = frame.stream.number();
                let piece = pieces.iter().position(|piece| piece.stream == stream);
                if let (Some(index), None, 0) = (piece, frame.offset, chunk.filled) {
                    return Ok((PayloadTarget::Piece(index), chunk));
                }
                if chunk.buffer.is_empty() {
                    chunk.buffer = table.buffer(wanted);
                }
                Ok((PayloadTarget::Chunk, chunk))
            }
            _ => {
                drop(table);
                Err(self.nonsense("more data than were asked for"))
            }
        }
    }

    /// Deals with an answer other than data.
    fn dispatch(&self, stream: StreamId, answer: Answer) -> Result<(), Failure> {
        let now = Instant::now();
        let mut table = lock(&self.table);
        table.arrived = Some(now);
        let stream = match &answer {
            Answer::Message(text) => {
                // `kXR_asyncms`: operators send it to whoever is connected, mostly before they stop the server.
                tracing::info!(
                    server = %self.greeting.peer,
                    text,
                    "the operators of this server sent a message; it changes nothing by itself: act as it says"
                );
                return Ok(());
            }
            Answer::Later { stream, .. } => *stream,
            _ => stream,
        };
        let answer = if let Answer::Later { answer, .. } = answer { *answer } else { answer };
        if table.awaited(stream).is_none() {
            drop(table);
            return Err(self.nonsense("an answer to nothing that was asked"));
        }
        let number = stream.number();
        table.touch(number, now);
        let outcome = match answer {
            Answer::WaitResp { seconds } => {
                table.be_patient(stream, now, Duration::from_secs(seconds.into()), self.wait_max);
                return Ok(());
            }
            Answer::Ok(body) => Self::whole(&mut table, number, body),
            Answer::Redirect(redirect) => Some(Outcome::Redirect(redirect)),
            Answer::Wait { seconds, .. } => Some(Outcome::AgainAfter(Duration::from_secs(seconds.into()))),
            Answer::Error { .. } => answer.to_failure().map(Outcome::Failed),
            _ => None,
        };
        let Some(outcome) = outcome else {
            drop(table);
            return Err(self.nonsense("an answer of an unexpected kind"));
        };
        table.complete(number, outcome);
        Ok(())
    }

    /// A body that came in one piece because it came late.
    fn whole(table: &mut Table, stream: u16, body: Vec<u8>) -> Option<Outcome> {
        let slot = table.slot(stream)?;
        match slot.sink {
            Sink::Gather { max } if body.len() <= max => Some(Outcome::Body(body)),
            Sink::Data { wanted } if slot.total == 0 && body.len() <= wanted => {
                let filled = body.len();
                Some(Outcome::Data(super::Chunk { buffer: body.into(), filled, parts: Vec::new() }))
            }
            _ => None,
        }
    }

    /// Appends `length` bytes to `body`, growing it as they come.
    fn gather(&self, rx: &mut Receiver, length: usize, body: &mut Vec<u8>) -> Result<(), Failure> {
        let end = body.len() + length;
        while body.len() < end {
            let start = body.len();
            body.resize(end.min(start + GROWTH_BYTES), 0);
            self.fill(rx, &mut body[start..], ANSWER_HEADER_BYTES)?;
        }
        Ok(())
    }
}
