//! An open file: reads and writes with many requests in flight.

use super::{
    Connection, Options, XrdUrl,
    connection::{Incoming, Reply, route},
};
use base::{
    ByteRange, Failure, Result,
    limits::{READV_ELEMENT_BYTES_MAX, READV_ELEMENTS_MAX},
};
use std::collections::VecDeque;
use wire::xrd::{
    FileHandle, Open, OpenAnswer, OpenFlags, Read, Readv, Request, Stat, StatInfo, StreamId, Subject, Target,
    Truncate, VECTOR_ELEMENT_BYTES, VectorElement, Write,
};

/// How a new file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Replace what is there; otherwise the file must not exist.
    pub replace: bool,
    /// Make missing directories.
    pub make_path: bool,
    /// Permission bits.
    pub mode: u16,
    /// Bytes to come, if known: the server makes room for them, or refuses at once.
    pub size: Option<u64>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { replace: false, make_path: true, mode: 0o644, size: None }
    }
}

/// An open file on a connection of its own.
///
/// Dropped without [`File::close`] a file that is being written is abandoned by the server.
#[derive(Debug)]
pub struct File {
    connection: Connection,
    handle: FileHandle,
    /// For messages.
    url: String,
    size: u64,
    options: Options,
}

impl File {
    /// Opens for reading; waits while the file is recalled from tape.
    pub fn open_read(url: &XrdUrl, options: &Options) -> Result<Self> {
        Self::open(url, options, OpenFlags::READ, 0)
    }

    /// Makes a file for writing.
    pub fn create(url: &XrdUrl, options: &Options, create: CreateOptions) -> Result<Self> {
        let flags = OpenFlags::UPDATE
            .with(if create.replace { OpenFlags::DELETE } else { OpenFlags::NEW })
            .with_if(create.make_path, OpenFlags::MAKE_PATH);
        let mut url = url.clone();
        if let Some(size) = create.size {
            url.opaque = url.opaque.with("oss.asize", size.to_string());
        }
        Self::open(&url, options, flags, create.mode)
    }

    /// Opens an existing file for reading and writing.
    pub fn open_update(url: &XrdUrl, options: &Options) -> Result<Self> {
        Self::open(url, options, OpenFlags::UPDATE, 0)
    }

    fn open(url: &XrdUrl, options: &Options, flags: OpenFlags, mode: u16) -> Result<Self> {
        let (connection, body) = route(url, options, &|opaque| {
            let target = Target { path: url.path.as_str().to_owned(), opaque: opaque.clone() };
            let flags = flags.with(OpenFlags::RETURN_STAT);
            Request::Open(Open { mode, flags, flags2: 0, template: FileHandle::default(), target })
        })
        .map_err(|f| f.during(format!("open {url}")))?;
        let answer = OpenAnswer::parse(&body)?;
        let (handle, stat) = (answer.handle, answer.stat);
        let mut file = Self { connection, handle, url: url.to_string(), size: 0, options: options.clone() };
        file.size = match stat {
            Some(stat) => stat.size,
            None => file.stat()?.size,
        };
        Ok(file)
    }

    /// Size in bytes when the file was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `host:port` of the server that holds the file.
    #[must_use]
    pub fn server(&self) -> &str {
        self.connection.peer()
    }

    /// Attributes now.
    pub fn stat(&mut self) -> Result<StatInfo> {
        let body =
            self.call(&Request::Stat(Stat { subject: Subject::Handle(self.handle), is_filesystem: false }))?;
        let text = String::from_utf8_lossy(&body);
        Ok(StatInfo::parse(text.trim_end_matches('\0'))?)
    }

