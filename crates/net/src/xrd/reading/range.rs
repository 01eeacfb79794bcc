//! One range: plain, or in pages with their checksums.

use super::{Frame, SendOptions, Step, frame_header, refuse, send_path};
use crate::xrd::{
    OpenFile, ReadMethod,
    handles::Handle,
    limits::{CHUNK_BYTES, FRAME_BYTES, PAGE_FRAME_BYTES, RING_PIECE_BYTES, SLICES_MAX},
    sender::Sender,
    session::End,
};
use base::{ByteRange, Crc32c, Failure, Result};
use std::{io::IoSliceMut, sync::Arc};
use wire::xrd::{
    ANSWER_HEADER_BYTES, PAGE_BYTES, PAGE_CRC_BYTES, RequestCode, STATUS_BYTES, Status, StatusKind, StreamId,
    VectorElement, encoded_bytes, page_count, pages, sum_pages,
};

/// The rest of a range.
#[derive(Debug)]
pub(in crate::xrd) struct Range<F> {
    pub(in crate::xrd) stream: StreamId,
    pub(in crate::xrd) handle: Arc<Handle<F>>,
    pub(in crate::xrd) offset: u64,
    pub(in crate::xrd) left: usize,
}

impl<F: OpenFile> Range<F> {
    /// Bytes of the range that the file has; may grow while it is written.
    fn available(&self) -> usize {
        let rest = self.handle.file.size().saturating_sub(self.offset);
        self.left.min(usize::try_from(rest).unwrap_or(usize::MAX))
    }

    /// A frame of a plain read.
    pub(super) fn frame(&mut self, out: &mut Sender<F>, options: SendOptions) -> Step {
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
    pub(super) fn pages(
        &mut self,
        out: &mut Sender<F>,
        frame: &mut Frame,
        options: SendOptions,
    ) -> Result<Step, End> {
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

pub(super) fn past_end<F>(handle: &Handle<F>, element: &VectorElement) -> Failure {
    let end = element.offset.saturating_add(u64::from(element.length));
    Failure::invalid(format!("{}: vector read to {end} is past the end of the file", handle.path))
}

/// How many of `left` bytes from `offset` are in the same block, whose sums are kept together.
fn in_block(offset: u64, left: usize) -> usize {
    left.min(CHUNK_BYTES - (offset % CHUNK_BYTES as u64) as usize)
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
