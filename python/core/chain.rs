//! Chains and passes over them.

use crate::{failure::OrRaise, source};
use base::Result;
use ntuple::{Array, Axis, Bins, ColumnCache, Histogram, HistogramSpec, Plan, RunOptions, Values};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyList, PyTuple},
};
use std::ops::ControlFlow;

/// Several files as one table.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct Chain {
    chain: ntuple::Chain,
}

/// A tuple `(bins, low, high)`, a tuple `(low, bins)` of integers, or a list of edges.
#[derive(FromPyObject)]
enum AxisSpec {
    Regular(usize, f64, f64),
    Integer(i64, usize),
    Variable(Vec<f64>),
}

impl AxisSpec {
    fn axis(&self) -> Result<Axis> {
        match self {
            Self::Regular(bins, low, high) => Axis::regular(*bins, *low, *high),
            Self::Integer(low, bins) => Axis::integer(*low, *bins),
            Self::Variable(edges) => Axis::variable(edges),
        }
    }
}

/// Expressions with their axes, cut, weight.
type HistogramRequest = (Vec<(String, AxisSpec)>, Option<String>, Option<String>);
/// Name and expression, in the order of definition.
type Definitions = Vec<(String, String)>;

impl Chain {
    fn plan(&self, definitions: &Definitions, filters: &[String]) -> Result<Plan> {
        let mut plan = Plan::new(self.chain.schema());
        for (name, expr) in definitions {
            plan.define(name, expr)?;
        }
        for filter in filters {
            plan.filter(filter)?;
        }
        Ok(plan)
    }
}

#[pymethods]
impl Chain {
    /// Opens local paths and `root://` URLs.
    #[new]
    fn new(py: Python<'_>, places: Vec<String>, user: &str) -> PyResult<Self> {
        let open = || {
            let sources = places.iter().map(|place| source::open(place, user)).collect::<Result<_>>()?;
            ntuple::Chain::open(sources)
        };
        Ok(Self { chain: py.detach(open).or_raise(py)? })
    }

    /// Rows of all files.
    #[getter]
    fn entries(&self) -> u64 {
        self.chain.entries()
    }

    /// Names and types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, &'static str)> {
        let columns = self.chain.schema().columns.iter();
        columns.map(|column| (column.name.clone(), column.ty.name())).collect()
    }

    /// Columns that cannot be used, and why.
    #[getter]
    fn refused(&self) -> Vec<(String, String)> {
        self.chain.schema().refused.clone()
    }

    /// Checks definitions and cuts, and returns the types of `exprs`.
    fn check(
        &self,
        py: Python<'_>,
        definitions: Definitions,
        filters: Vec<String>,
        exprs: Vec<String>,
    ) -> PyResult<Vec<&'static str>> {
        let check = || {
            let mut plan = self.plan(&definitions, &filters)?;
            exprs.iter().map(|expr| Ok(plan.type_of(expr)?.name())).collect::<Result<_>>()
        };
        py.detach(check).or_raise(py)
    }

    /// Fills histograms and collects arrays in one pass.
    ///
    /// Gives for each histogram the bytes of its bins (64-bit counts, or pairs of doubles), and for each array its
    /// NumPy type, bytes and, if values are missing, a byte for each that is not 0 where it is. `progress(done, total)` is called several times a second.
    #[allow(
        clippy::too_many_arguments,
        clippy::type_complexity,
        reason = "the signature is what Python calls"
    )]
    #[pyo3(signature = (definitions, filters, histograms, arrays, threads, progress))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        definitions: Definitions,
        filters: Vec<String>,
        histograms: Vec<HistogramRequest>,
        arrays: Vec<String>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let make_plan = || {
            let mut plan = self.plan(&definitions, &filters)?;
            for (axes, cut, weight) in histograms {
                let axes =
                    axes.into_iter().map(|(expr, axis)| Ok((expr, axis.axis()?))).collect::<Result<_>>()?;
                plan.histogram(HistogramSpec { axes, cut, weight })?;
            }
            for expr in arrays {
                plan.array(&expr)?;
            }
            Ok(plan)
        };
        let plan = py.detach(make_plan).or_raise(py)?;
        let mut raised = None;
        let options = RunOptions { threads, ..RunOptions::default() };
        let outcome = py.detach(|| {
            self.chain.run(plan, &options, |now| {
                let told = Python::attach(|py| {
                    py.check_signals()?;
                    progress.as_ref().map_or(Ok(()), |call| call.call1(py, (now.done, now.total)).map(drop))
                });
                match told {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(exception) => {
                        raised.get_or_insert(exception);
                        ControlFlow::Break(())
                    }
                }
            })
        });
        if let Some(exception) = raised {
            return Err(exception);
        }
        let outcome = outcome.or_raise(py)?;
        let histograms = PyList::empty(py);
        for histogram in &outcome.histograms {
            histograms.append(bins_bytes(py, histogram)?)?;
        }
        let arrays = PyList::empty(py);
        for array in &outcome.arrays {
            arrays.append(array_bytes(py, array)?)?;
        }
        Ok((histograms, arrays))
    }
}

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

fn bins_bytes<'py>(py: Python<'py>, histogram: &Histogram) -> PyResult<Bound<'py, PyByteArray>> {
    match &histogram.bins {
        Bins::Counts(bins) => bytes_of(py, bins, u64::to_le_bytes),
        Bins::Weights(bins) => bytes_of(py, bins.as_flattened(), f64::to_le_bytes),
    }
}

fn array_bytes<'py>(py: Python<'py>, values: &Values) -> PyResult<Bound<'py, PyTuple>> {
    let (dtype, bytes) = match &values.array {
        Array::F32(values) => ("<f4", bytes_of(py, values, f32::to_le_bytes)?),
        Array::F64(values) => ("<f8", bytes_of(py, values, f64::to_le_bytes)?),
        Array::I32(values) => ("<i4", bytes_of(py, values, i32::to_le_bytes)?),
        Array::I64(values) => ("<i8", bytes_of(py, values, i64::to_le_bytes)?),
        Array::Bool(values) => ("?", bytes_of(py, values, |value: u8| [value])?),
    };
    let present = values.present.as_ref();
    let missing = present.map(|present| bytes_of(py, present, |present: u8| [present ^ 1])).transpose()?;
    (dtype, bytes, missing).into_pyobject(py)
}

/// Capacity, bytes held, hits and misses of the column cache of this process.
#[pyfunction]
pub(crate) fn cache_use() -> (u64, u64, u64, u64) {
    let now = ColumnCache::shared().use_now();
    (now.capacity_bytes, now.held_bytes, now.hits, now.misses)
}

/// Drops all cached columns.
#[pyfunction]
pub(crate) fn clear_cache(py: Python<'_>) {
    py.detach(|| ColumnCache::shared().clear());
}

/// Changes the capacity of the column cache, in bytes.
#[pyfunction]
pub(crate) fn set_cache_capacity(py: Python<'_>, capacity_bytes: u64) {
    py.detach(|| ColumnCache::shared().set_capacity(capacity_bytes));
}
