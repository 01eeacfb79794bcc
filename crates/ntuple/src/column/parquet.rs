//! Reading flat Parquet columns with the low-level readers of the `parquet` crate.

use super::{Array, Column, Schema, Source};
use crate::Type;
use base::{Failure, Result};
use bytes::{Buf, Bytes, buf::Reader};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Longest footer: a file of ten thousand columns and a thousand row groups fits.
const FOOTER_BYTES_MAX: u64 = 512 << 20;
/// Longest compressed column chunk.
const CHUNK_BYTES_MAX: u64 = 2 << 30;
/// Most rows of a row group: run-length encoding makes any number of values of a few bytes, so memory needs a bound.
const ROW_GROUP_ROWS_MAX: usize = 1 << 26;
/// Rows decoded at a time.
const DECODE_ROWS: usize = 1 << 16;

/// How a column of this file is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    F32,
    F64,
    I32,
    I64,
    /// Unsigned 32-bit, kept as 64-bit.
    U32,
    /// Unsigned 64-bit, kept as signed; larger values are refused.
    U64,
    Bool,
}

impl Storage {
    fn ty(self) -> Type {
        match self {
            Self::F32 | Self::F64 => Type::Float,
            Self::Bool => Type::Bool,
            _ => Type::Int,
        }
    }
}

#[derive(Debug)]
struct FileColumn {
    name: String,
    /// Index among the leaves of the schema.
    leaf: usize,
    storage: Storage,
    /// Whether the statistics do not exclude missing values.
    may_be_null: bool,
}

/// One Parquet file with its metadata.
pub struct ParquetFile {
    source: Arc<dyn Source>,
    identity: Arc<str>,
    metadata: ParquetMetaData,
    columns: Vec<FileColumn>,
    refused: Vec<(String, String)>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFile").field("name", &self.name()).field("entries", &self.entries()).finish()
    }
}

/// Runs `read`; a panic of the library on damaged bytes becomes an error.
///
/// The library indexes by lengths that it read from the file in several places, so bad input can panic there. Nothing
/// that `read` touches is used after a panic, which is why unwinding through it is sound.
fn guarded<T>(name: &str, what: &str, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    let corrupt = |cause: &dyn std::fmt::Display| {
        Failure::corrupt(format!("{name}: {what}: {cause}"))
            .hint("compare the file with its checksum, or copy it again")
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(cause))) => match cause.downcast::<Failure>() {
            Ok(failure) => Err(*failure),
            Err(cause) => Err(corrupt(&cause)),
        },
        Ok(Err(ParquetError::NYI(cause))) => Err(Failure::unsupported(format!("{name}: {what}: {cause}"))),
        Ok(Err(cause)) => Err(corrupt(&cause)),
        Err(_) => Err(corrupt(&"damaged beyond what the decoder understands")),
    }
}

