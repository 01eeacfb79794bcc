//! Chains and passes over them.

use crate::{
    failure::OrRaise,
    part::{self, ColumnOf, DefaultOf, Description, FileToOpen},
    results::{array_bytes, bins_bytes, sums_bytes},
    source, tree,
};
use base::{Failure, Result};
use ntuple::{
    Axis, ColumnCache, Defaults, HistogramSpec, OpenOptions, Plan, Progress, RowGroups, RunOptions,
};
use pyo3::{prelude::*, types::PyList};
use std::{ops::ControlFlow, path::PathBuf};

/// Several files as one table.
#[pyclass(frozen, module = "backplane._core")]
pub(crate) struct Chain {
    pub(crate) files: ntuple::Chain,
    /// Where the files are that have entries, in their order.
    places: Vec<String>,
    /// Columns that are read as floats by request.
    numbers: Vec<String>,
    user: String,
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
        let mut plan = Plan::new(self.files.schema());
        for (name, expr) in definitions {
            plan.define(name, expr)?;
        }
        for filter in filters {
            plan.filter(filter)?;
        }
        Ok(plan)
    }

    fn whole_plan(
        &self,
        (definitions, filters): (&Definitions, &[String]),
        histograms: Vec<HistogramRequest>,
        arrays: &[String],
    ) -> Result<Plan> {
        let mut plan = self.plan(definitions, filters)?;
        for (axes, cut, weight) in histograms {
            let axes =
                axes.into_iter().map(|(expr, axis)| Ok((expr, axis.axis()?))).collect::<Result<_>>()?;
            plan.histogram(HistogramSpec { axes, cut, weight })?;
        }
        for expr in arrays {
            plan.array(expr)?;
        }
        Ok(plan)
    }
}

/// Opens files without the interpreter; what a signal raised meanwhile goes before a failure.
fn opened<T: Send>(py: Python<'_>, open: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outcome = py.detach(open);
    py.check_signals()?;
    outcome.or_raise(py)
}

