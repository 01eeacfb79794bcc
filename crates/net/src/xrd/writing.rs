//! Writes under way: data are received, summed and written chunk by chunk (spec/xrootd.md §4.5, §6.2).

use super::{
    OpenFile,
    handles::Handle,
    inbox::Inbox,
    limits::{ARENA_BYTES_KEPT, CHUNK_BYTES},
    reading::Step,
    sender::Sender,
    transport::Transport,
};
use base::{Failure, Result};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, atomic::Ordering},
};
use wire::xrd::{
    Answer, BAD_PAGES_PER_WRITE_MAX, PAGE_BYTES, Page, RequestCode, Status, StatusKind, StreamId,
    decode_in_place, decoded_bytes, encode_bad_pages, encoded_bytes, pages,
};

/// Data that arrive for one place.
#[derive(Debug)]
pub(super) struct Part<F> {
    /// `None`: the data are thrown away.
    pub(super) handle: Option<Arc<Handle<F>>>,
    pub(super) offset: u64,
    /// Bytes on the wire that were not written yet.
    pub(super) left: usize,
}

/// The kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Plain bytes.
    Plain,
    /// Plain bytes that must be on stable storage before the answer.
    Synced,
    /// Pages with checksums; the write began at this offset.
    Pages(u64),
}

/// A write under way.
#[derive(Debug)]
pub(super) struct WriteTask<F> {
    stream: StreamId,
    form: Form,
    parts: VecDeque<Part<F>>,
    /// For the flush of a synced write.
    last: Option<Arc<Handle<F>>>,
    /// The failure; the rest of the data is discarded.
    refusal: Option<Answer>,
    bad: Vec<Page>,
    buffer: Vec<u8>,
    filled: usize,
}

impl<F: OpenFile> WriteTask<F> {
    pub(super) fn new(
        stream: StreamId,
        form: Form,
        parts: VecDeque<Part<F>>,
        refusal: Option<Answer>,
        buffer: Vec<u8>,
    ) -> Self {
        Self { stream, form, parts, last: None, refusal, bad: Vec::new(), buffer, filled: 0 }
    }

    /// The memory of the task, for the next one.
    pub(super) fn into_buffer(mut self) -> Vec<u8> {
        if self.buffer.len() > ARENA_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        self.buffer
    }

    /// Receives some data; writes them when a chunk is complete; answers at the end.
    pub(super) fn advance(
        &mut self,
        out: &mut Sender<F>,
        inbox: &mut Inbox,
        transport: &mut Transport,
    ) -> io::Result<Step> {
        let Some(part) = self.parts.front() else {
            self.answer(out);
            return Ok(Step::Done);
        };
        let wanted = chunk(part, self.form);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        if self.filled < wanted {
            let Some(count) = inbox.take(transport, &mut self.buffer[self.filled..wanted])? else {
                return Ok(Step::Starved);
            };
            self.filled += count;
        }
        if self.filled == wanted {
            if self.lacks_space(wanted) {
                return Ok(Step::Full);
            }
            self.filled = 0;
            self.write(wanted);
        }
        Ok(Step::More)
    }

    /// Whether the chunk of `bytes` that is in the buffer has to wait for free space.
    fn lacks_space(&self, bytes: usize) -> bool {
        self.refusal.is_none() && self.wanted_space(bytes).is_some_and(|(file, end)| file.lacks_space(end))
    }

    /// The file that the chunk of `bytes` goes to, and how long it becomes.
    fn wanted_space(&self, bytes: usize) -> Option<(&Arc<F>, u64)> {
        let part = self.parts.front()?;
        let length = match self.form {
            Form::Plain | Form::Synced => bytes,
            // What is malformed is refused when it is written.
            Form::Pages(_) => decoded_bytes(part.offset, bytes).ok()?,
        };
        Some((&part.handle.as_ref()?.file, part.offset.saturating_add(length as u64)))
    }

    /// Waits for free space for the chunk that is in the buffer. If there will be none, what follows is thrown away.
    pub(super) async fn wait_for_space(&mut self) {
        let Some((file, end)) = self.wanted_space(self.filled) else { return };
        if let Err(failure) = Arc::clone(file).wait_for_space(end).await {
            tracing::debug!(%failure, "write failed: no space");
            if let Some(handle) = self.parts.front().and_then(|part| part.handle.as_ref()) {
                handle.has_failed.store(true, Ordering::Release);
            }
            self.refusal = Some(Answer::failure(&failure));
        }
    }