impl ParquetFile {
    /// Reads the footer of `source`.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let name = source.name().to_owned();
        check_footer_length(&*source)?;
        let window = SourceReader(Arc::clone(&source));
        let metadata = guarded(&name, "footer", || ParquetMetaDataReader::new().parse_and_finish(&window))?;
        let (columns, refused) = guarded(&name, "schema", || Ok(survey(&metadata)))?;
        for group in metadata.row_groups() {
            if !usize::try_from(group.num_rows()).is_ok_and(|rows| rows <= ROW_GROUP_ROWS_MAX) {
                return Err(Failure::unsupported(format!("{name}: row group of {} rows", group.num_rows()))
                    .hint(format!("write row groups of at most {ROW_GROUP_ROWS_MAX} rows")));
            }
        }
        Ok(Self { identity: source.identity().into(), source, metadata, columns, refused })
    }

    /// What error messages call the file.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Key of its columns in the cache.
    pub(crate) fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Rows of the file.
    #[must_use]
    pub fn entries(&self) -> u64 {
        (0..self.row_groups()).map(|group| self.rows(group) as u64).sum()
    }

    /// Number of row groups.
    #[must_use]
    pub fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Rows of one row group.
    #[must_use]
    pub fn rows(&self, row_group: usize) -> usize {
        // Checked at open.
        self.metadata.row_group(row_group).num_rows() as usize
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> Schema {
        let columns = self.columns.iter().map(|column| Column {
            name: column.name.clone(),
            ty: if column.may_be_null { Type::Float } else { column.storage.ty() },
        });
        Schema { columns: columns.collect(), refused: self.refused.clone() }
    }

    /// Type of a column if no value were missing.
    pub(crate) fn stored_type(&self, column: usize) -> Type {
        self.columns[column].storage.ty()
    }

    /// Decodes one column of one row group.
    pub fn read(&self, row_group: usize, column: usize) -> Result<Array> {
        let about = &self.columns[column];
        let what = format!("row group {row_group}, column {:?}", about.name);
        let rows = self.rows(row_group);
        let chunk = self.metadata.row_group(row_group).column(about.leaf);
        let (start, length) = guarded(self.name(), &what, || Ok(chunk.byte_range()))?;
        let inside = start.checked_add(length).is_some_and(|end| end <= self.source.len());
        if !inside || length > CHUNK_BYTES_MAX {
            return Err(Failure::corrupt(format!(
                "{}: {what}: {length} bytes at {start} are not in the file",
                self.name()
            )));
        }
        let mut bytes = vec![0; length as usize];
        self.source.read_at(start, &mut bytes)?;
        let window = Window { start, bytes: bytes.into() };
        let array = guarded(self.name(), &what, || decode(window, chunk, about.storage, rows))?;
        if array.len() != rows {
            return Err(Failure::corrupt(format!(
                "{}: {what}: {} values of {rows}",
                self.name(),
                array.len()
            )));
        }
        if matches!(array, Array::F64(_)) && !about.may_be_null && about.storage.ty() != Type::Float {
            return Err(Failure::corrupt(format!(
                "{}: {what}: values are missing, the statistics say none",
                self.name()
            )));
        }
        Ok(array)
    }
}

fn check_footer_length(source: &dyn Source) -> Result<()> {
    let name = source.name();
    let refuse =
        |why: &str| Err(Failure::corrupt(format!("{name}: {why}")).hint("n-tuples are Parquet files"));
    let size = source.len();
    if size < 12 {
        return refuse("not a Parquet file: too short");
    }
    let mut tail = [0; 8];
    source.read_at(size - 8, &mut tail)?;
    if &tail[4..] != b"PAR1" {
        return refuse("not a Parquet file: it does not end with PAR1");
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length > FOOTER_BYTES_MAX || length + 8 > size {
        refuse("footer is longer than the file")
    } else {
        Ok(())
    }
}

/// Sorts the leaves of the schema into columns that can be used and those that cannot.
fn survey(metadata: &ParquetMetaData) -> (Vec<FileColumn>, Vec<(String, String)>) {
    let mut columns = Vec::new();
    let mut refused = Vec::new();
    for (leaf, descriptor) in metadata.file_metadata().schema_descr().columns().iter().enumerate() {
        let name = descriptor.path().string();
        match storage(descriptor) {
            Ok(storage) => {
                let may_be_null = storage.ty() != Type::Float && may_be_null(metadata, leaf, descriptor);
                columns.push(FileColumn { name, leaf, storage, may_be_null });
            }
            Err(why) => refused.push((name, why.to_owned())),
        }
    }
    (columns, refused)
}

fn storage(descriptor: &ColumnDescriptor) -> Result<Storage, &'static str> {
    if descriptor.max_rep_level() > 0 || descriptor.path().parts().len() > 1 {
        return Err("is nested; flatten it to one value per entry");
    }
    if matches!(descriptor.logical_type_ref(), Some(LogicalType::Decimal { .. }))
        || descriptor.converted_type() == ConvertedType::DECIMAL
    {
        return Err("is decimal; convert it to a float");
    }
    let is_unsigned = match descriptor.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(descriptor.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64),
    };
    match descriptor.physical_type() {
        Physical::FLOAT => Ok(Storage::F32),
        Physical::DOUBLE => Ok(Storage::F64),
        Physical::INT32 => Ok(if is_unsigned { Storage::U32 } else { Storage::I32 }),
        Physical::INT64 => Ok(if is_unsigned { Storage::U64 } else { Storage::I64 }),
        Physical::BOOLEAN => Ok(Storage::Bool),
        Physical::INT96 => Err("is an old 96-bit time stamp; convert it to 64 bits"),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => Err("is text or bytes, not numbers"),
    }
}

