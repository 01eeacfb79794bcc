//! The files of the audit log: one that is written, and older ones with numbers.

use base::{Failure, Result};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Files of bounded size and number.
pub(super) struct Files {
    directory: PathBuf,
    /// Of the one that is written.
    name: &'static str,
    file: BufWriter<File>,
    written: u64,
    file_bytes_max: u64,
    number_max: u32,
    /// Lines since the last flush, and those that could not be written.
    waiting: u64,
    unwritten: u64,
}

impl Files {
    /// Opens the file that was written last, or the first one. Only the facility's owner can read it.
    pub(super) fn open(
        directory: &Path,
        name: &'static str,
        (file_bytes_max, number_max): (u64, u32),
    ) -> Result<Self> {
        let failed = |cause: io::Error| Failure::io(format!("open {}", directory.display()), &cause);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let (file, written) = append(&directory.join(name)).map_err(failed)?;
        let (directory, file) = (directory.to_owned(), BufWriter::new(file));
        let files =
            Self { directory, name, file, written, file_bytes_max, number_max, waiting: 0, unwritten: 0 };
        // There may have been more of them once.
        let mut number = number_max;
        while fs::remove_file(files.numbered(number)).is_ok() {
            number += 1;
        }
        Ok(files)
    }

    /// Adds a line.
    pub(super) fn write(&mut self, line: &str) {
        if self.written > 0 && self.written + line.len() as u64 > self.file_bytes_max {
            self.rotate();
        }
        self.waiting += 1;
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => self.written += line.len() as u64,
            Err(_) => self.give_up(),
        }
    }

    /// Hands everything to the system.
    pub(super) fn flush(&mut self) {
        if self.file.flush().is_err() {
            self.give_up();
        }
        self.waiting = 0;
    }

    /// How many lines could not be written since the last time.
    pub(super) fn take_unwritten(&mut self) -> u64 {
        std::mem::take(&mut self.unwritten)
    }

    /// What waits in the buffer is lost, so that it is not tried again and again on a full disk.
    fn give_up(&mut self) {
        self.unwritten += std::mem::take(&mut self.waiting);
        if let Ok((file, written)) = append(&self.directory.join(self.name)) {
            self.written = written;
            let (_file, _lost) = std::mem::replace(&mut self.file, BufWriter::new(file)).into_parts();
        }
    }

    /// Begins the next file; the oldest one goes.
    fn rotate(&mut self) {
        self.flush();
        for number in (0..self.number_max.saturating_sub(1)).rev() {
            let (from, to) = (self.numbered(number), self.numbered(number + 1));
            // Not all of them are there yet.
            let _ = fs::rename(from, to);
        }
        if self.number_max == 1 {
            let _ = fs::remove_file(self.numbered(0));
        }
        match append(&self.numbered(0)) {
            // If it could not be renamed it is the old one.
            Ok((file, written)) => (self.file, self.written) = (BufWriter::new(file), written),
            Err(_) => self.give_up(),
        }
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let (stem, end) = self.name.rsplit_once('.').unwrap_or((self.name, ""));
        self.directory.join(if number == 0 { self.name.to_owned() } else { format!("{stem}.{number}.{end}") })
    }
}

/// Opens a file to go on with a new line; yields its length. What was cut off by a full disk or a crash stays a line of its own.
fn append(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok((file, length + u64::from(last != [b'\n'])))
}
