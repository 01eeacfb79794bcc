//! Reads under way: each step adds one frame, or one chunk of a frame, to what is sent (spec/xrootd.md §4.4 to §4.6, §6).

mod range;
mod vector;

use super::{OpenFile, ReadMethod, handles::Handle, limits::MAPPED_BYTES_MAX, sender::Sender, session::End};
use base::{Failure, Result};
pub(super) use range::Range;
use range::past_end;
use std::{iter::Peekable, sync::Arc, vec};
pub(super) use vector::Element;
use vector::vector_frame;
use wire::xrd::{ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, StreamId};

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
