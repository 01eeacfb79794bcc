//! Data requests: checked, then begun (spec/xrootd.md §4.4, §4.5, §6).

use super::{
    OpenFile, Service,
    calls::Context,
    frames::refusal,
    handles::Handle,
    reading::{Frame, Range, ReadTask},
    service_turn::{Session, Task},
    writing::{Form, Part, WriteTask},
};
use base::{Result as BaseResult, limits::XRD_READ_BYTES_MAX};
use std::{collections::VecDeque, sync::Arc};
use wire::xrd::{
    Answer, ErrorCode, Expectation, FileHandle, PAGE_BYTES, PAGE_CRC_BYTES, Pgread, Pgwrite, Query,
    RangeQuery, Read, Readv, StreamId, Write, Writev, decoded_bytes, found_to_text,
};

/// The open file of a data request.
fn open_file<S: Service>(
    context: &Context<S>,
    handle: FileHandle,
    for_writing: bool,
) -> Result<Arc<Handle<S::File>>, Answer> {
    let handle = context.handles.get(handle)?;
    if for_writing && !handle.is_writable {
        let message = format!("{} is open for reading only", handle.path);
        return Err(Answer::error(ErrorCode::InvalidRequest, message));
    }
    Ok(handle)
}

/// The open file of a read, if its range makes sense.
fn readable<S: Service>(
    context: &Context<S>,
    handle: FileHandle,
    range: (u64, u32),
) -> Result<Arc<Handle<S::File>>, Answer> {
    let refuse = |why: &str| Err(Answer::error(ErrorCode::ArgInvalid, why));
    if range.1 as usize > XRD_READ_BYTES_MAX {
        return refuse("read is longer than 1 GiB");
    }
    if range.0.checked_add(u64::from(range.1)).is_none_or(|end| end > i64::MAX as u64) {
        return refuse("read ends beyond the largest offset");
    }
    open_file(context, handle, false)
}

/// The open file of a write, if its range makes sense.
fn writable<S: Service>(
    context: &Context<S>,
    handle: FileHandle,
    offset: u64,
    length: u32,
) -> Result<Arc<Handle<S::File>>, Answer> {
    if offset.checked_add(u64::from(length)).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Answer::error(ErrorCode::ArgInvalid, "write ends beyond the largest offset"));
    }
    open_file(context, handle, true)
}

impl<S: Service> Context<S> {
    /// Does something short with an open file.
    pub(super) fn on_file(
        &self,
        handle: FileHandle,
        for_writing: bool,
        work: impl FnOnce(&Handle<S::File>) -> BaseResult<Vec<u8>>,
    ) -> Answer {
        match open_file(self, handle, for_writing) {
            Ok(handle) => work(&handle).map_or_else(|failure| Answer::failure(&failure), Answer::Ok),
            Err(answer) => answer,
        }
    }

    /// Implementation-defined requests on an open file, in the order of the writes that they are about.
    pub(super) fn query_file(&self, query: &Query) -> Answer {
        match Expectation::parse(&query.args) {
            Ok(Some(expected)) => {
                self.on_file(query.handle, true, |handle| handle.file.expect(expected).map(|()| Vec::new()))
            }
            Ok(None) => match RangeQuery::parse(&query.args) {
                Ok(Some(asked)) => self.query_range(query.handle, asked),
                Ok(None) => self.on_file(query.handle, false, |handle| handle.file.control(&query.args)),
                Err(malformed) => refusal(&malformed),
            },
            Err(malformed) => refusal(&malformed),
        }
    }

    fn query_range(&self, handle: FileHandle, asked: RangeQuery) -> Answer {
        let done = |()| Vec::new();
        match asked {
            RangeQuery::Change(change, range) => {
                self.on_file(handle, true, |handle| handle.file.change_range(range, change).map(done))
            }
            RangeQuery::Find(kind, offset) => self.on_file(handle, false, |handle| {
                handle.file.find(kind, offset).map(|found| found_to_text(found).into_bytes())
            }),
            RangeQuery::Fence => self.on_file(handle, true, |handle| {
                handle.file.fence().map(|start| found_to_text(Some(start)).into_bytes())
            }),
            RangeQuery::Copy { source, from, to } => match open_file(self, source, false) {
                Ok(source) => self
                    .on_file(handle, true, |handle| handle.file.copy_range(&source.file, from, to).map(done)),
                Err(answer) => answer,
            },
        }
    }
}

