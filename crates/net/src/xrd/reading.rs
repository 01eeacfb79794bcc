//! Reads under way: each step adds one frame, or one chunk of a frame, to what is sent (spec/xrootd.md §4.4 to §4.6, §6).

use super::{
    OpenFile, ReadMethod,
    handles::Handle,
    limits::{
        ANNOUNCED_ELEMENTS_MIN, CHUNK_BYTES, FRAME_BYTES, MAPPED_BYTES_MAX, PAGE_FRAME_BYTES,
        RING_PIECE_BYTES, SLICES_MAX,
    },
    sender::Sender,
    session::End,
};
use base::{ByteRange, Crc32c, Failure, Result, limits::XRD_READ_SEGMENT_BYTES};
use std::{io::IoSliceMut, iter::Peekable, sync::Arc, vec};
use wire::xrd::{
    ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, PAGE_BYTES, PAGE_CRC_BYTES, RequestCode,
    STATUS_BYTES, Status, StatusKind, StreamId, VECTOR_ELEMENT_BYTES, VectorElement, encoded_bytes,
    page_count, pages, sum_pages,
};

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Received data wait for free space.
    Full,
    /// There is more to do.
    More,
    /// Nothing can be done before more bytes have come.
    Starved,
    /// The request is answered.
    Done,
}

/// How data can be sent to this peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendOptions {
    pub(super) method: ReadMethod,
    /// The kernel may take bytes from where they are.
    pub(super) can_send_files: bool,
}

/// A read under way.
#[derive(Debug)]
pub(super) enum ReadTask<F> {
    /// A range.
    Plain(Range<F>),
    /// A range with page checksums, and what is left of the current frame.
    Pages(Range<F>, Frame),
    /// Ranges of a vector.
    Vector { stream: StreamId, elements: Peekable<vec::IntoIter<Element<F>>>, waits_for_peers: bool },
}

/// Bytes that were announced and did not come yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame {
    left: usize,
    is_last: bool,
}

/// An element of a vector and its file.
pub(super) type Element<F> = (Arc<Handle<F>>, VectorElement);

/// The rest of a range.
#[derive(Debug)]
pub(super) struct Range<F> {
    pub(super) stream: StreamId,
    pub(super) handle: Arc<Handle<F>>,
    pub(super) offset: u64,
    pub(super) left: usize,
}

impl<F: OpenFile> ReadTask<F> {
    /// Adds the next part of the answer.
    pub(super) fn advance(&mut self, out: &mut Sender<F>, options: SendOptions) -> Result<Step, End> {
        match self {
            Self::Plain(range) => Ok(range.frame(out, options)),
            Self::Pages(range, frame) => range.pages(out, frame, options),
            Self::Vector { stream, elements, .. } => Ok(vector_frame(out, *stream, elements, options)),
        }
    }

    /// Whether the next step may wait for other servers.
    pub(super) fn waits_for_peers(&self) -> bool {
        match self {
            Self::Plain(range) | Self::Pages(range, _) => range.handle.file.waits_for_peers(),
            Self::Vector { waits_for_peers, .. } => *waits_for_peers,
        }
    }

    /// Whether a frame was begun and not finished.
    pub(super) fn is_inside_frame(&self) -> bool {
        matches!(self, Self::Pages(_, frame) if frame.left > 0)
    }
}

impl<F: OpenFile> Range<F> {
    /// Bytes of the range that the file has; may grow while it is written.
    fn available(&self) -> usize {
        let rest = self.handle.file.size().saturating_sub(self.offset);
        self.left.min(usize::try_from(rest).unwrap_or(usize::MAX))
    }

    /// A frame of a plain read.
    fn frame(&mut self, out: &mut Sender<F>, options: SendOptions) -> Step {
        let available = self.available();
        if let Some(send_path) = send_path(&*self.handle.file, available, options) {
            let count = available.min(FRAME_BYTES);
            let is_last = count == available;
            out.extend(&frame_header(self.stream, count, is_last));
            send_path.add(out, &self.handle, self.offset, count);
            return self.ahead(count, is_last);
        }
        let count = available.min(CHUNK_BYTES);
        let room = out.grow(ANSWER_HEADER_BYTES + count);
        let room_for_data = &mut room[ANSWER_HEADER_BYTES..];
        match read_range(&*self.handle.file, self.offset, room_for_data, options.method) {
            Ok(read) => {
                let is_last = read < count || count == available;
                room[..ANSWER_HEADER_BYTES].copy_from_slice(&frame_header(self.stream, read, is_last));
                out.cut(count - read);
                self.ahead(read, is_last)
            }
            Err(failure) => {
                out.cut(ANSWER_HEADER_BYTES + count);
                refuse(out, self.stream, &self.handle, &failure)
            }
        }
    }

