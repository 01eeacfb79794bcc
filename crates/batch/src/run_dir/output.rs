//! What is shown of the outputs of a job: a part where they are long.

use super::{OpenedFile, RunDir};
use crate::as_user::as_user;
use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt},
    },
};

/// Longest end of a file that is read as text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Part of what is kept of a long output that is its beginning: what a program says first tells most about why it failed.
const BEGINNING_SHARE: u64 = 4;
/// The output streams of a job, by the names of their files.
pub(crate) const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// An output of a job, opened for reading.
pub(crate) struct OutputReader {
    file: File,
    /// Where what the job printed begins.
    start: u64,
}

impl OutputReader {
    /// Bytes that the job has printed.
    pub(crate) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.start))
    }

    /// Reads a part.
    pub(crate) fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, self.start + offset)?;
        Ok(bytes)
    }

    fn piece(&self, offset: u64, length: u64) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(offset, length)?).into_owned())
    }
}

impl RunDir {
    /// Opens `stdout`, `stderr` or another file for reading: where a job prints to a file of the host, that file.
    pub(crate) fn open_output(&self, name: &str) -> io::Result<OutputReader> {
        match self.file_on_host(name) {
            Some(opened) => self.open_on_host(&opened),
            None => Ok(OutputReader { file: File::open(self.file(name))?, start: 0 }),
        }
    }

    /// Opens a file of the host for reading, with the rights of the job's user and if it is the very file that the job has opened: the user
    /// may have put another one, or a link, in its place.
    fn open_on_host(&self, opened: &OpenedFile) -> io::Result<OutputReader> {
        if !opened.is_readable {
            return Err(io::Error::other("it is no plain file, or its user may not read it"));
        }
        let identity = self.identity().map_err(io::Error::other)?;
        let identity = identity.ok_or_else(|| io::Error::other("the user of its job is not known"))?;
        as_user(&identity, || {
            // Only a handle: opening a pipe or a device would do something.
            let handle = File::from(open(&opened.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
            let about = handle.metadata()?;
            if !about.is_file() || (about.dev(), about.ino()) != opened.inode {
                return Err(io::Error::other("it was replaced by another file"));
            }
            let file = File::open(format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
            Ok(OutputReader { file, start: opened.start })
        })
    }

    fn file_on_host(&self, name: &str) -> Option<OpenedFile> {
        let index = STREAMS.iter().position(|stream| *stream == name)?;
        let [stdout, stderr] = self.started().ok().flatten()?.outputs;
        if index == 0 { stdout } else { stderr }
    }

    /// What is kept of `stdout` or `stderr`: all of it, or beginning and end of about `bytes_max` bytes together.
    #[must_use]
    pub(crate) fn excerpt(&self, name: &str, bytes_max: u64) -> String {
        let read = || -> io::Result<String> {
            let output = self.open_output(name)?;
            let size = output.size()?;
            if size <= bytes_max {
                return output.piece(0, size);
            }
            let beginning = bytes_max / BEGINNING_SHARE;
            let end = bytes_max - beginning;
            let left_out = size - bytes_max;
            let (beginning, end) = (output.piece(0, beginning)?, output.piece(size - end, end)?);
            Ok(format!("{beginning}\n[{left_out} bytes are left out here]\n{end}"))
        };
        self.text_or_reason(name, read())
    }

    /// The end of `stdout` or `stderr`, at most [`TEXT_BYTES_MAX`] bytes; empty if there is none.
    #[must_use]
    pub fn tail(&self, name: &str) -> String {
        let read = || -> io::Result<String> {
            let output = self.open_output(name)?;
            let size = output.size()?;
            let length = size.min(TEXT_BYTES_MAX as u64);
            Ok(last_text(&output.read(size - length, length)?))
        };
        self.text_or_reason(name, read())
    }

    fn text_or_reason(&self, name: &str, read: io::Result<String>) -> String {
        match (read, self.file_on_host(name)) {
            (Ok(text), _) => text,
            (Err(cause), Some(opened)) => {
                format!("[{name} is in {} on the worker's host: {cause}]\n", opened.path.display())
            }
            (Err(cause), None) if cause.kind() == io::ErrorKind::NotFound => String::new(),
            (Err(cause), None) => format!("[{name} cannot be read: {cause}]"),
        }
    }
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
