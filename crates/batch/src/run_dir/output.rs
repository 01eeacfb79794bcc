//! What is shown of the outputs of a job: a part where they are long.

use super::RunDir;
use std::{fs::File, io, os::unix::fs::FileExt};

/// Longest end of a file that is read as text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Part of what is kept of a long output that is its beginning: what a program says first tells most about why it failed.
const BEGINNING_SHARE: u64 = 4;

impl RunDir {
    /// What is kept of `stdout` or `stderr`: all of it, or beginning and end of about `bytes_max` bytes together.
    #[must_use]
    pub(crate) fn excerpt(&self, name: &str, bytes_max: u64) -> String {
        let read = || -> io::Result<String> {
            let file = File::open(self.file(name))?;
            let size = file.metadata()?.len();
            if size <= bytes_max {
                return piece(&file, 0, size);
            }
            let beginning = bytes_max / BEGINNING_SHARE;
            let end = bytes_max - beginning;
            let left_out = size - bytes_max;
            let (beginning, end) = (piece(&file, 0, beginning)?, piece(&file, size - end, end)?);
            Ok(format!("{beginning}\n[{left_out} bytes are left out here]\n{end}"))
        };
        match read() {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(cause) => format!("[{name} cannot be read: {cause}]"),
        }
    }

    /// The end of `stdout` or `stderr`, at most [`TEXT_BYTES_MAX`] bytes; empty if there is none.
    #[must_use]
    pub fn tail(&self, name: &str) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let file = File::open(self.file(name))?;
            let size = file.metadata()?.len();
            let mut bytes = vec![0; size.min(TEXT_BYTES_MAX as u64) as usize];
            let start = size - bytes.len() as u64;
            file.read_exact_at(&mut bytes, start)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => last_text(&bytes),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(cause) => format!("[{name} cannot be read: {cause}]"),
        }
    }
}

/// Takes what stands at one place of a file.
fn piece(file: &File, offset: u64, length: u64) -> io::Result<String> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `bytes` as text of at most [`TEXT_BYTES_MAX`] bytes: what is no text grows when it is replaced.
pub(super) fn last_text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if text.len() > TEXT_BYTES_MAX {
        let mut from = text.len() - TEXT_BYTES_MAX;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text.drain(..from);
    }
    text
}