    fn ahead(&mut self, count: usize, is_last: bool) -> Step {
        self.offset += count as u64;
        self.left -= count;
        if is_last { Step::Done } else { Step::More }
    }

    /// A chunk of a page read. A frame is announced before its data are read, so that each chunk is sent while it is
    /// in the cache; a failure in the middle ends the session, because the promised bytes will not come.
    fn pages(&mut self, out: &mut Sender<F>, frame: &mut Frame, options: SendOptions) -> Result<Step, End> {
        let in_page = (self.offset % PAGE_BYTES as u64) as usize;
        let is_start = frame.left == 0;
        if is_start {
            let available = self.available();
            let left = available.min(PAGE_FRAME_BYTES - in_page);
            *frame = Frame { left, is_last: left == available };
            out.extend(&self.status(*frame).encode());
            if let Some(range) = ByteRange::at(self.offset, left as u64) {
                self.handle.file.will_read(&[range]);
            }
        }
        let known = self.known_blocks(out, frame.left, options);
        if known > 0 {
            frame.left -= known;
            return Ok(self.ahead(known, frame.left == 0 && frame.is_last));
        }
        let count = in_block(self.offset, frame.left);
        let bytes = encoded_bytes(self.offset, count);
        let room = out.grow(bytes);
        match read_pages(&*self.handle.file, self.offset, count, room) {
            Ok(()) => {
                self.keep_sums(count, room);
                frame.left -= count;
                Ok(self.ahead(count, frame.left == 0 && frame.is_last))
            }
            Err(failure) if is_start => {
                out.cut(STATUS_BYTES + bytes);
                Ok(refuse(out, self.stream, &self.handle, &failure))
            }
            Err(failure) => Err(End::Unreadable(failure)),
        }
    }

    /// Adds blocks whose sums are known from where the file is mapped, as many as one send takes; yields how many bytes.
    fn known_blocks(&self, out: &mut Sender<F>, left: usize, options: SendOptions) -> usize {
        let is_sent_mapped = matches!(options.method, ReadMethod::Automatic | ReadMethod::Mmap);
        if !options.can_send_files || !is_sent_mapped {
            return 0;
        }
        let mut added = 0;
        while added < left {
            let offset = self.offset + added as u64;
            let count = in_block(offset, left - added);
            let has_room = added == 0 || out.pieces() + 2 * page_count(offset, count) <= SLICES_MAX;
            if !has_room || !self.known_block(out, offset, count) {
                break;
            }
            added += count;
        }
        added
    }

    fn known_block(&self, out: &mut Sender<F>, offset: u64, count: usize) -> bool {
        let file = &self.handle.file;
        if !self.is_block(offset, count) || file.mapped().is_none() {
            return false;
        }
        let sums = file.page_sums().and_then(|sums| sums.get(offset));
        let Some(sums) = sums.filter(|sums| sums.len() == page_count(offset, count)) else { return false };
        for (page, sum) in pages(offset, count).zip(sums) {
            out.extend(&sum.0.to_be_bytes());
            out.mapped(&self.handle, page.offset, page.length);
        }
        true
    }

    /// Keeps the sums of pages that were just computed, for the next who reads them.
    fn keep_sums(&self, count: usize, encoded: &[u8]) {
        let kept = self.handle.file.page_sums().filter(|_| self.is_block(self.offset, count));
        let Some(kept) = kept else { return };
        let sum = |page: &[u8]| page.first_chunk().map(|sum| Crc32c(u32::from_be_bytes(*sum)));
        let sums: Vec<_> = encoded.chunks(PAGE_CRC_BYTES + PAGE_BYTES).filter_map(sum).collect();
        kept.keep(self.offset, &sums);
    }

    /// Whether `count` bytes are a block, or all that the file has of the last one.
    fn is_block(&self, offset: u64, count: usize) -> bool {
        let end = offset + count as u64;
        count > 0
            && offset.is_multiple_of(CHUNK_BYTES as u64)
            && (count == CHUNK_BYTES || end == self.handle.file.size())
    }

