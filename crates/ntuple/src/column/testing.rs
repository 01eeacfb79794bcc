//! Parquet files for tests, written with the low-level writer of the library.

use super::{MemorySource, Source};
use parquet::{
    basic::Compression,
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type},
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};
use std::sync::Arc;

/// Values of one column; `None` is a missing one.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    F32(Vec<Option<f32>>),
    F64(Vec<Option<f64>>),
    I32(Vec<Option<i32>>),
    I64(Vec<Option<i64>>),
    Bool(Vec<Option<bool>>),
    Text(Vec<Option<&'static str>>),
}

pub(crate) struct Layout {
    pub(crate) rows_per_group: usize,
    pub(crate) compression: Compression,
    pub(crate) has_statistics: bool,
    pub(crate) is_version_2: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            rows_per_group: 1000,
            compression: Compression::SNAPPY,
            has_statistics: true,
            is_version_2: false,
        }
    }
}

/// Writes columns; a declaration is such as `"required float"`, `"optional int32"` or, with a logical type, `"required
/// int32 n (DATE)"`, which repeats the name.
pub(crate) fn write(columns: &[(&str, &str, Data)], layout: &Layout) -> Vec<u8> {
    let field = |(name, declaration, _): &(&str, &str, Data)| {
        let name = if declaration.contains('(') { "" } else { name };
        format!("{declaration} {name}; ")
    };
    let fields: String = columns.iter().map(field).collect();
    let schema = Arc::new(parse_message_type(&format!("message m {{ {fields} }}")).unwrap());
    let statistics = if layout.has_statistics { EnabledStatistics::Chunk } else { EnabledStatistics::None };
    let version = if layout.is_version_2 {
        parquet::file::properties::WriterVersion::PARQUET_2_0
    } else {
        parquet::file::properties::WriterVersion::PARQUET_1_0
    };
    let properties = WriterProperties::builder()
        .set_compression(layout.compression)
        .set_statistics_enabled(statistics)
        .set_writer_version(version)
        .set_data_page_row_count_limit(300)
        .set_write_batch_size(100);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).unwrap();
    let rows = columns.first().map_or(0, |(_, _, data)| data.len());
    for start in (0..rows).step_by(layout.rows_per_group.max(1)) {
        let end = (start + layout.rows_per_group).min(rows);
        let mut group = file.next_row_group().unwrap();
        for (_, declaration, data) in columns {
            let mut column = group.next_column().unwrap().unwrap();
            let optional = declaration.starts_with("optional");
            macro_rules! put {
                ($values:expr, $ty:ty, $convert:expr) => {
                    put::<$ty, _>(column.typed(), &$values[start..end], optional, $convert)
                };
            }
            match data {
                Data::F32(values) => put!(values, FloatType, |value| value),
                Data::F64(values) => put!(values, DoubleType, |value| value),
                Data::I32(values) => put!(values, Int32Type, |value| value),
                Data::I64(values) => put!(values, Int64Type, |value| value),
                Data::Bool(values) => put!(values, BoolType, |value| value),
                Data::Text(values) => put!(values, ByteArrayType, ByteArray::from),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }
}

fn put<T: DataType, V: Copy>(
    writer: &mut parquet::column::writer::ColumnWriterImpl<'_, T>,
    values: &[Option<V>],
    optional: bool,
    convert: impl Fn(V) -> T::T,
) {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = values.iter().flatten().map(|value| convert(*value)).collect();
    writer.write_batch(&present, optional.then_some(&levels), None).unwrap();
}

/// A source named `name` that holds `bytes`.
pub(crate) fn source(name: &str, bytes: Vec<u8>) -> Arc<dyn Source> {
    Arc::new(MemorySource::new(name, bytes))
}