    /// Reads from `offset`; fewer bytes than the buffer holds only at the end of the file.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut at = 0;
        let range = ByteRange::at(offset, buffer.len() as u64)
            .ok_or_else(|| Failure::invalid(format!("read {} at {offset} overflows", self.url)))?;
        self.read_pieces(range, &mut |piece| {
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
            Ok(())
        })?;
        Ok(at)
    }

    /// Hands the whole file to `sink`, in order. Fewer bytes than [`File::size`] are a failure.
    pub fn copy_to(&mut self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.copy_range(ByteRange { offset: 0, end: self.size }, sink)
    }

    /// Hands the bytes of `range` to `sink`, in order. Fewer bytes are a failure.
    pub fn copy_range(&mut self, range: ByteRange, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let bytes = self.read_pieces(range, sink)?;
        if bytes != range.length() {
            let (url, end) = (&self.url, range.offset + bytes);
            return Err(Failure::corrupt(format!("{url} ends at {end}, {} bytes early", range.end - end)));
        }
        Ok(())
    }

    /// Reads with many requests in flight; pieces reach `sink` in order. Stops early at the end of the file.
    fn read_pieces(&mut self, range: ByteRange, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let (mut next, mut done) = (range.offset, 0);
        let mut slots: VecDeque<Slot> = VecDeque::new();
        let mut spare = Vec::new();
        let slots_max = (self.options.window_bytes / self.options.chunk_bytes).max(1);
        let mut is_end = false;
        while !slots.is_empty() || (next < range.end && !is_end) {
            while slots.len() < slots_max && next < range.end && !is_end {
                let length = (range.end - next).min(self.options.chunk_bytes as u64) as u32;
                let stream = self.connection.new_stream();
                let read = Read { handle: self.handle, offset: next, length, path_id: 0 };
                self.connection.send(&[&Request::Read(read).encode(stream)])?;
                let data = spare.pop().unwrap_or_default();
                slots.push_back(Slot { stream, wanted: length as usize, data, is_done: false });
                next += u64::from(length);
            }
            self.receive_piece(&mut slots)?;
            while slots.front().is_some_and(|slot| slot.is_done) {
                let Some(mut slot) = slots.pop_front() else { break };
                if !is_end && let Err(failure) = sink(&slot.data) {
                    // Answers that nobody takes are still on their way.
                    let _ = self.connection.broken("the reader stopped in the middle");
                    return Err(failure);
                }
                done += if is_end { 0 } else { slot.data.len() as u64 };
                is_end |= slot.data.len() < slot.wanted;
                slot.data.clear();
                spare.push(slot.data);
            }
        }
        Ok(done)
    }

    /// Takes one answer and puts it where it belongs.
    fn receive_piece(&mut self, slots: &mut VecDeque<Slot>) -> Result<()> {
        match self.connection.receive()? {
            Incoming::Data { stream, is_last, length } => {
                let slot = slots.iter_mut().find(|slot| slot.stream == stream && !slot.is_done);
                let Some(slot) = slot.filter(|slot| slot.data.len() + length <= slot.wanted) else {
                    return Err(self.connection.broken("data that were not asked for"));
                };
                self.connection.take(length, &mut slot.data)?;
                slot.is_done = is_last;
                Ok(())
            }
            Incoming::Answer { answer, .. } => {
                let failure = answer.to_failure();
                // Answers of the other requests are still on their way.
                let broken = self.connection.broken("an answer of an unexpected kind");
                Err(failure.unwrap_or(broken).during(format!("read {}", self.url)))
            }
        }
    }

    /// Reads many ranges in one request: at most 1024 of at most 2 MiB; reading past the end is a failure.
    pub fn read_vector(&mut self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        let is_small = |range: &ByteRange| range.length() <= READV_ELEMENT_BYTES_MAX as u64;
        if ranges.len() > READV_ELEMENTS_MAX || !ranges.iter().all(is_small) {
            return Err(Failure::invalid(format!("vector read of {} is beyond the limits", self.url)));
        }
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let element = |range: &ByteRange| VectorElement {
            handle: self.handle,
            length: range.length() as u32,
            offset: range.offset,
        };
        let elements: Vec<_> = ranges.iter().map(element).collect();
        let body = self.call(&Request::Readv(Readv { elements: elements.clone(), path_id: 0 }))?;
        let mut rest = body.as_slice();
        let mut pieces = Vec::with_capacity(elements.len());
        for element in elements {
            let end = VECTOR_ELEMENT_BYTES + element.length as usize;
            let piece = rest.get(..end).filter(|piece| piece[..VECTOR_ELEMENT_BYTES] == element.encode());
            let Some(piece) = piece else {
                return Err(self.connection.broken("vector read answered out of order"));
            };
            pieces.push(piece[VECTOR_ELEMENT_BYTES..].to_vec());
            rest = &rest[end..];
        }
        Ok(pieces)
    }

    /// Writes all of `data` at `offset` and waits for the answers.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let mut writer = self.writer_at(offset);
        writer.push(data)?;
        writer.finish()?;
        Ok(())
    }

    /// A writer from the start of the file.
    pub fn writer(&mut self) -> Writer<'_> {
        self.writer_at(0)
    }

    /// A writer from `offset`.
    pub fn writer_at(&mut self, offset: u64) -> Writer<'_> {
        Writer {
            file: self,
            offset,
            buffer: Vec::new(),
            in_flight: VecDeque::new(),
            bytes_in_flight: 0,
            written: 0,
        }
    }

    /// Sets the size.
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        self.call(&Request::Truncate(Truncate { subject: Subject::Handle(self.handle), size }))?;
        Ok(())
    }

    /// Returns when the bytes are on stable storage.
    pub fn sync(&mut self) -> Result<()> {
        self.call(&Request::Sync(self.handle))?;
        Ok(())
    }

    /// Closes; what was written is committed, or the failure tells why not.
    pub fn close(mut self) -> Result<()> {
        self.call(&Request::Close(self.handle))?;
        Ok(())
    }

    fn call(&mut self, request: &Request) -> Result<Vec<u8>> {
        match self.connection.call(request).map_err(|f| f.during(&self.url))? {
            Reply::Done(body) => Ok(body),
            Reply::Elsewhere(_) => Err(self.connection.broken("an open file was redirected")),
        }
    }
}

