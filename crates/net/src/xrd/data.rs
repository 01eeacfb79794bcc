//! Requests that move data, as steps that a thread made for blocking calls runs in order.

use super::{OpenFile, handles::Handle, outbox::Buffer};
use base::{Failure, Result, limits::XRD_READ_SEGMENT_BYTES};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, atomic::Ordering};
use wire::xrd::{
    ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, BAD_PAGES_PER_WRITE_MAX, ErrorCode, Page,
    RequestCode, STATUS_BYTES, Status, StatusKind, StreamId, VECTOR_ELEMENT_BYTES, VectorElement,
    decode_in_place, encode_bad_pages, encode_in_place, encoded_bytes, pages,
};

/// Room that an answer without data needs, errors included.
const SMALL_ANSWER_BYTES: usize = 512;

/// One step. Its answer, if it gives one, goes to `stream`.
#[derive(Debug)]
pub(super) struct Step<F> {
    pub(super) stream: StreamId,
    pub(super) handle: Arc<Handle<F>>,
    pub(super) work: Work<F>,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Work<F> {
    /// Reads a segment; unless it is the last or comes to the end of the file, more follow.
    Read { offset: u64, length: usize, is_last: bool },
    /// The same with page checksums.
    Pgread { offset: u64, length: usize, is_last: bool },
    /// Reads some ranges of a vector.
    Readv { elements: Vec<(Arc<Handle<F>>, VectorElement)>, is_last: bool },
    /// Writes a segment.
    Write { offset: u64, data: Buffer, progress: Arc<WriteProgress>, finish: Finish },
    /// Writes a segment of pages with checksums.
    Pgwrite { offset: u64, data: Buffer, progress: Arc<WriteProgress>, finish: Finish },
    /// Attributes.
    Stat,
    /// Sets the size.
    Truncate(u64),
    /// Flushes.
    Sync,
}

/// What ends a write of several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// More segments follow.
    No,
    /// The answer of a write.
    Write,
    /// The answer of a page write that began at this offset.
    Pgwrite(u64),
    /// Flush, then the answer of a write.
    Sync,
}

/// What the segments of one write have in common.
#[derive(Debug, Default)]
pub(super) struct WriteProgress {
    /// Why it failed; later segments are not written then.
    failure: OnceLock<Answer>,
    bad: Mutex<Vec<Page>>,
}

impl<F: OpenFile> Step<F> {
    /// Bytes that this step holds or makes at most.
    pub(super) fn cost(&self) -> usize {
        match &self.work {
            Work::Read { length, .. } => ANSWER_HEADER_BYTES + length,
            Work::Pgread { offset, length, .. } => STATUS_BYTES + encoded_bytes(*offset, *length),
            Work::Readv { elements, .. } => ANSWER_HEADER_BYTES + vector_bytes(elements),
            Work::Write { data, .. } | Work::Pgwrite { data, .. } => data.len(),
            Work::Stat | Work::Truncate(_) | Work::Sync => 0,
        }
        .max(SMALL_ANSWER_BYTES)
    }

    /// Bytes of answers that this step makes at most.
    pub(super) fn answer_bytes(&self) -> usize {
        match &self.work {
            Work::Write { .. } => SMALL_ANSWER_BYTES,
            // Every bad page takes 8 bytes of the list.
            Work::Pgwrite { .. } => SMALL_ANSWER_BYTES + 8 * BAD_PAGES_PER_WRITE_MAX,
            _ => self.cost(),
        }
    }