/// Runs a pass without the interpreter. Several times a second it is asked for signals, and told entries done and total.
fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    run: impl FnOnce(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let outcome = py.detach(|| {
        run(&mut |now| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.map_or(Ok(()), |call| call.call1(py, (now.done, now.total)).map(drop))
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
    match raised {
        Some(exception) => Err(exception),
        None => outcome.or_raise(py),
    }
}

#[pymethods]
impl Chain {
    /// Opens local paths and `root://` URLs.
    ///
    /// `tree` says which n-tuple of ROOT files, `defaults` what columns are in files that lack them, and `numbers` which
    /// columns of decimals and times are read as floats.
    #[new]
    #[pyo3(signature = (places, user, tree=None, defaults=Vec::new(), numbers=Vec::new()))]
    fn new(
        py: Python<'_>,
        places: Vec<String>,
        user: &str,
        tree: Option<&str>,
        defaults: Vec<(String, Option<DefaultOf>)>,
        numbers: Vec<String>,
    ) -> PyResult<Self> {
        let open = || {
            let options = OpenOptions { tree, numbers: &numbers };
            let open_one = |place: &String| tree::open(source::open(place, user)?, options);
            let files = places.iter().map(open_one).collect::<Result<Vec<_>>>()?;
            let default = |(name, value)| (name, DefaultOf::value(value));
            let defaults: Defaults = defaults.into_iter().map(default).collect();
            let chain = ntuple::Chain::join(files.clone(), &defaults)?;
            if let Some(name) = numbers.iter().find(|name| !chain.schema().has(name)) {
                return Err(Failure::invalid(format!("no file has a column {name:?}, which numbers names")));
            }
            let places = part::places_of(&chain, &files, &places)?;
            Ok(Self { files: chain, places, numbers, user: user.to_owned() })
        };
        opened(py, open)
    }

    /// The same entries with the columns of a friend beside theirs, whose names get a prefix.
    fn befriend(&self, py: Python<'_>, friend: &Bound<'_, Self>, prefix: &str) -> PyResult<Self> {
        let friend = friend.get();
        let join = || {
            if friend.numbers != self.numbers && !friend.numbers.is_empty() {
                return Err(Failure::invalid("a friend has other columns that are numbers by request")
                    .hint("name the same columns in numbers= of both n-tuples"));
            }
            let files = self.files.befriend(&friend.files, &friend.places, prefix)?;
            let (places, numbers, user) = (self.places.clone(), self.numbers.clone(), self.user.clone());
            Ok(Self { files, places, numbers, user })
        };
        py.detach(join).or_raise(py)
    }

    /// Opens some files of a chain that another process described: place, version and friends of each, and columns.
    #[staticmethod]
    fn part(
        py: Python<'_>,
        files: Vec<FileToOpen>,
        columns: Vec<ColumnOf>,
        refused: Vec<(String, String)>,
        numbers: Vec<String>,
        user: &str,
    ) -> PyResult<Self> {
        let open = || {
            let places = files.iter().map(|(place, ..)| place.clone()).collect();
            let chain = part::open(files, columns, refused, &numbers, user)?;
            Ok(Self { files: chain, places, numbers, user: user.to_owned() })
        };
        opened(py, open)
    }

    /// What another process needs to open parts of this chain: place, version, rows of row groups and friends of each file;
    /// columns; columns that cannot be used.
    fn describe(&self) -> Description {
        part::describe(&self.files, &self.places)
    }

    /// Row groups with the packets that they belong to: packet, file, first row group, and that after the last.
    fn packets(&self) -> Vec<(usize, usize, usize, usize)> {
        let packets = self.files.packets().into_iter();
        packets.map(|one| (one.packet, one.file, one.groups.start, one.groups.end)).collect()
    }

    /// Columns that are read as floats by request.
    #[getter]
    fn numbers(&self) -> Vec<String> {
        self.numbers.clone()
    }

    /// On whose behalf files are read.
    #[getter]
    fn user(&self) -> &str {
        &self.user
    }

    /// Rows of all files.
    #[getter]
    fn entries(&self) -> u64 {
        self.files.entries()
    }

    /// Names and types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        let columns = self.files.schema().columns.iter();
        columns.map(|column| (column.name.clone(), column.type_name())).collect()
    }

    /// Columns that cannot be used, and why.
    #[getter]
    fn refused(&self) -> Vec<(String, String)> {
        self.files.schema().refused.clone()
    }

    /// Checks definitions and cuts, and returns the types of `exprs`.
    fn check(
        &self,
        py: Python<'_>,
        definitions: Definitions,
        filters: Vec<String>,
        exprs: Vec<String>,
    ) -> PyResult<Vec<String>> {
        let check = || {
            let mut plan = self.plan(&definitions, &filters)?;
            exprs.iter().map(|expr| plan.type_of(expr)).collect::<Result<_>>()
        };
        py.detach(check).or_raise(py)
    }

    /// Fills histograms and collects arrays in one pass.
    ///
    /// Gives for each histogram the bytes of its bins (64-bit counts, or pairs of doubles), and for each array its
    /// NumPy type, bytes and, if values are missing, a byte for each that is not 0 where it is, and for lists the length of
    /// each in 32 bits. `progress(done, total)` is called several times a second.
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
        let make_plan = || self.whole_plan((&definitions, &filters), histograms, &arrays);
        let plan = py.detach(make_plan).or_raise(py)?;
        let options = RunOptions { threads, ..RunOptions::default() };
        let outcome = watched(py, progress.as_ref(), |progress| self.files.run(plan, &options, progress))?;
        let histograms = PyList::empty(py);
        for histogram in &outcome.histograms {
            histograms.append(bins_bytes(py, &histogram.bins)?)?;
        }
        let arrays = PyList::empty(py);
        for (array, counts) in outcome.arrays.iter().zip(&outcome.counts) {
            arrays.append(array_bytes(py, array, counts.as_deref())?)?;
        }
        Ok((histograms, arrays))
    }

    /// Does the same for some packets, given as `packets` gives them. Weighted histograms are empty, and the sums of each
    /// stand in nodes: level, index, bytes of the bins of each weighted histogram.
    #[allow(
        clippy::too_many_arguments,
        clippy::type_complexity,
        reason = "the signature is what Python calls"
    )]
    #[pyo3(signature = (definitions, filters, histograms, arrays, threads, packets, progress))]
    fn run_packets<'py>(
        &self,
        py: Python<'py>,
        definitions: Definitions,
        filters: Vec<String>,
        histograms: Vec<HistogramRequest>,
        arrays: Vec<String>,
        threads: usize,
        packets: Vec<(usize, usize, usize, usize)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>)> {
        let make_plan = || self.whole_plan((&definitions, &filters), histograms, &arrays);
        let plan = py.detach(make_plan).or_raise(py)?;
        let options = RunOptions { threads, ..RunOptions::default() };
        let row_groups = |(packet, file, start, end)| RowGroups { packet, file, groups: start..end };
        let groups: Vec<_> = packets.into_iter().map(row_groups).collect();
        let part = watched(py, progress.as_ref(), |progress| {
            self.files.run_packets(plan, &groups, &options, progress)
        })?;
        let counts = PyList::empty(py);
        for histogram in &part.histograms {
            counts.append(bins_bytes(py, &histogram.bins)?)?;
        }
        let nodes = PyList::empty(py);
        for node in &part.nodes {
            nodes.append((node.level, node.index, sums_bytes(py, &node.sums)?))?;
        }
        let arrays = PyList::empty(py);
        for (array, counts) in part.arrays.iter().zip(&part.counts) {
            arrays.append(array_bytes(py, array, counts.as_deref())?)?;
        }
        Ok((counts, nodes, arrays))
    }
}

/// Capacity, bytes held, hits and misses of the column cache of this process, in memory and on disk.
#[pyfunction]
pub(crate) fn cache_use() -> [u64; 8] {
    let cache = ColumnCache::shared();
    let (now, disk) = (cache.use_now(), cache.disk_use().unwrap_or_default());
    [
        now.capacity_bytes,
        now.held_bytes,
        now.hits,
        now.misses,
        disk.capacity_bytes,
        disk.held_bytes,
        disk.hits,
        disk.misses,
    ]
}

/// Keeps columns in a directory, too.
#[pyfunction]
#[pyo3(signature = (directory, capacity_bytes))]
pub(crate) fn set_cache_directory(
    py: Python<'_>,
    directory: Option<PathBuf>,
    capacity_bytes: u64,
) -> PyResult<()> {
    let set =
        || ColumnCache::shared().set_directory(directory.as_deref().map(|place| (place, capacity_bytes)));
    py.detach(set).or_raise(py)
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
