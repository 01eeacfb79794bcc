//! Files of a facility as Python opens them.

use crate::{
    failure::OrRaise,
    memory::{Fresh, Given, Targets},
    patience::in_background,
    source::options,
    transfer::{self, Progress},
};
use base::{ByteRange, Failure, FilePath, Result, limits::READV_ELEMENT_BYTES_MAX};
use client::xrd::{CreateOptions, File, ReadMode, XrdUrl};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyList},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes that are moved before signals are answered: much, so that the pipe stays full meanwhile.
const PIECE_BYTES: usize = 32 << 20;

/// One open file; the position is kept by the Python class around it. Threads may use it at the same time.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct RemoteFile {
    /// `None` once closed. Held for a look only.
    file: Mutex<Option<Arc<File>>>,
    size: u64,
    is_writing: bool,
}

/// Offset and length.
type Range = (u64, u64);

impl RemoteFile {
    pub(crate) fn file(&self) -> Result<Arc<File>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| Failure::invalid("file is closed"))
    }

    /// The part of a range that lies in the file.
    fn clip(&self, (offset, length): Range) -> ByteRange {
        ByteRange { offset, end: offset.saturating_add(length) }.clip(self.size)
    }

    /// Fills `slices`, each from the range of the same place.
    fn fill(&self, py: Python<'_>, ranges: &[ByteRange], slices: Vec<&mut [u8]>) -> PyResult<()> {
        let file = self.file().or_raise(py)?;
        let (mut few, mut bytes) = ((Vec::new(), Vec::new()), 0);
        for (range, slice) in ranges.iter().zip(slices) {
            // What a vector read would cut into parts and copy goes straight to its place.
            if slice.len() > READV_ELEMENT_BYTES_MAX {
                read_all(py, &file, range.offset, slice)?;
                continue;
            }
            bytes += slice.len();
            few.0.push(*range);
            few.1.push(slice);
            if bytes >= PIECE_BYTES {
                read_few(py, &file, std::mem::take(&mut few))?;
                bytes = 0;
            }
        }
        read_few(py, &file, few)
    }
}

/// Fills all of `buffer` from `offset`; answers signals now and then.
fn read_all(py: Python<'_>, file: &File, offset: u64, buffer: &mut [u8]) -> PyResult<()> {
    let mut at = offset;
    for piece in buffer.chunks_mut(PIECE_BYTES) {
        let read = || match file.read_at(at, piece)? {
            read if read == piece.len() => Ok(()),
            read => Err(Failure::corrupt(format!(
                "file ended after {} bytes while it was read",
                at + read as u64
            ))
            .hint("it was replaced meanwhile; open it again")),
        };
        py.detach(read).or_raise(py)?;
        at += piece.len() as u64;
        py.check_signals()?;
    }
    Ok(())
}

/// Reads ranges that are no longer than an element of a vector read.
fn read_few(
    py: Python<'_>,
    file: &File,
    (ranges, mut slices): (Vec<ByteRange>, Vec<&mut [u8]>),
) -> PyResult<()> {
    match (ranges.as_slice(), slices.as_mut_slice()) {
        ([], _) => Ok(()),
        ([range], [slice]) => read_all(py, file, range.offset, slice),
        _ => {
            py.detach(|| file.read_vector_into(&ranges, &mut slices)).or_raise(py)?;
            py.check_signals()
        }
    }
}

#[pymethods]
impl RemoteFile {
    /// Opens `url` as `user`; `mode` is `rb`, `wb` or `xb`.
    ///
    /// `path` takes the place of the URL's path, as it is. `size` is what will be written, if
    /// that is known. With `patient` signals are answered while the file is recalled from tape, at the price of a thread.
    #[new]
    #[pyo3(signature = (url, mode, user, *, path = None, size = None, patient = false))]
    fn new(
        py: Python<'_>,
        url: &str,
        mode: &str,
        user: &str,
        path: Option<&str>,
        size: Option<u64>,
        patient: bool,
    ) -> PyResult<Self> {
        let mut place: XrdUrl = url.parse().or_raise(py)?;
        if let Some(path) = path {
            place.path = path.parse::<FilePath>().or_raise(py)?;
        }
        let options = options(user);
        let create = CreateOptions { replace: mode == "wb", size, ..CreateOptions::default() };
        let file = match mode {
            "rb" if patient => in_background(py, move || File::open_read(&place, &options))?,
            "rb" => py.detach(|| File::open_read(&place, &options)).or_raise(py)?,
            "wb" | "xb" => py.detach(|| File::create(&place, &options, create)).or_raise(py)?,
            _ => Err(Failure::invalid(format!("mode {mode:?} is not one of rb, wb, xb"))).or_raise(py)?,
        };
        let is_writing = mode != "rb";
        let size = if is_writing { 0 } else { file.size() };
        Ok(Self { file: Mutex::new(Some(Arc::new(file))), size, is_writing })
    }