    /// Writes the chunk of `bytes` that is in the buffer.
    fn write(&mut self, bytes: usize) {
        let Some(part) = self.parts.front_mut() else { return };
        let offset = part.offset;
        part.left -= bytes;
        if let (Some(handle), None) = (&part.handle, &self.refusal) {
            let data = &mut self.buffer[..bytes];
            let written = match self.form {
                Form::Plain | Form::Synced => handle.file.write_at(offset, data).map(|()| bytes),
                Form::Pages(_) => handle.write_pages(offset, data, &mut self.bad),
            };
            match written {
                Ok(count) => part.offset += count as u64,
                Err(failure) => {
                    tracing::debug!(path = %handle.path, %failure, "write failed");
                    handle.has_failed.store(true, Ordering::Release);
                    self.refusal = Some(Answer::failure(&failure));
                }
            }
        }
        if part.left == 0 {
            let handle = self.parts.pop_front().and_then(|part| part.handle);
            self.finish_part(handle);
        }
    }

    /// A synced write flushes each file when the next one follows.
    fn finish_part(&mut self, handle: Option<Arc<Handle<F>>>) {
        let Some(handle) = handle else { return };
        if self.last.as_ref().is_some_and(|last| !Arc::ptr_eq(last, &handle)) {
            self.flush();
        }
        self.last = Some(handle);
    }

    fn flush(&mut self) {
        if let (Form::Synced, Some(handle), None) = (self.form, self.last.take(), &self.refusal)
            && let Err(failure) = handle.sync()
        {
            self.refusal = Some(Answer::failure(&failure));
        }
    }

    fn answer(&mut self, out: &mut Sender<F>) {
        self.flush();
        let answer = match (self.refusal.take(), self.form) {
            (Some(refusal), _) => refusal.encode(self.stream),
            (None, Form::Pages(offset)) => {
                let list = encode_bad_pages(&self.bad).unwrap_or_default();
                let (stream, data_bytes) = (self.stream, list.len() as u32);
                let (request, kind) = (RequestCode::Pgwrite, StatusKind::Final);
                let status = Status { stream, request, kind, data_bytes, offset };
                [status.encode().as_slice(), &list].concat()
            }
            (None, _) => Answer::Ok(Vec::new()).encode(self.stream),
        };
        out.extend(&answer);
    }
}

/// Bytes on the wire of the next chunk: pages are never cut.
fn chunk<F>(part: &Part<F>, form: Form) -> usize {
    match form {
        Form::Plain | Form::Synced => part.left.min(CHUNK_BYTES),
        Form::Pages(_) => {
            let bytes = CHUNK_BYTES - (part.offset % PAGE_BYTES as u64) as usize;
            part.left.min(encoded_bytes(part.offset, bytes))
        }
    }
}

impl<F: OpenFile> Handle<F> {
    /// Flushes. After a failure nobody knows which bytes are safe.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().inspect_err(|_| self.has_failed.store(true, Ordering::Release))
    }

    /// Checks pages and writes the good ones: a bad page is written once, when it is corrected. Yields the bytes of
    /// data.
    fn write_pages(&self, offset: u64, data: &mut [u8], list: &mut Vec<Page>) -> Result<usize> {
        let (length, bad) = decode_in_place(offset, data)?;
        let data = &data[..length];
        if bad.is_empty() {
            self.file.write_at(offset, data)?;
            // Only a file with bad pages needs the walk.
            if self.refuse_close().is_some() {
                pages(offset, length).for_each(|page| self.correct_page(page));
            }
            return Ok(length);
        }
        for page in pages(offset, length).filter(|page| !bad.contains(page)) {
            let at = (page.offset - offset) as usize;
            self.file.write_at(page.offset, &data[at..at + page.length])?;
            self.correct_page(page);
        }
        tracing::debug!(path = %self.path, count = bad.len(), "pages arrived with wrong checksums");
        list.extend(&bad);
        // Every one is remembered, even when there are too many.
        let refused = bad.iter().filter(|page| !self.add_bad_page(**page)).count();
        if refused > 0 || list.len() > BAD_PAGES_PER_WRITE_MAX {
            return Err(Failure::corrupt(format!("{}: too many pages with wrong checksums", self.path)));
        }
        Ok(length)
    }
}