fn may_be_null(metadata: &ParquetMetaData, leaf: usize, descriptor: &ColumnDescriptor) -> bool {
    if descriptor.self_type().get_basic_info().repetition() == Repetition::REQUIRED {
        return false;
    }
    let has_none = |chunk: &ColumnChunkMetaData| {
        chunk.statistics().and_then(parquet::file::statistics::Statistics::null_count_opt) == Some(0)
    };
    !metadata.row_groups().iter().all(|group| has_none(group.column(leaf)))
}

fn decode(
    window: Window,
    chunk: &ColumnChunkMetaData,
    storage: Storage,
    rows: usize,
) -> Result<Array, ParquetError> {
    let pages = SerializedPageReader::new(Arc::new(window), chunk, rows, None)?;
    let optional = chunk.column_descr().max_def_level() > 0;
    let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
    Ok(match reader {
        ColumnReader::FloatColumnReader(reader) => {
            let (values, present) = values(reader, rows, optional)?;
            Array::F32(match present {
                None => values,
                Some(present) => spread(&present, values.into_iter(), f32::NAN),
            })
        }
        ColumnReader::DoubleColumnReader(reader) => {
            let (values, present) = values(reader, rows, optional)?;
            Array::F64(match present {
                None => values,
                Some(present) => spread(&present, values.into_iter(), f64::NAN),
            })
        }
        ColumnReader::Int32ColumnReader(reader) => {
            let (values, present) = values(reader, rows, optional)?;
            let unsigned = |value: i32| i64::from(value.cast_unsigned());
            match (storage, present) {
                (Storage::U32, None) => Array::I64(values.into_iter().map(unsigned).collect()),
                (Storage::U32, Some(present)) => {
                    Array::F64(spread(&present, values.into_iter().map(|v| unsigned(v) as f64), f64::NAN))
                }
                (_, None) => Array::I32(values),
                (_, Some(present)) => {
                    Array::F64(spread(&present, values.into_iter().map(f64::from), f64::NAN))
                }
            }
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let (values, present) = values(reader, rows, optional)?;
            if storage == Storage::U64 && values.iter().any(|value| *value < 0) {
                return Err(ParquetError::NYI("unsigned value above 2**63".to_owned()));
            }
            match present {
                None => Array::I64(values),
                Some(present) => Array::F64(spread(&present, values.into_iter().map(|v| v as f64), f64::NAN)),
            }
        }
        ColumnReader::BoolColumnReader(reader) => {
            let (values, present) = values(reader, rows, optional)?;
            match present {
                None => Array::Bool(values.into_iter().map(u8::from).collect()),
                Some(present) => {
                    Array::F64(spread(&present, values.into_iter().map(|v| f64::from(u8::from(v))), f64::NAN))
                }
            }
        }
        _ => return Err(ParquetError::NYI("column is not numeric".to_owned())),
    })
}

/// Values in order, and which rows have one unless all do.
type Decoded<T> = (Vec<T>, Option<Vec<i16>>);

fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
) -> Result<Decoded<T::T>, ParquetError> {
    let mut values = Vec::with_capacity(rows.min(DECODE_ROWS * 16));
    let mut levels = Vec::new();
    let mut all_levels = Vec::new();
    let mut done = 0;
    while done < rows {
        let wanted = (rows - done).min(DECODE_ROWS);
        levels.clear();
        let before = values.len();
        let (records, present, _) =
            reader.read_records(wanted, optional.then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            break;
        }
        debug_assert_eq!(values.len(), before + present);
        // Levels are kept from the first missing value on only: most optional columns have none.
        if optional && (present < records || !all_levels.is_empty()) {
            all_levels.resize(done, 1);
            all_levels.extend_from_slice(&levels);
        }
        done += records;
    }
    values.shrink_to_fit();
    Ok((values, (!all_levels.is_empty()).then_some(all_levels)))
}

/// Puts the values where a row has one, and `missing` elsewhere.
fn spread<T: Copy>(present: &[i16], mut values: impl Iterator<Item = T>, missing: T) -> Vec<T> {
    present.iter().map(|level| if *level > 0 { values.next().unwrap_or(missing) } else { missing }).collect()
}

/// A whole file as the library wants it; used for the footer.
struct SourceReader(Arc<dyn Source>);

impl Length for SourceReader {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for SourceReader {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let length = self.0.len().saturating_sub(start).min(FOOTER_BYTES_MAX);
        Ok(self.get_bytes(start, length as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.len()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are not in the file")));
        }
        let mut bytes = vec![0; length];
        self.0.read_at(start, &mut bytes).map_err(|failure| ParquetError::External(Box::new(failure)))?;
        Ok(bytes.into())
    }
}

/// One column chunk in memory, addressed as in the file.
struct Window {
    start: u64,
    bytes: Bytes,
}

impl Window {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        match at.filter(|at| *at <= self.bytes.len()) {
            Some(at) => Ok(self.bytes.slice(at..)),
            None => Err(ParquetError::EOF(format!("{start} is not in the column chunk"))),
        }
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Window {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let rest = self.from(start)?;
        if length > rest.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are not in the column chunk")));
        }
        Ok(rest.slice(..length))
    }
}

