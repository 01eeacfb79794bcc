//! Memory of Python objects that is filled or read while the interpreter is released.
//!
//! Here is all `unsafe` of this crate. Without it every byte would be copied once more while all other threads of the
//! program stand still: PyO3 lends the memory of a buffer only as cells, which cannot go to the code that reads from the
//! network. What makes the slices below sound:
//!
//! - *The memory stays.* A [`PyUntypedBuffer`] is an export after PEP 3118: until it is released the exporter neither frees
//!   nor moves nor resizes the memory (`bytearray.append` raises `BufferError`). A slice borrows from its buffer.
//! - *It may be written.* A target says that it is not read-only, is contiguous, and holds no object references, for which
//!   arbitrary bytes would be no valid value. For everything else they are.
//! - *Nobody else has it.* Targets of one call lie apart; that is checked. A new `bytes` object is known to nobody before it
//!   is returned, and the collector does not list it. A buffer of the caller may be touched by another thread of the
//!   program during the call. That is a mistake of the program which `io.FileIO.readinto` and `socket.recv_into` allow just
//!   as well: they lend the same memory to the kernel with the interpreter released. The bytes are then torn, nothing more:
//!   the code that gets these slices only copies into or out of them and decides nothing by what they hold.
#![allow(unsafe_code)]

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBytes, PyList},
};
use std::slice;

/// Exports the memory of `object`, which must be contiguous and plain.
fn export(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    if buffer.format().to_bytes().contains(&b'O') {
        return Err(PyBufferError::new_err("the buffer holds objects, not bytes"));
    }
    Ok(buffer)
}

/// Memory of the caller that is read.
pub(crate) struct Given(PyUntypedBuffer);

impl Given {
    /// Exports the memory of `object`.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        export(object).map(Self)
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: contiguous, of this length, and exported as long as `self` lives; see the head of this file.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// Memory of the caller that is filled.
pub(crate) struct Targets(Vec<PyUntypedBuffer>);

impl Targets {
    /// Exports the memory of `objects`, which must be writable and lie apart.
    pub(crate) fn new(objects: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let buffers = objects.iter().map(export).collect::<PyResult<Vec<_>>>()?;
        if buffers.iter().any(PyUntypedBuffer::readonly) {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        let places = buffers.iter().filter(|buffer| buffer.len_bytes() > 0);
        let mut places: Vec<_> =
            places.map(|buffer| (buffer.buf_ptr() as usize, buffer.len_bytes())).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(PyValueError::new_err("the buffers overlap"));
        }
        Ok(Self(buffers))
    }

    /// The bytes of each.
    pub(crate) fn slices(&mut self) -> Vec<&mut [u8]> {
        let slice = |buffer: &PyUntypedBuffer| {
            if buffer.len_bytes() == 0 {
                return Default::default();
            }
            // SAFETY: contiguous, writable, of this length, apart from the others, and exported as long as `self` lives;
            // see the head of this file.
            unsafe { slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes()) }
        };
        self.0.iter().map(slice).collect()
    }
}

/// New `bytes` objects that are filled before anybody sees them.
pub(crate) struct Fresh<'py>(Vec<Bound<'py, PyBytes>>);

impl<'py> Fresh<'py> {
    /// Makes objects of these lengths, all zeros.
    pub(crate) fn new(py: Python<'py>, lengths: impl Iterator<Item = usize>) -> PyResult<Self> {
        let make = |length| PyBytes::new_with(py, length, |_| Ok(()));
        lengths.map(make).collect::<PyResult<_>>().map(Self)
    }

    /// The bytes of each.
    pub(crate) fn slices(&mut self) -> Vec<&mut [u8]> {
        let slice = |object: &Bound<'py, PyBytes>| {
            let length = object.as_bytes().len();
            // The empty object is shared by the whole program.
            if length == 0 {
                return Default::default();
            }
            // SAFETY: `new` made this object of this length, not shared as it was made without content, and gave it to nobody;
            // giving it away needs `self`, which is borrowed.
            unsafe { slice::from_raw_parts_mut(ffi::PyBytes_AsString(object.as_ptr()).cast(), length) }
        };
        self.0.iter().map(slice).collect()
    }

    /// The objects as a list.
    pub(crate) fn into_list(self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0)
    }
}