    /// Size in bytes when the file was opened for reading, otherwise 0.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` from `offset`; returns how many bytes there were.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: Bound<'_, PyAny>) -> PyResult<usize> {
        let mut targets = Targets::new(&[buffer])?;
        let mut slices = targets.slices();
        let Some(slice) = slices.first_mut() else { return Ok(0) };
        let range = self.clip((offset, slice.len() as u64));
        let count = range.length() as usize;
        read_all(py, &*self.file().or_raise(py)?, offset, &mut slice[..count])?;
        Ok(count)
    }

    /// Reads up to `length` bytes from `offset`.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyBytes>> {
        let range = self.clip((offset, length));
        let file = self.file().or_raise(py)?;
        PyBytes::new_with(py, range.length() as usize, |bytes| read_all(py, &file, offset, bytes))
    }

    /// Reads ranges, each an offset and a length; what lies behind the end is left out.
    fn read_ranges<'py>(&self, py: Python<'py>, ranges: Vec<Range>) -> PyResult<Bound<'py, PyList>> {
        let ranges: Vec<_> = ranges.into_iter().map(|range| self.clip(range)).collect();
        let mut fresh = Fresh::new(py, ranges.iter().map(|range| range.length() as usize))?;
        self.fill(py, &ranges, fresh.slices())?;
        fresh.into_list(py)
    }

    /// Fills `buffers` from `offsets`; returns for each how many bytes there were.
    fn read_ranges_into(
        &self,
        py: Python<'_>,
        offsets: Vec<u64>,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        if offsets.len() != buffers.len() {
            let what = format!("{} offsets for {} buffers", offsets.len(), buffers.len());
            return Err(Failure::invalid(what)).or_raise(py);
        }
        let mut targets = Targets::new(&buffers)?;
        let mut slices = targets.slices();
        let ranges =
            offsets.iter().zip(&slices).map(|(offset, slice)| self.clip((*offset, slice.len() as u64)));
        let ranges: Vec<_> = ranges.collect();
        let counts: Vec<_> = ranges.iter().map(|range| range.length() as usize).collect();
        let cut = slices.iter_mut().zip(&counts).map(|(slice, count)| &mut slice[..*count]);
        self.fill(py, &ranges, cut.collect())?;
        Ok(counts)
    }

    /// Announces ranges, each an offset and a length, that will be read in this order.
    fn preseek(&self, py: Python<'_>, ranges: Vec<Range>) -> PyResult<()> {
        let ranges: Vec<_> = ranges.into_iter().map(|range| self.clip(range)).collect();
        let file = self.file().or_raise(py)?;
        py.detach(|| file.preseek(&ranges)).or_raise(py)
    }

    /// Says how the file will be read: `automatic`, `sequential` or `random`.
    fn advise(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let mode = match mode {
            "automatic" => Ok(ReadMode::Automatic),
            "sequential" => Ok(ReadMode::Sequential),
            "random" => Ok(ReadMode::Random),
            _ => Err(Failure::invalid(format!("{mode:?} is not one of automatic, sequential, random"))),
        };
        self.file().and_then(|file| file.advise(mode?)).or_raise(py)
    }

    /// Writes all of `data` at `offset`.
    fn write_at(&self, py: Python<'_>, offset: u64, data: Bound<'_, PyAny>) -> PyResult<()> {
        let (given, file) = (Given::new(&data)?, self.file().or_raise(py)?);
        let mut at = offset;
        for piece in given.bytes().chunks(PIECE_BYTES) {
            py.detach(|| file.write_at(at, piece)).or_raise(py)?;
            at += piece.len() as u64;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Writes the whole file to the local file `path`; `progress(done)` is called now and then and at the end.
    fn download(&self, py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let file = self.file().or_raise(py)?;
        Progress::run(py, progress, |told| transfer::download(&file, &path, told))
    }

    /// Writes the local file `path` from the start of this file; `progress` as in `download`.
    fn upload(&self, py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let file = self.file().or_raise(py)?;
        Progress::run(py, progress, |told| transfer::upload(&file, &path, told))
    }

    /// Writes the content of another file from the start of this one; `progress` as in `download`.
    fn copy_from(&self, py: Python<'_>, other: &Self, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let (file, other) = (self.file().or_raise(py)?, other.file().or_raise(py)?);
        Progress::run(py, progress, |told| transfer::copy(&other, &file, told))
    }

    /// Closes; what was written is committed, or the failure tells why not. Closing twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let close = || {
            let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(file) = held.take() else { return Ok(()) };
            match Arc::try_unwrap(file) {
                Ok(file) => {
                    drop(held);
                    file.close()
                }
                // Another thread reads or writes. What is only read is closed when it has done so.
                Err(_) if !self.is_writing => Ok(()),
                Err(file) => {
                    *held = Some(file);
                    Err(Failure::busy("another thread uses the file")
                        .hint("close it when all threads are done"))
                }
            }
        };
        py.detach(close).or_raise(py)
    }

    /// Gives up what was written; the file stays as it was before it was opened.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.file.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
