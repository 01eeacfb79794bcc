//! Bytes on their way out: headers and small data in one arena, file data by reference.
//!
//! One system call sends many answers. Data of immutable files never pass through the memory of this process. The kernel takes
//! them from the page cache: many small pieces from the mapped file, large pieces by `sendfile`.

use super::{
    Counters, OpenFile,
    handles::Handle,
    limits::{ARENA_BYTES_KEPT, SLICES_MAX},
    transport::Transport,
};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::{Arc, atomic::Ordering},
};

/// A run of bytes to send.
#[derive(Debug)]
enum Piece<F> {
    /// These bytes of the arena.
    Arena { start: usize, end: usize },
    /// These bytes of a file that is mapped.
    Mapped { handle: Arc<Handle<F>>, offset: u64, length: usize },
    /// These bytes of a file that has a descriptor.
    File { handle: Arc<Handle<F>>, offset: u64, length: usize },
}

impl<F> Piece<F> {
    fn length(&self) -> usize {
        match self {
            Self::Arena { start, end } => end - start,
            Self::Mapped { length, .. } | Self::File { length, .. } => *length,
        }
    }

    /// Leaves the first `count` bytes out.
    fn advance(&mut self, count: usize) {
        match self {
            Self::Arena { start, .. } => *start += count,
            Self::Mapped { offset, length, .. } | Self::File { offset, length, .. } => {
                *offset += count as u64;
                *length -= count;
            }
        }
    }
}

/// The sending side of a session.
#[derive(Debug)]
pub(super) struct Sender<F> {
    arena: Vec<u8>,
    used: usize,
    pieces: VecDeque<Piece<F>>,
    pending: usize,
    sent: u64,
    counters: Arc<Counters>,
}

impl<F: OpenFile> Sender<F> {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self { arena: Vec::new(), used: 0, pieces: VecDeque::new(), pending: 0, sent: 0, counters }
    }

    /// Bytes that were sent since the session began.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that were not sent yet.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Pieces that were not sent yet.
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Adds `count` bytes, whose content is left over from earlier use: they must be written or cut off.
    pub(super) fn grow(&mut self, count: usize) -> &mut [u8] {
        let start = self.used;
        self.used += count;
        self.pending += count;
        if self.arena.len() < self.used {
            self.arena.resize(self.used, 0);
        }
        match self.pieces.back_mut() {
            Some(Piece::Arena { end, .. }) if *end == start => *end = self.used,
            _ => self.pieces.push_back(Piece::Arena { start, end: self.used }),
        }
        &mut self.arena[start..self.used]
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    /// Takes the last `count` bytes back, which [`Self::grow`] has just added.
    pub(super) fn cut(&mut self, count: usize) {
        self.used -= count;
        self.pending -= count;
        if let Some(Piece::Arena { start, end }) = self.pieces.back_mut() {
            *end = self.used;
            if start == end {
                self.pieces.pop_back();
            }
        }
    }

    /// Adds bytes of a file that is mapped.
    pub(super) fn mapped(&mut self, handle: &Arc<Handle<F>>, offset: u64, length: usize) {
        if length > 0 {
            self.pending += length;
            self.pieces.push_back(Piece::Mapped { handle: Arc::clone(handle), offset, length });
        }
    }

    /// Adds bytes of a file that has a descriptor.
    pub(super) fn file(&mut self, handle: &Arc<Handle<F>>, offset: u64, length: usize) {
        if length > 0 {
            self.pending += length;
            self.pieces.push_back(Piece::File { handle: Arc::clone(handle), offset, length });
        }
    }

    /// Sends until nothing is left (`true`) or the socket takes no more (`false`).
    pub(super) fn flush(&mut self, transport: &mut Transport) -> io::Result<bool> {
        while !self.pieces.is_empty() {
            if !self.send_some(transport)? {
                return Ok(false);
            }
        }
        self.used = 0;
        Ok(true)
    }

    fn send_some(&mut self, transport: &mut Transport) -> io::Result<bool> {
        let sent = match self.pieces.front() {
            Some(Piece::File { handle, offset, length }) => {
                let file = handle.file.descriptor().ok_or(io::ErrorKind::InvalidInput)?;
                transport.send_file(file, *offset, *length)
            }
            _ => self.send_slices(transport),
        };
        let sent = sent.inspect_err(|error| self.blame(error))?;
        let Some(sent) = sent else { return Ok(false) };
        self.sent += sent as u64;
        self.counters.sent_bytes_total.fetch_add(sent as u64, Ordering::Relaxed);
        self.advance(sent);
        Ok(true)
    }

    /// Says so to files whose bytes may be why sending failed: a socket has other errors.
    fn blame(&self, error: &io::Error) {
        let errno = Errno::from_io_error(error);
        for piece in &self.pieces {
            match piece {
                Piece::File { handle, .. } if errno == Some(Errno::IO) => {
                    return handle.file.found_unreadable();
                }
                Piece::Mapped { handle, .. } if errno == Some(Errno::FAULT) => {
                    return handle.file.found_unreadable();
                }
                _ => {}
            }
        }
    }

    fn send_slices(&self, transport: &mut Transport) -> io::Result<Option<usize>> {
        let mut slices = Vec::with_capacity(self.pieces.len().min(SLICES_MAX));
        let mut more = false;
        for piece in &self.pieces {
            match piece {
                Piece::Arena { start, end } => slices.push(IoSlice::new(&self.arena[*start..*end])),
                Piece::Mapped { handle, offset, length } => {
                    let start = *offset as usize;
                    let bytes = handle.file.mapped().and_then(|map| map.get(start..start + length));
                    slices.push(IoSlice::new(bytes.ok_or(io::ErrorKind::InvalidInput)?));
                }
                Piece::File { .. } => more = true,
            }
            if more || slices.len() == SLICES_MAX {
                break;
            }
        }
        transport.send(&slices, more)
    }

    fn advance(&mut self, mut count: usize) {
        self.pending -= count;
        while let Some(piece) = self.pieces.front_mut() {
            let length = piece.length();
            let of_piece = count.min(length);
            if let Piece::Mapped { handle, .. } | Piece::File { handle, .. } = piece {
                handle.file.count_sent(of_piece as u64);
            }
            if count < length {
                piece.advance(count);
                return;
            }
            count -= length;
            self.pieces.pop_front();
        }
    }

    /// Forgets bytes of files and all that follows them.
    pub(super) fn forget_files(&mut self) {
        let is_file = |piece: &Piece<F>| !matches!(piece, Piece::Arena { .. });
        if let Some(first) = self.pieces.iter().position(is_file) {
            self.pending -= self.pieces.drain(first..).map(|piece| piece.length()).sum::<usize>();
        }
    }

    /// Gives memory back if nothing waits.
    pub(super) fn shrink(&mut self) {
        if self.pieces.is_empty() && self.arena.len() > ARENA_BYTES_KEPT {
            self.arena = Vec::new();
        }
    }
}
