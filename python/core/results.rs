//! Results of a pass as bytes that NumPy reads without a copy.

use ntuple::{Array, Bins, Values, chain::Sums};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyList, PyTuple},
};

/// Little-endian bytes of `values`, each `SIZE` long.
fn bytes_of<'py, T: Copy, const SIZE: usize>(
    py: Python<'py>,
    values: &[T],
    encode: impl Fn(T) -> [u8; SIZE],
) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, values.len() * SIZE, |bytes| {
        bytes
            .chunks_exact_mut(SIZE)
            .zip(values)
            .for_each(|(bytes, value)| bytes.copy_from_slice(&encode(*value)));
        Ok(())
    })
}

/// Bytes of the bins of one histogram.
pub(crate) fn bins_bytes<'py>(py: Python<'py>, bins: &Bins) -> PyResult<Bound<'py, PyByteArray>> {
    match bins {
        Bins::Counts(bins) => bytes_of(py, bins, u64::to_le_bytes),
        Bins::Weights(bins) => bytes_of(py, bins.as_flattened(), f64::to_le_bytes),
    }
}

/// Bytes of the bins of each weighted histogram.
pub(crate) fn sums_bytes<'py>(py: Python<'py>, sums: &Sums) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    for bins in sums {
        all.append(bytes_of(py, bins.as_flattened(), f64::to_le_bytes)?)?;
    }
    Ok(all)
}

/// NumPy type and bytes of an array, if values are missing a byte for each that is not 0 where it is, and of an array of
/// lists the length of each in 32 bits.
pub(crate) fn array_bytes<'py>(
    py: Python<'py>,
    values: &Values,
    counts: Option<&[u32]>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (dtype, bytes) = match &values.array {
        Array::F32(values) => ("<f4", bytes_of(py, values, f32::to_le_bytes)?),
        Array::F64(values) => ("<f8", bytes_of(py, values, f64::to_le_bytes)?),
        Array::I32(values) => ("<i4", bytes_of(py, values, i32::to_le_bytes)?),
        Array::I64(values) => ("<i8", bytes_of(py, values, i64::to_le_bytes)?),
        Array::Bool(values) => ("?", bytes_of(py, values, |value: u8| [value])?),
    };
    let present = values.present.as_ref();
    let missing = present.map(|present| bytes_of(py, present, |present: u8| [present ^ 1])).transpose()?;
    let counts = counts.map(|counts| bytes_of(py, counts, u32::to_le_bytes)).transpose()?;
    (dtype, bytes, missing, counts).into_pyobject(py)
}
