//! Columns: where their bytes come from, how they are decoded, and the cache of decoded ones.

mod arrow;
mod cache;
mod cursor;
mod declared;
mod decode;
mod default;
mod disk;
mod file;
mod files;
mod footer;
mod friend;
mod guard;
mod number;
mod parquet;
mod root;
mod shape;
mod source;
#[cfg(test)]
pub(crate) mod testing;

pub use cache::{CacheUse, ColumnCache, VOLATILE};
pub use cursor::words;
pub use default::{DefaultValue, Defaults};
pub use disk::{DiskUse, fuzz_disk_column};
pub use file::{DataFile, FileColumn};
pub use friend::{Befriended, Friend, Slice, divide};
pub use parquet::{ParquetFile, fuzz_parquet};
pub use root::{RNTuple, RootObject, choose, fuzz_rntuple, is_root, root_objects};
pub use source::{FileSource, MemorySource, Source, changed};

use base::{Failure, Result};
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    /// Which n-tuple of a ROOT file, by its path; the only one unless given.
    pub tree: Option<&'a str>,
    /// Columns of decimals, dates, times and durations that are read as floats: times in seconds, since 1970 or midnight.
    pub numbers: &'a [String],
}

/// Opens a Parquet file, or an RNTuple of a ROOT file.
pub fn open(source: Arc<dyn Source>, options: OpenOptions<'_>) -> Result<Arc<dyn DataFile>> {
    if !is_root(&*source)? {
        return Ok(Arc::new(ParquetFile::open_with(source, options.numbers)?));
    }
    let chosen = choose(source.name(), root_objects(&*source)?, options.tree)?;
    if chosen.is_rntuple() {
        return Ok(Arc::new(RNTuple::open(source, &chosen.path)?));
    }
    let (name, RootObject { path, class }) = (source.name(), chosen);
    Err(Failure::unsupported(format!("{name}: {path:?} is a {class}; only RNTuples are read here"))
        .hint("TTrees are read by the Python package, with uproot"))
}

/// How the values of one column are kept in memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 64-bit integers.
    I64(Vec<i64>),
    /// Truth values, 0 or 1.
    Bool(Vec<u8>),
}

/// Evaluates an expression on the vector inside an [`Array`].
macro_rules! with_values {
    ($array:expr, $values:ident => $body:expr) => {
        match $array {
            $crate::column::Array::F32($values) => $body,
            $crate::column::Array::F64($values) => $body,
            $crate::column::Array::I32($values) => $body,
            $crate::column::Array::I64($values) => $body,
            $crate::column::Array::Bool($values) => $body,
        }
    };
}
pub(crate) use with_values;

impl Array {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        with_values!(self, values => values.capacity() * size_of_val(&values[..]) / values.len().max(1))
    }

    /// No values of `kind`.
    pub(crate) fn empty(kind: Kind) -> Self {
        match kind {
            Kind::F32 => Self::F32(Vec::new()),
            Kind::F64 => Self::F64(Vec::new()),
            Kind::I32 => Self::I32(Vec::new()),
            Kind::I64 => Self::I64(Vec::new()),
            Kind::Bool => Self::Bool(Vec::new()),
        }
    }

    /// `count` zeros.
    pub(crate) fn zeros(kind: Kind, count: usize) -> Self {
        match kind {
            Kind::F32 => Self::F32(vec![0.0; count]),
            Kind::F64 => Self::F64(vec![0.0; count]),
            Kind::I32 => Self::I32(vec![0; count]),
            Kind::I64 => Self::I64(vec![0; count]),
            Kind::Bool => Self::Bool(vec![0; count]),
        }
    }

    /// Some of the values.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::F32(values) => Self::F32(values[range].to_vec()),
            Self::F64(values) => Self::F64(values[range].to_vec()),
            Self::I32(values) => Self::I32(values[range].to_vec()),
            Self::I64(values) => Self::I64(values[range].to_vec()),
            Self::Bool(values) => Self::Bool(values[range].to_vec()),
        }
    }

    /// Makes room for `more` values.
    fn reserve(&mut self, more: usize) {
        with_values!(self, values => values.reserve_exact(more));
    }

    /// Which kind it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::F32(_) => Kind::F32,
            Self::F64(_) => Kind::F64,
            Self::I32(_) => Kind::I32,
            Self::I64(_) => Kind::I64,
            Self::Bool(_) => Kind::Bool,
        }
    }

    /// Appends `other`, of the same kind or of one that fits into it without a change of value.
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::F32(all), Self::F32(more)) => all.extend(more),
            (Self::F64(all), Self::F64(more)) => all.extend(more),
            (Self::F64(all), Self::F32(more)) => all.extend(more.into_iter().map(f64::from)),
            (Self::I32(all), Self::I32(more)) => all.extend(more),
            (Self::I64(all), Self::I64(more)) => all.extend(more),
            (Self::I64(all), Self::I32(more)) => all.extend(more.into_iter().map(i64::from)),
            (Self::Bool(all), Self::Bool(more)) => all.extend(more),
            (all, more) => unreachable!("the chain gives {:?} no {:?}", all.kind(), more.kind()),
        }
    }
}

