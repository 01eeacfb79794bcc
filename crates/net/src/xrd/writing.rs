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
    io, mem,
    sync::{Arc, atomic::Ordering},
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    task::spawn_blocking,
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

/// What the data are.
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
    /// Why it failed; what follows is thrown away.
    refusal: Option<Answer>,
    bad: Vec<Page>,
    buffers: Buffers,
    filled: usize,
    /// The right to have a helper write one chunk while the next is received.
    helper: Option<OwnedSemaphorePermit>,
    /// The chunk that the helper writes.
    behind: Option<oneshot::Receiver<Written>>,
}

/// Memory for the chunk that is received, and for the one that is written meanwhile.
pub(super) type Buffers = [Vec<u8>; 2];

/// A chunk that a helper has written.
#[derive(Debug)]
struct Written {
    buffer: Vec<u8>,
    bad: Vec<Page>,
    outcome: Result<()>,
}

impl<F: OpenFile> WriteTask<F> {
    pub(super) fn new(
        stream: StreamId,
        form: Form,
        parts: VecDeque<Part<F>>,
        refusal: Option<Answer>,
        buffers: Buffers,
        helper: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let (last, bad, behind) = (None, Vec::new(), None);
        Self { stream, form, parts, last, refusal, bad, buffers, filled: 0, helper, behind }
    }

    /// The memory of the task, for the next one.
    pub(super) fn into_buffers(self) -> Buffers {
        self.buffers.map(|buffer| if buffer.len() > ARENA_BYTES_KEPT { Vec::new() } else { buffer })
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
        let buffer = &mut self.buffers[0];
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        if self.filled < wanted {
            let Some(count) = inbox.take(transport, &mut buffer[self.filled..wanted])? else {
                return Ok(Step::Starved);
            };
            self.filled += count;
        }
        if self.filled == wanted {
            self.filled = 0;
            self.write(wanted);
        }
        Ok(Step::More)
    }

    /// Writes the chunk of `bytes` that is in the buffer, here or, if more follow, behind our back.
    fn write(&mut self, bytes: usize) {
        let is_last = self.parts.len() == 1;
        let Some(part) = self.parts.front_mut() else { return };
        let offset = part.offset;
        part.left -= bytes;
        part.offset += match self.form {
            Form::Plain | Form::Synced => bytes,
            // The shape of the whole was checked before the first chunk was received.
            Form::Pages(_) => decoded_bytes(offset, bytes).unwrap_or(bytes),
        } as u64;
        let is_last = is_last && part.left == 0;
        let handle = part.handle.clone();
        if part.left == 0 {
            self.parts.pop_front();
        }
        self.join();
        let Some(handle) = handle else { return };
        if self.refusal.is_none() {
            let chunk = (Arc::clone(&handle), offset, bytes);
            if self.helper.is_some() && !is_last { self.write_behind(chunk) } else { self.write_here(chunk) }
        }
        self.last = Some(handle);
    }

    fn write_here(&mut self, (handle, offset, bytes): (Arc<Handle<F>>, u64, usize)) {
        let data = &mut self.buffers[0][..bytes];
        let outcome = handle.write(self.form, offset, data, &mut self.bad);
        self.settle(outcome);
    }

    /// Has the chunk written while the next is received. A hand-over is worth its costs where few sessions write.
    fn write_behind(&mut self, (handle, offset, bytes): (Arc<Handle<F>>, u64, usize)) {
        let [ours, theirs] = &mut self.buffers;
        let mut buffer = mem::replace(ours, mem::take(theirs));
        let (form, mut bad) = (self.form, mem::take(&mut self.bad));
        let (done, behind) = oneshot::channel();
        self.behind = Some(behind);
        spawn_blocking(move || {
            let outcome = handle.write(form, offset, &mut buffer[..bytes], &mut bad);
            // A session that ended meanwhile asks no more.
            let _ = done.send(Written { buffer, bad, outcome });
        });
    }

    /// Waits for what is being written.
    fn join(&mut self) {
        let Some(behind) = self.behind.take() else { return };
        let outcome = match behind.blocking_recv() {
            Ok(Written { buffer, bad, outcome }) => {
                self.buffers[1] = buffer;
                self.bad = bad;
                outcome
            }
            Err(_) => Err(Failure::unavailable("the server stops")),
        };
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Result<()>) {
        if let Err(failure) = outcome {
            self.refusal.get_or_insert(Answer::failure(&failure));
        }
    }

    fn answer(&mut self, out: &mut Sender<F>) {
        if let (Form::Synced, Some(handle), None) = (self.form, &self.last, &self.refusal)
            && let Err(failure) = handle.sync()
        {
            self.refusal = Some(Answer::failure(&failure));
        }
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
    /// Writes a chunk as it came, which may be changed.
    fn write(&self, form: Form, offset: u64, data: &mut [u8], bad: &mut Vec<Page>) -> Result<()> {
        let written = match form {
            Form::Plain | Form::Synced => self.file.write_at(offset, data),
            Form::Pages(_) => self.write_pages(offset, data, bad),
        };
        written.inspect_err(|failure| {
            tracing::debug!(path = %self.path, %failure, "write failed");
            self.has_failed.store(true, Ordering::Release);
        })
    }

    /// Flushes. After a failure nobody knows which bytes are safe.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().inspect_err(|_| self.has_failed.store(true, Ordering::Release))
    }

    /// Checks pages and writes the good ones: a bad page is written once, when it is corrected.
    fn write_pages(&self, offset: u64, data: &mut [u8], list: &mut Vec<Page>) -> Result<()> {
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
        list.extend(&bad);
        // Every one is remembered, even when there are too many.
        let refused = bad.iter().filter(|page| !self.add_bad_page(**page)).count();
        if refused > 0 || list.len() > BAD_PAGES_PER_WRITE_MAX {
            return Err(Failure::corrupt(format!("{}: too many pages with wrong checksums", self.path)));
        }
        Ok(())
    }
}
