//! Writes to several files at once.

use super::{File, Upload};
use crate::xrd::{mux::Wait, task::now};
use base::Result;

/// What is to be written to one file.
#[derive(Debug)]
pub struct WritePieces<'a> {
    /// The file, open for writing.
    pub file: &'a File,
    /// Where.
    pub offset: u64,
    /// One after the other.
    pub pieces: &'a [&'a [u8]],
}

/// Writes to several files at once and waits for all answers: requests to the next file leave before the last one has answered.
/// Yields for each whether it was done.
pub fn write_at_once(writes: &[WritePieces<'_>]) -> Vec<Result<()>> {
    if let [WritePieces { file, offset, pieces: [data] }] = writes {
        return vec![file.write_at(*offset, data)];
    }
    let mut uploads: Vec<_> = writes.iter().map(Progress::new).collect();
    while uploads.iter_mut().fold(false, |any, upload| upload.send() | any) {}
    uploads.into_iter().map(Progress::finish).collect()
}

/// Writes under way to one file.
struct Progress<'a> {
    write: &'a WritePieces<'a>,
    upload: Upload,
    /// Which piece is next, and how much of it was sent.
    next: (usize, usize),
    outcome: Result<()>,
}

impl<'a> Progress<'a> {
    fn new(write: &'a WritePieces<'a>) -> Self {
        Self { write, upload: Upload::new(write.offset), next: (0, 0), outcome: Ok(()) }
    }

    /// Sends one more request, if there is one.
    fn send(&mut self) -> bool {
        let core = &self.write.file.core;
        let Some(piece) = self.write.pieces.get(self.next.0).filter(|_| self.outcome.is_ok()) else {
            return false;
        };
        let rest = &piece[self.next.1..];
        let data = &rest[..rest.len().min(core.chunk())];
        let sent = now(self.upload.send(core, data, Wait::Thread));
        self.outcome = sent.map_err(|trouble| core.write_failed(trouble));
        self.next.1 += data.len();
        if self.next.1 == piece.len() {
            self.next = (self.next.0 + 1, 0);
        }
        true
    }

    fn finish(mut self) -> Result<()> {
        self.outcome?;
        let core = &self.write.file.core;
        now(self.upload.finish(core, Wait::Thread)).map_err(|trouble| core.write_failed(trouble))
    }
}