impl<S: Service> Session<S> {
    /// Begins a read, here or on a further connection of the session.
    fn begin_read(
        &mut self,
        context: &Context<S>,
        stream: StreamId,
        path_id: u8,
        read: Result<ReadTask<S::File>, Answer>,
    ) {
        let read = match read {
            Ok(read) => read,
            Err(answer) => return self.answer(stream, &answer),
        };
        if path_id == 0 {
            self.task = Some(Task::Read(read));
            return;
        }
        match context.streams.get(path_id) {
            // Where too much waits already it is answered here: clients take answers on any connection.
            Some(connection) => self.task = connection.order(read).err().map(Task::Read),
            None => self.answer(stream, &Answer::error(ErrorCode::ArgInvalid, "no such stream")),
        }
    }

    pub(super) fn read(&mut self, context: &Context<S>, stream: StreamId, read: &Read) {
        let handle = readable(context, read.handle, (read.offset, read.length));
        let task = handle.map(|handle| {
            ReadTask::Plain(Range { stream, handle, offset: read.offset, left: read.length as usize })
        });
        self.begin_read(context, stream, read.path_id, task);
    }

    pub(super) fn read_pages(&mut self, context: &Context<S>, stream: StreamId, read: &Pgread) {
        let handle = match readable(context, read.handle, (read.offset, read.length)) {
            Ok(_) if read.length == 0 => Err(Answer::error(ErrorCode::ArgInvalid, "page read of no bytes")),
            handle => handle,
        };
        let task = handle.map(|handle| {
            let range = Range { stream, handle, offset: read.offset, left: read.length as usize };
            ReadTask::Pages(range, Frame::default())
        });
        self.begin_read(context, stream, read.path_id, task);
    }

    pub(super) fn read_vector(&mut self, context: &Context<S>, stream: StreamId, request: Readv) {
        let path_id = request.path_id;
        let found = request.elements.into_iter().map(|element| {
            let handle = readable(context, element.handle, (element.offset, element.length))?;
            Ok((handle, element))
        });
        let elements: Result<Vec<_>, Answer> = found.collect();
        let task = elements.map(|elements| {
            let waits_for_peers = elements.iter().any(|(handle, _)| handle.file.waits_for_peers());
            ReadTask::Vector { stream, elements: elements.into_iter().peekable(), waits_for_peers }
        });
        self.begin_read(context, stream, path_id, task);
    }

    fn begin_write(
        &mut self,
        stream: StreamId,
        form: Form,
        parts: VecDeque<Part<S::File>>,
        refusal: Option<Answer>,
    ) {
        let buffer = std::mem::take(&mut self.spare);
        self.task = Some(Task::Write(WriteTask::new(stream, form, parts, refusal, buffer)));
    }

    pub(super) fn write(&mut self, context: &Context<S>, stream: StreamId, write: &Write) {
        match writable(context, write.handle, write.offset, write.length) {
            Ok(handle) => {
                let part = Part { handle: Some(handle), offset: write.offset, left: write.length as usize };
                self.begin_write(stream, Form::Plain, VecDeque::from([part]), None);
            }
            Err(answer) => self.throw_away(stream, write.length as usize, answer),
        }
    }

    /// One refusal decides for all: the data of every element follow, whether they are wanted or not.
    pub(super) fn write_vector(&mut self, context: &Context<S>, stream: StreamId, request: &Writev) {
        let mut refusal = None;
        let mut parts = VecDeque::with_capacity(request.elements.len());
        for element in &request.elements {
            let handle = match writable(context, element.handle, element.offset, element.length) {
                Ok(handle) => Some(handle),
                Err(answer) => {
                    refusal.get_or_insert(answer);
                    None
                }
            };
            if element.length > 0 {
                parts.push_back(Part { handle, offset: element.offset, left: element.length as usize });
            }
        }
        let form = if request.is_sync { Form::Synced } else { Form::Plain };
        self.begin_write(stream, form, parts, refusal);
    }

    pub(super) fn write_pages(&mut self, context: &Context<S>, stream: StreamId, write: &Pgwrite) {
        let (start, encoded) = (write.offset, write.length as usize);
        let shape = decoded_bytes(start, encoded).map_err(|malformed| refusal(&malformed));
        let is_one_page = encoded <= PAGE_BYTES - (start % PAGE_BYTES as u64) as usize + PAGE_CRC_BYTES;
        let shape = shape.and_then(|length| {
            if write.is_retry && !is_one_page {
                return Err(Answer::error(ErrorCode::ArgInvalid, "a corrected page must come alone"));
            }
            Ok(length)
        });
        match shape.and_then(|length| writable(context, write.handle, start, length as u32)) {
            Ok(handle) => {
                let part = Part { handle: Some(handle), offset: start, left: encoded };
                self.begin_write(stream, Form::Pages(start), VecDeque::from([part]), None);
            }
            Err(answer) => self.throw_away(stream, encoded, answer),
        }
    }
}