    fn status(&self, frame: Frame) -> Status {
        Status {
            stream: self.stream,
            request: RequestCode::Pgread,
            kind: if frame.is_last { StatusKind::Final } else { StatusKind::Partial },
            data_bytes: encoded_bytes(self.offset, frame.left) as u32,
            offset: self.offset,
        }
    }
}

/// How the kernel sends data without a copy by this process.
#[derive(Debug, Clone, Copy)]
enum SendPath {
    Mapped,
    File,
}

impl SendPath {
    fn add<F: OpenFile>(self, out: &mut Sender<F>, handle: &Arc<Handle<F>>, offset: u64, count: usize) {
        match self {
            Self::Mapped => out.mapped(handle, offset, count),
            Self::File => out.file(handle, offset, count),
        }
    }
}

/// Chooses how `count` bytes of `file` are sent; `None`: they are read into a buffer.
fn send_path<F: OpenFile>(file: &F, count: usize, options: SendOptions) -> Option<SendPath> {
    // Under TLS this process itself would have to touch the mapping.
    if !options.can_send_files {
        return None;
    }
    let mapped = || file.mapped().map(|_| SendPath::Mapped);
    let sent = || file.descriptor().map(|_| SendPath::File);
    match options.method {
        ReadMethod::Automatic if count < MAPPED_BYTES_MAX => mapped(),
        ReadMethod::Automatic => sent(),
        ReadMethod::Pread | ReadMethod::IoUring => None,
        ReadMethod::Sendfile => sent(),
        ReadMethod::Mmap => mapped(),
    }
}

/// A frame of a vector read: as many elements as fit, an element is never cut. Past the end of a file is an error; the
/// handle stays good.
fn vector_frame<F: OpenFile>(
    out: &mut Sender<F>,
    stream: StreamId,
    elements: &mut Peekable<vec::IntoIter<Element<F>>>,
    options: SendOptions,
) -> Step {
    let send_path_of =
        |(handle, element): &Element<F>| send_path(&*handle.file, element.length as usize, options);
    let (mut group, mut bytes) = (Vec::new(), 0);
    // Short frames: the client takes one while the next is put together.
    while let Some(element) = elements.next_if(|(_, element)| {
        bytes == 0 || bytes + VECTOR_ELEMENT_BYTES + element.length as usize <= XRD_READ_SEGMENT_BYTES
    }) {
        bytes += VECTOR_ELEMENT_BYTES + element.1.length as usize;
        group.push(element);
    }
    if let Some((handle, failure)) = check_elements(&group) {
        return refuse(out, stream, handle, &failure);
    }
    announce(&group);
    let is_last = elements.peek().is_none();
    let header = frame_header(stream, bytes, is_last);
    let send_paths: Option<Vec<_>> = group.iter().map(send_path_of).collect();
    if let Some(send_paths) = send_paths {
        out.extend(&header);
        for ((handle, element), send_path) in group.iter().zip(send_paths) {
            out.extend(&element.encode());
            send_path.add(out, handle, element.offset, element.length as usize);
        }
    } else {
        let room = out.grow(ANSWER_HEADER_BYTES + bytes);
        room[..ANSWER_HEADER_BYTES].copy_from_slice(&header);
        let room_for_data = &mut room[ANSWER_HEADER_BYTES..];
        if let Err((handle, failure)) = read_elements(&group, room_for_data, options.method) {
            out.cut(ANSWER_HEADER_BYTES + bytes);
            return refuse(out, stream, handle, &failure);
        }
    }
    if is_last { Step::Done } else { Step::More }
}

/// Reads elements to their places, many at once where they are of one file and the method does not forbid it.
fn read_elements<'a, F: OpenFile>(
    group: &'a [Element<F>],
    room: &mut [u8],
    method: ReadMethod,
) -> Result<(), (&'a Handle<F>, Failure)> {
    let (mut wanted, mut rest) = (Vec::with_capacity(group.len()), room);
    for (_, element) in group {
        let (header, after) = rest.split_at_mut(VECTOR_ELEMENT_BYTES);
        header.copy_from_slice(&element.encode());
        let (data, after) = after.split_at_mut(element.length as usize);
        wanted.push((element.offset, data));
        rest = after;
    }
    let mut wanted = wanted.as_mut_slice();
    for run in group.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)) {
        let (of_run, after) = wanted.split_at_mut(run.len());
        let handle = &*run[0].0;
        let read = match method {
            ReadMethod::Pread => of_run.iter_mut().try_for_each(|(offset, data)| {
                handle.file.read_vectored_at(*offset, &mut [IoSliceMut::new(data)])
            }),
            _ => handle.file.read_many_at(of_run),
        };
        read.map_err(|failure| (handle, failure))?;
        wanted = after;
    }
    Ok(())
}