    /// Runs the step and adds its answer to `out`. Returns whether the request is answered completely.
    ///
    /// `recycle` gets the memory of data that were written.
    pub(super) fn run(self, out: &mut Buffer, recycle: impl Fn(Buffer)) -> bool {
        let start = out.len();
        let stream = self.stream;
        let outcome = match self.work {
            Work::Read { offset, length, is_last } => {
                self.handle.read(out, stream, (offset, length), is_last)
            }
            Work::Pgread { offset, length, is_last } => {
                self.handle.pgread(out, stream, (offset, length), is_last)
            }
            Work::Readv { elements, is_last } => readv(out, stream, &elements, is_last),
            Work::Write { offset, data, progress, finish } => {
                progress.unless_failed(&self.handle, || self.handle.file.write_at(offset, data.get()));
                recycle(data);
                return self.handle.finish(out, stream, &progress, finish);
            }
            Work::Pgwrite { offset, mut data, progress, finish } => {
                progress
                    .unless_failed(&self.handle, || self.handle.pgwrite(offset, data.get_mut(), &progress));
                recycle(data);
                return self.handle.finish(out, stream, &progress, finish);
            }
            Work::Stat => self.handle.file.stat().map(|stat| {
                let text = format!("{stat}\0");
                out.extend(&Answer::Ok(text.into_bytes()).encode(stream));
                true
            }),
            Work::Truncate(size) => self.handle.file.truncate(size).map(|()| empty(out, stream)),
            Work::Sync => self.handle.file.sync().map(|()| empty(out, stream)).inspect_err(|_| {
                // After a failed flush nobody knows which bytes are safe.
                self.handle.has_failed.store(true, Ordering::Release);
            }),
        };
        outcome.unwrap_or_else(|failure| {
            out.cut(start);
            tracing::debug!(path = %self.handle.path, %failure, "data request failed");
            out.extend(&Answer::failure(&failure).encode(stream));
            true
        })
    }
}

fn empty(out: &mut Buffer, stream: StreamId) -> bool {
    out.extend(&AnswerHeader { stream, code: AnswerCode::Ok, length: 0 }.encode());
    true
}

