//! N-tuples of ROOT files: RNTuples by the kernels, TTrees by uproot.
//!
//! Uproot decodes a column of a TTree when a pass needs it, and the column cache keeps it: every later pass is as fast as
//! that over any other file. The interpreter is held meanwhile, so that threads do not decode TTrees at the same time.

use crate::failure::{self, OrRaise};
use base::{ErrorKind, Failure, Result};
use ntuple::{
    Array, DataFile, FileColumn, Kind, OpenOptions, RNTuple, Source, Values,
    column::{self, RootObject, words},
};
use pyo3::{
    exceptions::{PyImportError, PyKeyboardInterrupt},
    prelude::*,
    types::{PyBytes, PyModule},
};
use std::sync::Arc;

/// Most rows that are read at once.
const ROWS_MAX: u64 = 1 << 26;

/// Name, NumPy type or nothing, whether it has lists, and why it cannot be used.
type ColumnOf = (String, Option<String>, bool, String);

/// Opens a Parquet file, or an n-tuple of a ROOT file.
pub(crate) fn open(source: Arc<dyn Source>, options: OpenOptions<'_>) -> Result<Arc<dyn DataFile>> {
    if !column::is_root(&*source)? {
        return column::open(source, options);
    }
    let object = column::choose(source.name(), column::root_objects(&*source)?, options.tree)?;
    if object.is_rntuple() {
        return Ok(Arc::new(RNTuple::open(source, &object.path)?));
    }
    Ok(Arc::new(Tree::open(source, object)?))
}

/// A file for Python.
#[pyclass(frozen, module = "backplane._core")]
struct SourceBytes(Arc<dyn Source>);

#[pymethods]
impl SourceBytes {
    #[getter]
    fn length(&self) -> u64 {
        self.0.len()
    }

    /// Bytes at `offset`; fewer at the end of the file.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyBytes>> {
        let length = length.min(self.0.len().saturating_sub(offset));
        let read = || {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            self.0.read_at(offset, &mut bytes).map(|()| bytes)
        };
        Ok(PyBytes::new(py, &py.detach(read).or_raise(py)?))
    }
}

/// A TTree.
struct Tree {
    source: Arc<dyn Source>,
    identity: Arc<str>,
    path: String,
    columns: Vec<FileColumn>,
    /// First entry of each row group, and that after the last.
    ranges: Vec<(u64, u64)>,
    /// `backplane.analysis._tree.TreeReader`.
    reader: Py<PyAny>,
}

impl Tree {
    fn open(source: Arc<dyn Source>, object: RootObject) -> Result<Self> {
        let RootObject { path, class } = object;
        let name = source.name().to_owned();
        let open = |py: Python<'_>| {
            let bytes = SourceBytes(Arc::clone(&source)).into_pyobject(py)?;
            let module = PyModule::import(py, "backplane.analysis._tree")?;
            let reader = module.call_method1("TreeReader", (bytes, &path))?;
            let columns: Vec<ColumnOf> = reader.call_method0("columns")?.extract()?;
            let ranges: Vec<(u64, u64)> = reader.call_method0("ranges")?.extract()?;
            let version: String = PyModule::import(py, "uproot")?.getattr("__version__")?.extract()?;
            Ok((reader.unbind(), columns, ranges, version))
        };
        let what = format!("{class} {path:?}");
        let (reader, columns, ranges, version) =
            Python::attach(|py| open(py).map_err(|error| failed(py, &name, &what, error)))?;
        let columns = columns.into_iter().map(|(name, kind, is_list, why)| {
            match kind.as_deref().and_then(Kind::named) {
                Some(kind) => FileColumn::of_kind(&name, kind, is_list),
                None => FileColumn::refused(&name, "of another type", &why),
            }
        });
        let columns = columns.collect();
        let is_ordered = ranges.iter().all(|(start, end)| start <= end && end - start <= ROWS_MAX);
        if !is_ordered {
            return Err(Failure::unsupported(format!(
                "{name}: {what}: clusters of more than {ROWS_MAX} entries"
            )));
        }
        // Another version can number branches and row groups otherwise.
        let identity = format!("{}#{path}@uproot {version}", source.identity()).into();
        Ok(Self { source, identity, path, columns, ranges, reader })
    }

    fn values(&self, py: Python<'_>, kind: Kind, row_group: usize, column: usize) -> PyResult<Values> {
        let (start, end) = self.ranges[row_group];
        let read = self.reader.bind(py).call_method1("read", (column, start, end))?;
        let (values, ends): (Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>) = read.extract()?;
        let ends = ends.map(|ends| Arc::new(words(ends.as_bytes(), u32::from_le_bytes)));
        let array = array_of(kind, values.as_bytes());
        Ok(Values { offsets: ends, ..Values::from(array) })
    }
}

