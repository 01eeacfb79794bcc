//! Reads and writes of a session, cut into segments (spec/xrootd.md §4.4, §4.5, §6).

use super::{
    Service,
    data::{Finish, Step, Work, WriteProgress, past_end, read_only, vector_groups},
    frames::refusal,
    handles::Handle,
    limits::RECEIVE_PROGRESS,
    outbox::Buffer,
    session::{End, Session},
};
use base::limits::{XRD_READ_BYTES_MAX, XRD_READ_SEGMENT_BYTES};
use std::sync::Arc;
use wire::xrd::{
    Answer, ErrorCode, FileHandle, PAGE_BYTES, PAGE_CRC_BYTES, Pgread, Pgwrite, Read, StreamId,
    VectorElement, Write, Writev, decoded_bytes, encoded_bytes,
};

impl<S: Service> Session<S> {
    /// The open file of a data request.
    fn handle(&self, handle: FileHandle, for_writing: bool) -> Result<Arc<Handle<S::File>>, Answer> {
        let handle = self.context.handles.get(handle)?;
        if for_writing && !handle.is_writable { Err(read_only(&handle)) } else { Ok(handle) }
    }

    /// Adds a step without data of its own.
    pub(super) async fn step(
        &mut self,
        stream: StreamId,
        handle: FileHandle,
        for_writing: bool,
        work: Work<S::File>,
    ) -> Result<(), End> {
        match self.handle(handle, for_writing) {
            Ok(handle) => Ok(self.lane.add(Step { stream, handle, work }).await?),
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    /// The open file of a read, if its range makes sense.
    fn readable(
        &self,
        handle: FileHandle,
        range: (u64, u32),
        path_id: u8,
    ) -> Result<Arc<Handle<S::File>>, Answer> {
        let refuse = |why: &str| Err(Answer::error(ErrorCode::ArgInvalid, why));
        if path_id != 0 {
            return refuse("no such stream");
        }
        if range.1 as usize > XRD_READ_BYTES_MAX {
            return refuse("read is longer than 1 GiB");
        }
        if range.0.checked_add(u64::from(range.1)).is_none_or(|end| end > i64::MAX as u64) {
            return refuse("read ends beyond the largest offset");
        }
        self.handle(handle, false)
    }

    pub(super) async fn read(&mut self, stream: StreamId, read: Read) -> Result<(), End> {
        match self.readable(read.handle, (read.offset, read.length), read.path_id) {
            Ok(handle) => {
                let work = |offset, length, is_last| Work::Read { offset, length, is_last };
                self.read_segments(stream, handle, (read.offset, read.length as usize), work).await
            }
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    pub(super) async fn pgread(&mut self, stream: StreamId, read: Pgread) -> Result<(), End> {
        let handle = self.readable(read.handle, (read.offset, read.length), read.path_id);
        match handle {
            Ok(_) if read.length == 0 => {
                self.answer(stream, Answer::error(ErrorCode::ArgInvalid, "page read of no bytes")).await
            }
            Ok(handle) => {
                let work = |offset, length, is_last| Work::Pgread { offset, length, is_last };
                self.read_segments(stream, handle, (read.offset, read.length as usize), work).await
            }
            Err(answer) => self.answer(stream, answer).await,
        }
    }

    /// Reads a range: in one step, or segment by segment until the file ends.
    async fn read_segments(
        &mut self,
        stream: StreamId,
        handle: Arc<Handle<S::File>>,
        range: (u64, usize),
        work: impl Fn(u64, usize, bool) -> Work<S::File>,
    ) -> Result<(), End> {
        let (mut offset, mut left) = range;
        loop {
            // Segments end at page boundaries, so that only the ends of the range have short pages.
            let segment = XRD_READ_SEGMENT_BYTES - (offset % PAGE_BYTES as u64) as usize;
            let length = left.min(segment);
            left -= length;
            let step = Step { stream, handle: Arc::clone(&handle), work: work(offset, length, left == 0) };
            self.lane.add(step).await?;
            if left == 0 {
                return Ok(());
            }
            if self.lane.drain().await? {
                return Ok(());
            }
            offset += length as u64;
        }
    }

    pub(super) async fn readv(&mut self, stream: StreamId, elements: Vec<VectorElement>) -> Result<(), End> {
        let found: Result<Vec<_>, _> = elements
            .into_iter()
            .map(|element| {
                let handle = self.readable(element.handle, (element.offset, element.length), 0)?;
                if element.offset + u64::from(element.length) > handle.file_size() {
                    return Err(Answer::failure(&past_end(&handle, &element)));
                }
                Ok((handle, element))
            })
            .collect();
        let elements = match found {
            Ok(elements) => elements,
            Err(answer) => return self.answer(stream, answer).await,
        };
        let mut groups = vector_groups(elements).into_iter().peekable();
        while let Some(elements) = groups.next() {
            let Some(handle) = elements.first().map(|first| Arc::clone(&first.0)) else {
                break;
            };
            let is_last = groups.peek().is_none();
            self.lane.add(Step { stream, handle, work: Work::Readv { elements, is_last } }).await?;
            // A failed group ends the request.
            if !is_last && self.lane.drain().await? {
                break;
            }
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, stream: StreamId, write: Write) -> Result<(), End> {
        let target = self.writable(write.handle, write.offset, write.length);
        let (progress, length) = (Arc::new(progress_of(&target)), write.length as usize);
        self.write_segments(stream, target, (write.offset, length), &progress, Finish::Write).await
    }

    pub(super) async fn writev(&mut self, stream: StreamId, request: Writev) -> Result<(), End> {
        let finish = if request.is_sync { Finish::Sync } else { Finish::Write };
        let count = request.elements.len();
        // One target decides for all: the data of every element follow, whether they are wanted or not.
        let targets = request.elements.iter().map(|e| self.writable(e.handle, e.offset, e.length));
        let targets: Vec<_> = targets.collect();
        let refused = targets.iter().find_map(|target| target.as_ref().err().cloned());
        let progress = Arc::new(refused.clone().map_or_else(WriteProgress::default, WriteProgress::failed));
        for (index, (element, target)) in request.elements.iter().zip(targets).enumerate() {
            let target = refused.clone().map_or(target, Err);
            let finish = if index + 1 == count { finish } else { Finish::No };
            let range = (element.offset, element.length as usize);
            self.write_segments(stream, target, range, &progress, finish).await?;
        }
        Ok(())
    }

    /// The open file of a write, if its range makes sense.
    fn writable(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Arc<Handle<S::File>>, Answer> {
        if offset.checked_add(u64::from(length)).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Answer::error(ErrorCode::ArgInvalid, "write ends beyond the largest offset"));
        }
        self.handle(handle, true)
    }

    /// Receives the data of a write and adds them segment by segment; data of a refused write are thrown away.
    async fn write_segments(
        &mut self,
        stream: StreamId,
        target: Result<Arc<Handle<S::File>>, Answer>,
        range: (u64, usize),
        progress: &Arc<WriteProgress>,
        finish: Finish,
    ) -> Result<(), End> {
        let (mut offset, mut left) = range;
        let handle = match target {
            Ok(handle) => handle,
            Err(answer) => {
                self.inbox.skip(left, RECEIVE_PROGRESS).await?;
                return if finish == Finish::No { Ok(()) } else { self.answer(stream, answer).await };
            }
        };
        loop {
            let length = left.min(XRD_READ_SEGMENT_BYTES);
            let data = self.receive_data(length).await?;
            left -= length;
            let finish = if left == 0 { finish } else { Finish::No };
            let work = Work::Write { offset, data, progress: Arc::clone(progress), finish };
            self.lane.add(Step { stream, handle: Arc::clone(&handle), work }).await?;
            if left == 0 {
                return Ok(());
            }
            // The segment is written while the next one is received.
            self.lane.flush().await?;
            offset += length as u64;
        }
    }

    pub(super) async fn pgwrite(&mut self, stream: StreamId, write: Pgwrite) -> Result<(), End> {
        let (start, encoded) = (write.offset, write.length as usize);
        let shape = decoded_bytes(start, encoded).map_err(|malformed| refusal(&malformed));
        let is_one_page = encoded <= PAGE_BYTES - (start % PAGE_BYTES as u64) as usize + PAGE_CRC_BYTES;
        let shape = shape.and_then(|length| {
            if write.is_retry && !is_one_page {
                return Err(Answer::error(ErrorCode::ArgInvalid, "a corrected page must come alone"));
            }
            Ok(length)
        });
        let target = shape.and_then(|length| self.writable(write.handle, start, length as u32));
        let handle = match target {
            Ok(handle) => handle,
            Err(answer) => {
                self.inbox.skip(encoded, RECEIVE_PROGRESS).await?;
                return self.answer(stream, answer).await;
            }
        };
        let progress = Arc::new(WriteProgress::default());
        let (mut offset, mut left) = (start, encoded);
        loop {
            let bytes = XRD_READ_SEGMENT_BYTES - (offset % PAGE_BYTES as u64) as usize;
            let length = left.min(encoded_bytes(offset, bytes));
            let data = self.receive_data(length).await?;
            left -= length;
            let finish = if left == 0 { Finish::Pgwrite(start) } else { Finish::No };
            let work = Work::Pgwrite { offset, data, progress: Arc::clone(&progress), finish };
            self.lane.add(Step { stream, handle: Arc::clone(&handle), work }).await?;
            if left == 0 {
                return Ok(());
            }
            self.lane.flush().await?;
            offset += bytes as u64;
        }
    }

    async fn receive_data(&mut self, length: usize) -> Result<Buffer, End> {
        if self.inbox.ready().len() < length {
            // What was asked before runs while these data arrive.
            self.lane.flush().await?;
        }
        let mut data = self.context.outbox.buffer();
        self.inbox.take(data.grow(length), RECEIVE_PROGRESS).await?;
        Ok(data)
    }
}

/// The state of a write whose target may have been refused.
fn progress_of<F>(target: &Result<Arc<Handle<F>>, Answer>) -> WriteProgress {
    target.as_ref().err().cloned().map_or_else(WriteProgress::default, WriteProgress::failed)
}
