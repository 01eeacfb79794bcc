//! Files that are changed in place, as Python opens them.

use crate::{
    failure::OrRaise,
    memory::{Given, Targets},
    patience::{in_background, in_background_until},
    source::options,
};
use base::{ByteRange, Failure, FilePath, Result};
use client::Facility;
use fuse::shared::{How, Make, SharedFile as File, SharedSession as Session};
use pyo3::{prelude::*, types::PyBytes};
use share::LockMode;
use std::sync::Arc;

/// Bytes that are moved before signals are answered.
const PIECE_BYTES: usize = 32 << 20;

/// The session of this process with a facility.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct SharedSession {
    session: Arc<Session>,
}

#[pymethods]
impl SharedSession {
    /// Begins one with the facility that `place` names, as `user`.
    #[new]
    fn new(py: Python<'_>, place: String, user: String) -> PyResult<Self> {
        let begin = move || {
            let facility = Facility::find(&place, &user)?;
            Session::begin(facility.control, user.clone(), options(&user), "python")
        };
        let session = Arc::new(py.detach(begin).or_raise(py)?);
        Ok(Self { session })
    }

    /// Whether this process may use it, which a fork may not.
    #[getter]
    fn is_own(&self) -> bool {
        self.session.is_own()
    }

    /// Opens a file; `mode` is `rb`, `r+b`, `w+b`, `x+b` or `a+b`.
    fn open(&self, py: Python<'_>, path: &str, mode: &str) -> PyResult<SharedFile> {
        let (path, how) = (path.parse::<FilePath>().or_raise(py)?, how(mode).or_raise(py)?);
        let session = Arc::clone(&self.session);
        let file = in_background(py, move || session.open(&path, how))?;
        Ok(SharedFile(Arc::new(file)))
    }

    /// Ends it; what was written to its files is committed.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.session.end());
    }
}

/// What a mode of Python means.
fn how(mode: &str) -> Result<How> {
    let (is_read, is_write, permissions) = (true, mode != "rb", 0o644);
    let (make, is_append, is_emptied) = match mode {
        "rb" | "r+b" => (Make::Never, false, false),
        "w+b" => (Make::Missing, false, true),
        "x+b" => (Make::New, false, false),
        "a+b" => (Make::Missing, true, false),
        _ => {
            return Err(Failure::invalid(format!("mode {mode:?} is not one of rb, r+b, w+b, x+b, a+b")));
        }
    };
    Ok(How { is_read, is_write, is_append, is_emptied, make, mode: permissions })
}

/// A file that is open. Threads may use it at the same time.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct SharedFile(Arc<File>);

impl SharedFile {
    /// Waits until it may be used, with an ear for signals.
    fn prepare(&self, py: Python<'_>, is_write: bool) -> PyResult<()> {
        if self.0.is_ready(is_write) {
            return Ok(());
        }
        let file = Arc::clone(&self.0);
        in_background(py, move || file.prepare(is_write))
    }

    /// Fills `buffer` from `offset`; yields how many bytes there were.
    fn fill(&self, py: Python<'_>, offset: u64, buffer: &mut [u8]) -> PyResult<usize> {
        self.prepare(py, false)?;
        let mut done = 0;
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            let count = py.detach(|| self.0.read_at(offset + done as u64, piece)).or_raise(py)?;
            done += count;
            py.check_signals()?;
            if count < piece.len() {
                break;
            }
        }
        Ok(done)
    }
}

#[pymethods]
impl SharedFile {
    /// Bytes now.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.prepare(py, false)?;
        py.detach(|| self.0.size()).or_raise(py)
    }

    /// Fills `buffer` from `offset`; returns how many bytes there were.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: Bound<'_, PyAny>) -> PyResult<usize> {
        let mut targets = Targets::new(&[buffer])?;
        let mut slices = targets.slices();
        slices.first_mut().map_or(Ok(0), |slice| self.fill(py, offset, slice))
    }

    /// Reads up to `length` bytes from `offset`, or all that is there.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: Option<u64>) -> PyResult<Bound<'py, PyBytes>> {
        let rest = self.size(py)?.saturating_sub(offset);
        let length = length.map_or(rest, |length| length.min(rest));
        let mut count = 0;
        let bytes = PyBytes::new_with(py, length as usize, |bytes| {
            count = self.fill(py, offset, bytes)?;
            Ok(())
        })?;
        // Somebody has cut it meanwhile.
        if (count as u64) < length { Ok(PyBytes::new(py, &bytes.as_bytes()[..count])) } else { Ok(bytes) }
    }

    /// Writes all of `data` at `offset`, or at the end.
    fn write_at(&self, py: Python<'_>, offset: u64, data: Bound<'_, PyAny>) -> PyResult<()> {
        let given = Given::new(&data)?;
        self.prepare(py, true)?;
        let mut at = offset;
        for piece in given.bytes().chunks(PIECE_BYTES) {
            py.detach(|| self.0.write_at(at, piece)).or_raise(py)?;
            at += piece.len() as u64;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Sets the size.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.prepare(py, true)?;
        py.detach(|| self.0.truncate(size)).or_raise(py)
    }

    /// Returns when all that was written is durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let file = Arc::clone(&self.0);
        in_background(py, move || file.sync())
    }

    /// Takes or changes a lock on the bytes from `start` to `end`; without `is_exclusive` it is given back. Returns whether it is set;
    /// with `wait` it waits for that.
    #[pyo3(signature = (start, end, is_exclusive, wait))]
    fn lock(
        &self,
        py: Python<'_>,
        start: u64,
        end: Option<u64>,
        is_exclusive: Option<bool>,
        wait: bool,
    ) -> PyResult<bool> {
        let range = ByteRange { offset: start, end: end.unwrap_or(u64::MAX) };
        if range.is_empty() {
            return Err(Failure::invalid(format!("no bytes lie from {start} to {}", range.end))).or_raise(py);
        }
        let mode = is_exclusive.map(|is| if is { LockMode::Exclusive } else { LockMode::Shared });
        if !wait || mode.is_none() {
            return py.detach(|| self.0.lock(range, mode, None)).or_raise(py);
        }
        let (file, wait) = (Arc::clone(&self.0), Arc::new(self.0.lock_wait().or_raise(py)?));
        let waits = Arc::clone(&wait);
        in_background_until(py, move || file.lock(range, mode, Some(&waits)), move || wait.give_up())
    }

    /// Closes; what was written is durable then. Closing twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = Arc::clone(&self.0);
        in_background(py, move || file.close())
    }
}