/// Values of which some may be missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// The values. A missing float is NaN; what stands for another missing value means nothing.
    pub array: Array,
    /// 1 for each integer or truth value that is present, 0 for each that is missing; `None` if none is missing.
    pub present: Option<Vec<u8>>,
    /// Of a column of lists: where the list of each row begins among the values, and the end of the last; `None` if every
    /// row has one value. Columns of one collection share them.
    pub offsets: Option<Arc<Vec<u32>>>,
}

impl From<Array> for Values {
    fn from(array: Array) -> Self {
        Self { array, present: None, offsets: None }
    }
}

impl Values {
    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        let offsets = self.offsets.as_ref().map_or(0, |offsets| offsets.capacity() * size_of::<u32>());
        self.array.bytes() + self.present.as_ref().map_or(0, Vec::capacity) + offsets
    }

    /// Without the list of those that are present if all are.
    pub(crate) fn settled(mut self) -> Self {
        self.present = self.present.filter(|present| present.contains(&0));
        self
    }

    /// Rows: lists if there are lists, values otherwise.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.as_ref().map_or(self.array.len(), |offsets| offsets.len().saturating_sub(1))
    }

    /// Appends `other`, whose kind must fit. Of lists only the values are appended.
    pub(crate) fn append(&mut self, other: Self) {
        let (before, more) = (self.array.len(), other.array.len());
        match (&mut self.present, other.present) {
            (None, None) => {}
            (all, Some(more)) => all.get_or_insert_with(|| vec![1; before]).extend(more),
            (Some(all), None) => all.resize(before + more, 1),
        }
        self.array.append(other.array);
    }
}

/// The vectors that an [`Array`] can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Truth values.
    Bool,
}

impl Kind {
    /// Its name, as NumPy has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f4",
            Self::F64 => "f8",
            Self::I32 => "i4",
            Self::I64 => "i8",
            Self::Bool => "?",
        }
    }

    /// Whether every value of `other` is one of this kind.
    pub(crate) fn holds(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::F64, Self::F32) | (Self::I64, Self::I32))
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::F32, Self::F64, Self::I32, Self::I64, Self::Bool].into_iter().find(|kind| kind.name() == name)
    }

    /// What expressions see of it.
    #[must_use]
    pub fn ty(self) -> crate::Type {
        match self {
            Self::F32 | Self::F64 => crate::Type::Float,
            Self::I32 | Self::I64 => crate::Type::Int,
            Self::Bool => crate::Type::Bool,
        }
    }
}

/// A column as expressions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: crate::Type,
    /// How its values are kept, wide enough for every file.
    pub kind: Kind,
    /// Whether a file declares that values can be missing.
    pub is_optional: bool,
    /// Of a column of lists: the collection whose elements it describes, `Jet` for `Jet_pt`.
    pub collection: Option<String>,
    /// What it is in files that lack it; `None` if every file has it.
    pub default: Option<DefaultValue>,
}

/// The collection to which a column of lists belongs: what stands before the first underscore or dot of its name.
/// Columns without either are one collection, without a name.
#[must_use]
pub fn collection_of(name: &str) -> &str {
    name.find(['_', '.']).map_or("", |end| &name[..end])
}

impl Column {
    /// The same column under a longer name.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let name = format!("{prefix}{}", self.name);
        let collection = self.collection.as_ref().map(|_| collection_of(&name).to_owned());
        Self { name, collection, ..self.clone() }
    }

    /// Its type as users see it: `float`, or `list[float]`.
    #[must_use]
    pub fn type_name(&self) -> String {
        let name = self.ty.name();
        if self.collection.is_some() { format!("list[{name}]") } else { name.to_owned() }
    }
}

#[cfg(test)]
impl Column {
    /// A column of 64 bits whose values are never missing.
    pub(crate) fn of(name: &str, ty: crate::Type) -> Self {
        let kind = match ty {
            crate::Type::Float => Kind::F64,
            crate::Type::Int => Kind::I64,
            crate::Type::Bool => Kind::Bool,
        };
        Self { name: name.to_owned(), ty, kind, is_optional: false, collection: None, default: None }
    }
}

/// The columns of an n-tuple.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// Those that can be used, in the order of the file.
    pub columns: Vec<Column>,
    /// Those that cannot, and why.
    pub refused: Vec<(String, String)>,
}

impl Schema {
    /// Whether there is a column of that name, whether or not it can be used.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
            || self.refused.iter().any(|(refused, _)| refused == name)
    }
}
