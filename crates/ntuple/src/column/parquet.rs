//! One Parquet file: its footer, its columns, and the bytes of a column chunk.

use super::{
    DataFile, FileColumn, Kind, Source, Values, arrow,
    declared::{Declared, Storage},
    decode::{Levels, Window, decode, missing},
    file::check_rows,
    footer::{UnreadableLeaves, obstacles},
    guard::guarded,
    shape::{Shape, shapes},
};
use base::{ErrorKind, Failure, Result};
use parquet::{
    file::metadata::{
        ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
    },
    schema::types::ColumnDescPtr,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Longest footer: a file of ten thousand columns and a thousand row groups fits.
const FOOTER_BYTES_MAX: u64 = 512 << 20;
/// Longest compressed column chunk.
const CHUNK_BYTES_MAX: u64 = 2 << 30;

/// Where the values of a column are.
#[derive(Debug)]
struct Leaf {
    /// Of a list: the least definition level of an entry with an element.
    element: Option<i16>,
    /// Index among the leaves of the schema.
    index: usize,
    /// How it is decoded, or why it cannot be used.
    storage: Result<Storage, String>,
    /// Whether it is read as a float by request.
    is_number: bool,
}

/// One Parquet file with its metadata.
pub struct ParquetFile {
    source: Arc<dyn Source>,
    identity: Arc<str>,
    metadata: ParquetMetaData,
    columns: Vec<FileColumn>,
    /// For each column.
    leaves: Vec<Leaf>,
    /// Offsets of lists that are in use, by row group: columns of one collection share them. Held for a look only.
    offsets: Mutex<HashMap<usize, Vec<Weak<Vec<u32>>>>>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self as &dyn DataFile).fmt(f)
    }
}

impl ParquetFile {
    /// Reads the footer of `source`.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        Self::open_with(source, &[])
    }

    /// Reads the footer of `source`; see [`super::OpenOptions::numbers`].
    pub fn open_with(source: Arc<dyn Source>, numbers: &[String]) -> Result<Self> {
        let name = source.name().to_owned();
        let footer = read_footer(&*source)?;
        let obstacles = obstacles(&footer);
        // Nothing here depends on statistics, so none can be in the way.
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let decode = || ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options));
        let metadata =
            guarded(&name, "footer", decode).map_err(|failure| blame(&name, &obstacles, failure))?;
        if let Some(what) = &obstacles.misplaced {
            return Err(Failure::corrupt(format!("{name}: footer: {what}"))
                .hint("compare the file with its checksum, or copy it again"));
        }
        let columns = guarded(&name, "schema", || Ok(survey(&metadata, &obstacles, numbers)))?;
        let (columns, leaves) = columns.into_iter().unzip();
        for group in metadata.row_groups() {
            check_rows(&name, group.num_rows().cast_unsigned())?;
        }
        let identity = source.identity().into();
        Ok(Self { identity, source, metadata, columns, leaves, offsets: Mutex::default() })
    }

    /// The same offsets as another column of the row group has, if one has them.
    fn shared(&self, row_group: usize, offsets: Arc<Vec<u32>>) -> Arc<Vec<u32>> {
        let mut known = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(row_group).or_default();
        known.retain(|known| known.strong_count() > 0);
        match known.iter().filter_map(Weak::upgrade).find(|known| *known == offsets) {
            Some(same) => same,
            None => {
                known.push(Arc::downgrade(&offsets));
                offsets
            }
        }
    }
}

impl DataFile for ParquetFile {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    fn version(&self) -> String {
        self.source.version()
    }

    fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    fn rows(&self, row_group: usize) -> usize {
        // Checked at open.
        self.metadata.row_group(row_group).num_rows() as usize
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

    fn cache_key(&self, column: usize) -> (&Arc<str>, usize) {
        let number = if self.leaves[column].is_number { column + self.columns.len() } else { column };
        (&self.identity, number)
    }

    fn read_nothing(&self, row_group: usize, column: usize, kind: Kind) -> Option<Values> {
        self.columns[column].is_all_missing().then(|| missing(kind, self.rows(row_group)))
    }

    fn read(&self, row_group: usize, column: usize) -> Result<Values> {
        let leaf = &self.leaves[column];
        let what = format!("row group {row_group}, column {:?}", self.columns[column].name);
        let storage = match &leaf.storage {
            Ok(storage) => *storage,
            Err(why) => return Err(Failure::unsupported(format!("{}: {what} {why}", self.name()))),
        };
        let rows = self.rows(row_group);
        if let Some(values) = self.read_nothing(row_group, column, storage.kind()) {
            return Ok(values);
        }
        let chunk = self.metadata.row_group(row_group).column(leaf.index);
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
        let levels = Levels::new(rows, leaf.element, chunk);
        let mut values = guarded(self.name(), &what, || decode(window, chunk, storage, levels))?;
        if values.rows() != rows {
            return Err(Failure::corrupt(format!(
                "{}: {what}: {} values of {rows}",
                self.name(),
                values.rows()
            )));
        }
        values.offsets = values.offsets.map(|offsets| self.shared(row_group, offsets));
        Ok(values)
    }
}

/// The bytes of the footer.
fn read_footer(source: &dyn Source) -> Result<Vec<u8>> {
    let name = source.name();
    let refuse =
        |why: &str| Err(Failure::corrupt(format!("{name}: {why}")).hint("n-tuples are Parquet files"));
    let size = source.len();
    if size < 12 {
        return refuse("not a Parquet file: too short");
    }
    let mut tail = [0; 8];
    source.read_at(size - 8, &mut tail)?;
    if &tail[4..] == b"PARE" {
        return Err(Failure::unsupported(format!("{name}: is encrypted")).hint("write it without encryption"));
    }
    if &tail[4..] != b"PAR1" {
        return refuse("not a Parquet file: it does not end with PAR1");
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length > FOOTER_BYTES_MAX || length + 8 > size {
        return refuse("footer is longer than the file");
    }
    let mut footer = vec![0; length as usize];
    source.read_at(size - 8 - length, &mut footer)?;
    Ok(footer)
}

/// Tells why the library could not read a footer: it may be whole, and only say what the library does not know.
fn blame(name: &str, obstacles: &UnreadableLeaves, failure: Failure) -> Failure {
    match obstacles.columns.iter().next() {
        Some((column, why)) if failure.kind == ErrorKind::Corrupt => {
            Failure::unsupported(format!("{name}: column {column:?} {why}"))
        }
        _ => failure,
    }
}

/// Sorts the leaves of the schema into columns that can be used and those that cannot.
fn survey(
    metadata: &ParquetMetaData,
    obstacles: &UnreadableLeaves,
    numbers: &[String],
) -> Vec<(FileColumn, Leaf)> {
    let remarks = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let schema = remarks.filter(|remark| remark.key == arrow::KEY).find_map(|remark| remark.value.as_deref());
    let durations = schema.map(arrow::durations).unwrap_or_default();
    let schema = metadata.file_metadata().schema_descr();
    let shapes = shapes(schema);
    let mut names: HashMap<&str, usize> = HashMap::new();
    for shape in &shapes {
        *names.entry(&shape.name).or_default() += 1;
    }
    let leaves = schema.columns().iter().zip(&shapes).enumerate();
    let column = |(index, (leaf, shape)): (usize, (&ColumnDescPtr, &Shape))| {
        let name = shape.name.clone();
        let declared = Declared::new(leaf, durations.get(&name).copied());
        let number = numbers.contains(&name).then(|| declared.number()).flatten();
        let is_number = number.is_some();
        let is_without_values = declared == Declared::Null && shape.element.is_some();
        let storage = match (names.get(&*name), obstacles.columns.get(&leaf.path().string())) {
            (Some(count), _) if *count > 1 => {
                Err(format!("is there {count} times; give each a name of its own"))
            }
            (_, Some(obstacle)) => Err(obstacle.clone()),
            _ if is_without_values => Err("is a list of nothing but missing values".to_owned()),
            _ => match shape.refused {
                Some(why) => Err(why.to_owned()),
                None => match number {
                    Some(number) => Ok(number),
                    None => declared.storage(leaf.physical_type()).map_err(str::to_owned),
                },
            },
        };
        let declared = if is_number { Declared::Float(64) } else { declared };
        // An empty list misses nothing: what counts is whether its elements can be missing.
        let is_optional = leaf.max_def_level() > shape.element.unwrap_or(0);
        let kind = storage.clone().map(Storage::kind);
        let about = FileColumn { name, declared, is_optional, is_list: shape.element.is_some(), kind };
        (about, Leaf { element: shape.element, index, storage, is_number })
    };
    leaves.map(column).collect()
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
#[path = "parquet_tests.rs"]
mod tests;