/// Tells a file what will be read, if all is of one file and enough to be worth it.
fn announce<F: OpenFile>(group: &[Element<F>]) {
    let Some((first, _)) = group.first().filter(|_| group.len() >= ANNOUNCED_ELEMENTS_MIN) else { return };
    if group.iter().all(|(handle, _)| Arc::ptr_eq(handle, first)) {
        let range = |(_, element): &Element<F>| ByteRange::at(element.offset, u64::from(element.length));
        first.file.will_read(&group.iter().filter_map(range).collect::<Vec<_>>());
    }
}

/// The first element that is past the end of its file.
fn check_elements<F: OpenFile>(group: &[Element<F>]) -> Option<(&Arc<Handle<F>>, Failure)> {
    let past = |(handle, element): &&Element<F>| {
        element.offset.saturating_add(u64::from(element.length)) > handle.file.size()
    };
    group.iter().find(past).map(|(handle, element)| (handle, past_end(handle, element)))
}

fn past_end<F>(handle: &Handle<F>, element: &VectorElement) -> Failure {
    let end = element.offset.saturating_add(u64::from(element.length));
    Failure::invalid(format!("{}: vector read to {end} is past the end of the file", handle.path))
}

/// How many of `left` bytes from `offset` are in the same block, whose sums are kept together.
fn in_block(offset: u64, left: usize) -> usize {
    left.min(CHUNK_BYTES - (offset % CHUNK_BYTES as u64) as usize)
}

fn frame_header(stream: StreamId, count: usize, is_last: bool) -> [u8; ANSWER_HEADER_BYTES] {
    let code = if is_last { AnswerCode::Ok } else { AnswerCode::OkSoFar };
    AnswerHeader { stream, code, length: count as u32 }.encode()
}

/// Answers with a failure.
fn refuse<F: OpenFile>(out: &mut Sender<F>, stream: StreamId, handle: &Handle<F>, failure: &Failure) -> Step {
    tracing::debug!(path = %handle.path, %failure, "read failed");
    out.extend(&Answer::failure(failure).encode(stream));
    Step::Done
}

/// Reads until `buffer` is full or the file ends, by `method` if that reads at all.
fn read_range<F: OpenFile>(file: &F, offset: u64, buffer: &mut [u8], method: ReadMethod) -> Result<usize> {
    if method != ReadMethod::IoUring {
        return read_full(file, offset, buffer);
    }
    let (count, mut at) = (buffer.len(), offset);
    let mut pieces = Vec::with_capacity(count.div_ceil(RING_PIECE_BYTES));
    for piece in buffer.chunks_mut(RING_PIECE_BYTES) {
        let length = piece.len() as u64;
        pieces.push((at, piece));
        at += length;
    }
    file.read_many_at(&mut pieces)?;
    Ok(count)
}

/// Reads until `buffer` is full or the file ends.
fn read_full<F: OpenFile>(file: &F, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match file.read_at(offset + at as u64, &mut buffer[at..])? {
            0 => break,
            count => at += count,
        }
    }
    Ok(at)
}

/// Reads `count` bytes as pages with checksums into `buffer`, each page straight to its place.
fn read_pages<F: OpenFile>(file: &F, offset: u64, count: usize, buffer: &mut [u8]) -> Result<()> {
    let mut rooms = Vec::with_capacity(count / PAGE_BYTES + 2);
    let mut rest = &mut *buffer;
    for page in pages(offset, count) {
        let (_, after) = rest.split_at_mut(PAGE_CRC_BYTES);
        let (room, after) = after.split_at_mut(page.length);
        rooms.push(IoSliceMut::new(room));
        rest = after;
    }
    file.read_vectored_at(offset, &mut rooms)?;
    drop(rooms);
    sum_pages(offset, count, buffer);
    Ok(())
}