/// Bytes that the answer to some elements takes.
pub(super) fn vector_bytes<F>(elements: &[(Arc<Handle<F>>, VectorElement)]) -> usize {
    elements.iter().map(|(_, element)| VECTOR_ELEMENT_BYTES + element.length as usize).sum()
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

impl<F: OpenFile> Handle<F> {
    fn read(&self, out: &mut Buffer, stream: StreamId, range: (u64, usize), is_last: bool) -> Result<bool> {
        let (offset, length) = range;
        let start = out.len();
        let room = out.grow(ANSWER_HEADER_BYTES + length);
        let count = read_full(&*self.file, offset, &mut room[ANSWER_HEADER_BYTES..])?;
        let is_final = is_last || count < length;
        let code = if is_final { AnswerCode::Ok } else { AnswerCode::OkSoFar };
        let header = AnswerHeader { stream, code, length: count as u32 };
        room[..ANSWER_HEADER_BYTES].copy_from_slice(&header.encode());
        out.cut(start + ANSWER_HEADER_BYTES + count);
        Ok(is_final)
    }

    fn pgread(&self, out: &mut Buffer, stream: StreamId, range: (u64, usize), is_last: bool) -> Result<bool> {
        let (offset, length) = range;
        let start = out.len();
        // The data go to the end of their room, so that the checksums fit in between without another buffer.
        let checksums = encoded_bytes(offset, length) - length;
        let room = out.grow(STATUS_BYTES + checksums + length);
        let count = read_full(&*self.file, offset, &mut room[STATUS_BYTES + checksums..])?;
        let encoded = encoded_bytes(offset, count);
        if count < length {
            let from = STATUS_BYTES + checksums;
            room.copy_within(from..from + count, STATUS_BYTES + encoded - count);
        }
        encode_in_place(offset, count, &mut room[STATUS_BYTES..STATUS_BYTES + encoded]);
        let is_final = is_last || count < length;
        let kind = if is_final { StatusKind::Final } else { StatusKind::Partial };
        let status =
            Status { stream, request: RequestCode::Pgread, kind, data_bytes: encoded as u32, offset };
        room[..STATUS_BYTES].copy_from_slice(&status.encode());
        out.cut(start + STATUS_BYTES + encoded);
        Ok(is_final)
    }

    /// Checks pages and writes the good ones: a bad page is written once, when it is corrected.
    fn pgwrite(&self, offset: u64, data: &mut [u8], progress: &WriteProgress) -> Result<()> {
        let (length, bad) = decode_in_place(offset, data)?;
        let data = &data[..length];
        if bad.is_empty() {
            self.file.write_at(offset, data)?;
            // Only a file with bad pages needs the walk.
            if self.refuse_close().is_some() {
                pages(offset, length).for_each(|page| self.correct_page(page));
            }
            return Ok(());
        }
        for page in pages(offset, length).filter(|page| !bad.contains(page)) {
            let at = (page.offset - offset) as usize;
            self.file.write_at(page.offset, &data[at..at + page.length])?;
            self.correct_page(page);
        }
        tracing::debug!(path = %self.path, count = bad.len(), "pages arrived with wrong checksums");
        let mut list = progress.bad.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(&bad);
        // Every one is remembered, even when there are too many.
        let refused = bad.iter().filter(|page| !self.add_bad_page(**page)).count();
        if refused > 0 || list.len() > BAD_PAGES_PER_WRITE_MAX {
            return Err(Failure::corrupt(format!("{}: too many pages with wrong checksums", self.path)));
        }
        Ok(())
    }

    /// Ends a write: answers if this was the last segment.
    fn finish(&self, out: &mut Buffer, stream: StreamId, progress: &WriteProgress, finish: Finish) -> bool {
        if finish == Finish::Sync {
            progress.unless_failed(self, || self.file.sync());
        }
        let answer = match (progress.failure.get(), finish) {
            (_, Finish::No) => return false,
            (Some(failure), _) => failure.encode(stream),
            (None, Finish::Pgwrite(offset)) => {
                let bad = progress.bad.lock().unwrap_or_else(PoisonError::into_inner);
                let list = encode_bad_pages(&bad).unwrap_or_default();
                let (request, kind) = (RequestCode::Pgwrite, StatusKind::Final);
                let status = Status { stream, request, kind, data_bytes: list.len() as u32, offset };
                [status.encode().as_slice(), &list].concat()
            }
            (None, _) => Answer::Ok(Vec::new()).encode(stream),
        };
        out.extend(&answer);
        true
    }
}

impl WriteProgress {
    /// A write that has failed before its data came: they are thrown away.
    pub(super) fn failed(answer: Answer) -> Self {
        let progress = Self::default();
        let _ = progress.failure.set(answer);
        progress
    }

    fn unless_failed<F: OpenFile>(&self, handle: &Handle<F>, work: impl FnOnce() -> Result<()>) {
        if self.failure.get().is_some() {
            return;
        }
        if let Err(failure) = work() {
            tracing::debug!(path = %handle.path, %failure, "write failed");
            handle.has_failed.store(true, Ordering::Release);
            let _ = self.failure.set(Answer::failure(&failure));
        }
    }
}

/// Reads ranges one after the other. Past the end of the file is an error; the handle stays good.
fn readv<F: OpenFile>(
    out: &mut Buffer,
    stream: StreamId,
    elements: &[(Arc<Handle<F>>, VectorElement)],
    is_last: bool,
) -> Result<bool> {
    let start = out.len();
    out.grow(ANSWER_HEADER_BYTES);
    for (handle, element) in elements {
        out.extend(&element.encode());
        let length = element.length as usize;
        let count = read_full(&*handle.file, element.offset, out.grow(length))?;
        if count < length {
            return Err(past_end(handle, element));
        }
    }
    let code = if is_last { AnswerCode::Ok } else { AnswerCode::OkSoFar };
    let length = (out.len() - start - ANSWER_HEADER_BYTES) as u32;
    let header = AnswerHeader { stream, code, length };
    out.get_mut()[start..start + ANSWER_HEADER_BYTES].copy_from_slice(&header.encode());
    Ok(is_last)
}

pub(super) fn past_end<F>(handle: &Handle<F>, element: &VectorElement) -> Failure {
    let end = element.offset.saturating_add(u64::from(element.length));
    Failure::invalid(format!("{}: vector read to {end} is past the end of the file", handle.path))
}

/// Cuts a vector into groups whose answers fit a segment; an element is never cut.
pub(super) fn vector_groups<F>(
    elements: Vec<(Arc<Handle<F>>, VectorElement)>,
) -> Vec<Vec<(Arc<Handle<F>>, VectorElement)>> {
    let mut groups: Vec<Vec<_>> = vec![Vec::new()];
    let mut bytes = 0;
    for element in elements {
        let more = VECTOR_ELEMENT_BYTES + element.1.length as usize;
        if bytes > 0 && bytes + more > XRD_READ_SEGMENT_BYTES {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(group) = groups.last_mut() {
            group.push(element);
        }
    }
    groups
}

/// Refusal of a data request on a file that is open for reading only.
pub(super) fn read_only<F>(handle: &Handle<F>) -> Answer {
    Answer::error(ErrorCode::InvalidRequest, format!("{} is open for reading only", handle.path))
}
