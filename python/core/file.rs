//! Files of a facility as Python opens them.

use crate::failure::OrRaise;
use crate::source::options;
use base::{Failure, Result};
use client::xrd::{CreateOptions, File, XrdUrl};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// One open file; the position is kept by the Python class around it.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct RemoteFile {
    /// `None` once closed. Held during one request: calls of several threads follow each other.
    file: Mutex<Option<File>>,
}

impl RemoteFile {
    fn with<T>(&self, act: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        act(file.as_mut().ok_or_else(|| Failure::invalid("file is closed"))?)
    }
}

#[pymethods]
impl RemoteFile {
    /// Opens `url` as `user`; `mode` is `rb`, `wb` or `xb`.
    #[new]
    fn new(py: Python<'_>, url: &str, mode: &str, user: &str) -> PyResult<Self> {
        let open = || {
            let url: XrdUrl = url.parse()?;
            match mode {
                "rb" => File::open_read(&url, &options(user)),
                "wb" | "xb" => {
                    let create = CreateOptions { replace: mode == "wb", ..CreateOptions::default() };
                    File::create(&url, &options(user), create)
                }
                _ => Err(Failure::invalid(format!("mode {mode:?} is not one of rb, wb, xb"))),
            }
        };
        let file = py.detach(open).or_raise(py)?;
        Ok(Self { file: Mutex::new(Some(file)) })
    }

    /// Size in bytes when the file was opened.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.with(|file| Ok(file.size()))).or_raise(py)
    }

    /// Fills all of `buffer` from `offset`.
    ///
    /// The bytes arrive in memory of ours and are copied once while the interpreter is held: another thread may use
    /// the buffer meanwhile, so it cannot be lent to the reader. The package passes pieces that fit the cache.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: PyBuffer<u8>) -> PyResult<()> {
        let mut piece = vec![0; buffer.len_bytes()];
        let read = || {
            self.with(|file| match file.read_at(offset, &mut piece)? {
                read if read == piece.len() => Ok(()),
                read => Err(Failure::corrupt(format!(
                    "file ended after {} bytes while it was read",
                    offset + read as u64
                ))
                .hint("it was replaced meanwhile; open it again")),
            })
        };
        py.detach(read).or_raise(py)?;
        buffer.copy_from_slice(py, &piece)
    }

    /// Writes all of `data` at `offset`.
    fn write_at(&self, py: Python<'_>, offset: u64, data: PyBuffer<u8>) -> PyResult<()> {
        let piece = data.to_vec(py)?;
        py.detach(|| self.with(|file| file.write_at(offset, &piece))).or_raise(py)
    }

    /// Closes; what was written is committed, or the failure tells why not. Closing twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let close = || match self.file.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(file) => file.close(),
            None => Ok(()),
        };
        py.detach(close).or_raise(py)
    }

    /// Gives up what was written; the file stays as it was before it was opened.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.file.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
