//! Whole files, moved without the interpreter.

use crate::failure::OrRaise;
use base::{Failure, Result};
use client::xrd::File;
use pyo3::prelude::*;
use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

/// How often progress is told and signals are answered.
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a local file that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Tells Python how far a transfer is, and hears from it whether to go on.
pub(crate) struct Progress {
    call: Option<Py<PyAny>>,
    done: u64,
    told: Instant,
    raised: Option<PyErr>,
}

impl Progress {
    /// Moves a file by `work` with the interpreter released. What the call or a signal raises ends it.
    pub(crate) fn run(
        py: Python<'_>,
        call: Option<Py<PyAny>>,
        work: impl FnOnce(&mut Self) -> Result<()> + Send,
    ) -> PyResult<()> {
        let mut progress = Self { call, done: 0, told: Instant::now(), raised: None };
        let outcome = py.detach(|| {
            work(&mut progress)?;
            progress.tell()
        });
        match progress.raised.take() {
            Some(exception) => Err(exception),
            None => outcome.or_raise(py),
        }
    }

    /// Takes note of `bytes` more.
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.done += bytes as u64;
        if self.told.elapsed() < INTERVAL { Ok(()) } else { self.tell() }
    }

    fn tell(&mut self) -> Result<()> {
        self.told = Instant::now();
        let heard = Python::attach(|py| {
            py.check_signals()?;
            self.call.as_ref().map_or(Ok(()), |call| call.call1(py, (self.done,)).map(drop))
        });
        heard.map_err(|exception| {
            self.raised = Some(exception);
            Failure::invalid("the transfer was interrupted")
        })
    }
}

/// Writes all of `file` to the local file `path`.
pub(crate) fn download(file: &File, path: &Path, progress: &mut Progress) -> Result<()> {
    let failed = |cause: std::io::Error| Failure::io(format!("write {}", path.display()), &cause);
    let mut local = fs::File::create(path).map_err(failed)?;
    file.copy_to(&mut |piece| {
        local.write_all(piece).map_err(failed)?;
        progress.add(piece.len())
    })
}

/// Writes the local file `path` to `file`.
pub(crate) fn upload(file: &File, path: &Path, progress: &mut Progress) -> Result<()> {
    let failed = |cause: std::io::Error| Failure::io(format!("read {}", path.display()), &cause);
    let mut local = fs::File::open(path).map_err(failed)?;
    let (mut block, mut writer) = (vec![0; BLOCK_BYTES], file.writer());
    loop {
        let count = local.read(&mut block).map_err(failed)?;
        if count == 0 {
            return writer.finish().map(drop);
        }
        writer.push(&block[..count])?;
        progress.add(count)?;
    }
}

/// Writes all of `from` to `to`.
pub(crate) fn copy(from: &File, to: &File, progress: &mut Progress) -> Result<()> {
    let mut writer = to.writer();
    from.copy_to(&mut |piece| {
        writer.push(piece)?;
        progress.add(piece.len())
    })?;
    writer.finish().map(drop)
}
