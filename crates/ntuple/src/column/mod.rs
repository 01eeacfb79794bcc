//! Columns: where their bytes come from, how they are decoded, and the cache of decoded ones.

mod cache;
mod parquet;
mod source;
#[cfg(test)]
pub(crate) mod testing;

pub use cache::{CacheUse, ColumnCache};
pub use parquet::{ParquetFile, fuzz_parquet};
pub use source::{FileSource, MemorySource, Source};

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

    /// Appends `other`, which must be of the same kind; otherwise both become 64-bit floats.
    pub(crate) fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::F32(all), Self::F32(more)) => all.extend(more),
            (Self::F64(all), Self::F64(more)) => all.extend(more),
            (Self::I32(all), Self::I32(more)) => all.extend(more),
            (Self::I64(all), Self::I64(more)) => all.extend(more),
            (Self::Bool(all), Self::Bool(more)) => all.extend(more),
            (_, other) => {
                let mut all = self.to_f64();
                all.extend(other.to_f64());
                *self = Self::F64(all);
            }
        }
    }

    fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Self::F64(values) => values.clone(),
            Self::I32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Self::I64(values) => values.iter().map(|value| *value as f64).collect(),
            Self::Bool(values) => values.iter().map(|value| f64::from(*value)).collect(),
        }
    }
}

/// A column as expressions see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type; integers and truth values that can be missing are floats, NaN where missing.
    pub ty: crate::Type,
}

/// The columns of an n-tuple.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    /// Those that can be used, in the order of the file.
    pub columns: Vec<Column>,
    /// Those that cannot, and why.
    pub refused: Vec<(String, String)>,
}