/// A read that is awaited.
struct Slot {
    stream: StreamId,
    wanted: usize,
    data: Vec<u8>,
    is_done: bool,
}

/// Writes one after the other with many requests in flight.
///
/// A failed write is reported by a later call, at the latest by [`Writer::finish`]. Dropped before that, with bytes
/// that were not yet acknowledged, it makes [`File::close`] fail: a short file is never committed by mistake.
#[derive(Debug)]
pub struct Writer<'a> {
    file: &'a mut File,
    offset: u64,
    /// Less than a chunk that was not sent yet.
    buffer: Vec<u8>,
    in_flight: VecDeque<(StreamId, usize)>,
    bytes_in_flight: usize,
    written: u64,
}

impl Writer<'_> {
    /// Takes all of `data`.
    pub fn push(&mut self, mut data: &[u8]) -> Result<()> {
        let chunk = self.file.options.chunk_bytes.max(1);
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
        self.settle(0)?;
        Ok(self.written)
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
        self.settle(self.file.options.window_bytes.saturating_sub(data.len()))?;
        let stream = self.file.connection.new_stream();
        let write =
            Write { handle: self.file.handle, offset: self.offset, path_id: 0, length: data.len() as u32 };
        self.file.connection.send(&[&Request::Write(write).encode(stream), data])?;
        self.in_flight.push_back((stream, data.len()));
        self.bytes_in_flight += data.len();
        self.offset += data.len() as u64;
        Ok(())
    }

    /// Waits for answers until at most `bytes` are in flight.
    fn settle(&mut self, bytes: usize) -> Result<()> {
        while self.bytes_in_flight > bytes {
            match self.file.connection.receive()? {
                Incoming::Data { stream, is_last: true, length: 0 } => {
                    let Some(at) = self.in_flight.iter().position(|entry| entry.0 == stream) else {
                        return Err(self.file.connection.broken("an answer to nothing that was written"));
                    };
                    let (_, length) = self.in_flight.remove(at).unwrap_or_default();
                    self.bytes_in_flight -= length;
                    self.written += length as u64;
                }
                Incoming::Answer { answer, .. } if answer.to_failure().is_some() => {
                    // Answers of the other writes are still on their way: the file cannot be used any more.
                    let broken = self.file.connection.broken("a write failed");
                    let failure = answer.to_failure().unwrap_or(broken);
                    return Err(failure.during(format!("write {}", self.file.url)));
                }
                _ => return Err(self.file.connection.broken("an answer of an unexpected kind")),
            }
        }
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.buffer.is_empty() || self.bytes_in_flight > 0 {
            let _ = self.file.connection.broken("a writer was dropped before it had finished");
        }
    }
}

impl std::io::Write for Writer<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.push(data).map_err(std::io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.send_buffer().and_then(|()| self.settle(0)).map_err(std::io::Error::other)
    }
}