fn array_of(kind: Kind, bytes: &[u8]) -> Array {
    match kind {
        Kind::F32 => Array::F32(words(bytes, f32::from_le_bytes)),
        Kind::F64 => Array::F64(words(bytes, f64::from_le_bytes)),
        Kind::I32 => Array::I32(words(bytes, i32::from_le_bytes)),
        Kind::I64 => Array::I64(words(bytes, i64::from_le_bytes)),
        Kind::Bool => Array::Bool(bytes.iter().map(|byte| u8::from(*byte != 0)).collect()),
    }
}

/// Why the interpreter could not do `what` with the file `name`.
fn failed(py: Python<'_>, name: &str, what: &str, error: PyErr) -> Failure {
    if error.is_instance_of::<PyImportError>(py) {
        return Failure::unsupported(format!(
            "{name}: {what}: TTrees are read by uproot, which is not installed"
        ))
        .hint("pip install 'backplane[root]'");
    }
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // No failure is one: who asks for signals next raises it again, and not a destructor of what the error holds.
        drop(error);
        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        return Failure::new(ErrorKind::Busy, format!("{name}: {what}: cancelled"));
    }
    if let Some(failure) = failure::of(py, &error) {
        let own = failure.what.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
        let own = own.unwrap_or(&failure.what).to_owned();
        return Failure { what: own, ..failure }.during(format!("{name}: {what}"));
    }
    let text = error.value(py).to_string();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("uproot failed").trim().to_owned();
    Failure::corrupt(format!("{name}: {what}: {line}"))
        .hint("compare the file with its checksum, or read it with uproot")
}

impl DataFile for Tree {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    fn version(&self) -> String {
        self.source.version()
    }

    fn tree(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn row_groups(&self) -> usize {
        self.ranges.len()
    }

    fn rows(&self, row_group: usize) -> usize {
        let (start, end) = self.ranges[row_group];
        (end - start) as usize
    }

    fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    fn check(&self) -> Result<()> {
        self.source.check()
    }

    fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    fn read(&self, row_group: usize, column: usize) -> Result<Values> {
        let about = &self.columns[column];
        let (start, _) = self.ranges[row_group];
        let (name, what) = (self.name(), format!("branch {:?} from entry {start}", about.name()));
        let kind = about.kind().map_err(|why| Failure::unsupported(format!("{name}: {what} {why}")))?;
        let read = |py: Python<'_>| {
            self.values(py, kind, row_group, column).map_err(|error| failed(py, name, &what, error))
        };
        let values = Python::attach(read)?;
        let is_whole = values.offsets.as_ref().is_none_or(|ends| {
            ends.first() == Some(&0)
                && ends.is_sorted()
                && ends.last().is_some_and(|end| *end as usize == values.array.len())
        });
        if !is_whole || values.rows() != self.rows(row_group) {
            return Err(Failure::corrupt(format!(
                "{name}: {what}: {} rows of {}",
                values.rows(),
                self.rows(row_group)
            )));
        }
        Ok(values)
    }
}