/// Opens any bytes as a Parquet file and decodes every column; a fuzz body.
pub fn fuzz_parquet(data: &[u8]) {
    let source = super::MemorySource::new("fuzz", data.to_vec());
    let Ok(file) = ParquetFile::open(Arc::new(source)) else {
        return;
    };
    for row_group in 0..file.row_groups().min(4) {
        for column in 0..file.columns.len().min(16) {
            let _ = file.read(row_group, column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Data, Layout, source, write};
    use super::*;
    use ::parquet::basic::{Compression, ZstdLevel};
    use proptest::prelude::*;

    fn some<T: Copy>(values: &[T]) -> Vec<Option<T>> {
        values.iter().map(|value| Some(*value)).collect()
    }

    fn sample(layout: &Layout) -> Vec<u8> {
        let floats: Vec<f32> = (0..2500u16).map(f32::from).collect();
        let longs: Vec<i64> = (0..2500).map(|i| i << 33).collect();
        write(
            &[
                ("a", "required float", Data::F32(some(&floats))),
                (
                    "b",
                    "optional double",
                    Data::F64(floats.iter().map(|x| (*x as i32 % 3 != 0).then_some(f64::from(*x))).collect()),
                ),
                ("c", "optional int64", Data::I64(some(&longs))),
                ("d", "optional int32", Data::I32((0..2500).map(|i| (i != 1700).then_some(i)).collect())),
                ("e", "required boolean", Data::Bool((0..2500).map(|i| Some(i % 2 == 1)).collect())),
                ("f", "required binary", Data::Text(vec![Some("x"); 2500])),
            ],
            layout,
        )
    }

    fn layouts() -> Vec<Layout> {
        let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
        [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd]
            .into_iter()
            .flat_map(|compression| [(compression, false), (compression, true)])
            .map(|(compression, is_version_2)| Layout { compression, is_version_2, ..Layout::default() })
            .collect()
    }

    #[test]
    fn every_kind_of_column_is_read() {
        for layout in layouts() {
            let file = ParquetFile::open(source("f.parquet", sample(&layout))).unwrap();
            assert_eq!((file.entries(), file.row_groups(), file.rows(2)), (2500, 3, 500));
            let types: Vec<Type> = file.schema().columns.iter().map(|column| column.ty).collect();
            assert_eq!(types, [Type::Float, Type::Float, Type::Int, Type::Float, Type::Bool]);
            assert_eq!(file.schema().refused, [("f".to_owned(), "is text or bytes, not numbers".to_owned())]);
            assert_eq!(file.read(2, 0).unwrap(), Array::F32((2000..2500u16).map(f32::from).collect()));
            let Array::F64(b) = file.read(1, 1).unwrap() else { panic!("b") };
            assert!((0..1000).all(|i| if (1000 + i) % 3 == 0 {
                b[i].is_nan()
            } else {
                b[i] == (1000 + i) as f64
            }));
            assert_eq!(file.read(0, 2).unwrap(), Array::I64((0..1000).map(|i| i << 33).collect()));
            assert_eq!(file.read(0, 3).unwrap(), Array::I32((0..1000).collect()));
            let Array::F64(d) = file.read(1, 3).unwrap() else { panic!("d") };
            assert!(d[700].is_nan() && d[699] == 1699.0 && d[701] == 1701.0);
            assert_eq!(file.read(0, 4).unwrap(), Array::Bool((0..1000).map(|i| (i % 2) as u8).collect()));
        }
    }

    #[test]
    fn without_statistics_integers_may_be_missing() {
        let layout = Layout { has_statistics: false, ..Layout::default() };
        let file = ParquetFile::open(source("f.parquet", sample(&layout))).unwrap();
        assert_eq!(file.schema().columns[2].ty, Type::Float);
        assert_eq!(file.stored_type(2), Type::Int);
    }

    #[test]
    fn nested_columns_are_refused_with_a_reason() {
        let schema =
            "message m { required group v (LIST) { repeated group list { required float element; } } }";
        let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        parquet::file::writer::SerializedFileWriter::new(&mut bytes, schema, Arc::default())
            .unwrap()
            .close()
            .unwrap();
        let file = ParquetFile::open(source("n", bytes)).unwrap();
        assert!(file.schema().columns.is_empty());
        assert!(file.schema().refused[0].1.starts_with("is nested"));
    }

    #[test]
    fn what_is_no_parquet_file_is_corrupt() {
        for bytes in [
            vec![],
            vec![0; 11],
            vec![0; 100],
            b"PAR1\xff\xff\xff\x7fPAR1".to_vec(),
            b"PAR1\x04\0\0\0PAR1".to_vec(),
        ] {
            let failure = ParquetFile::open(source("g", bytes)).unwrap_err();
            assert_eq!(failure.kind, base::ErrorKind::Corrupt, "{failure}");
            assert!(failure.what.starts_with("g: "));
        }
        let mut cut = sample(&Layout::default());
        cut.drain(4..5000);
        assert!(ParquetFile::open(source("h", cut)).and_then(|file| file.read(2, 0)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_never_panic(mut data in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_parquet(&data);
            data.extend(b"\x20\0\0\0PAR1");
            fuzz_parquet(&data);
        }

        #[test]
        fn damaged_files_never_panic(
            which in 0usize..6,
            at in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
            byte: u8,
            in_footer: bool,
        ) {
            let mut bytes = sample(&layouts()[which]);
            let length = bytes.len();
            let footer = u32::from_le_bytes(bytes[length - 8..length - 4].try_into().unwrap()) as usize;
            for at in at {
                let place = if in_footer { length - 8 - footer + at.index(footer) } else { at.index(length) };
                bytes[place] = byte;
            }
            fuzz_parquet(&bytes);
        }
    }
}
