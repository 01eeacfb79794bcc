//! One Parquet file: its footer, its columns, and the bytes of a column chunk.

use super::{
    Kind, Source, Values, arrow,
    declared::{Declared, Storage},
    decode::{Levels, Window, decode, missing},
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
/// Most rows of a row group: run-length encoding makes any number of values of a few bytes, so memory needs a bound.
const ROW_GROUP_ROWS_MAX: usize = 1 << 26;

/// A column as one file has it.
#[derive(Debug)]
pub(crate) struct FileColumn {
    pub(crate) name: String,
    /// What the file declares it to be.
    pub(crate) declared: Declared,
    /// Whether the file declares that values can be missing. Statistics say nothing of it: they may be absent.
    pub(crate) is_optional: bool,
    /// Of a list: the least definition level of an entry with an element.
    element: Option<i16>,
    /// Index among the leaves of the schema.
    leaf: usize,
    /// How it is decoded, or why it cannot be used.
    storage: Result<Storage, String>,
}

impl FileColumn {
    /// How its values are kept, or why it cannot be used.
    pub(crate) fn kind(&self) -> Result<Kind, &str> {
        match &self.storage {
            Ok(storage) => Ok(storage.kind()),
            Err(why) => Err(why),
        }
    }

    /// Whether it has a list of values for each entry.
    pub(crate) fn is_list(&self) -> bool {
        self.element.is_some()
    }

    /// What the file declares it to be, as error messages call it.
    pub(crate) fn description(&self) -> String {
        if self.is_list() { format!("list of {}", self.declared) } else { self.declared.to_string() }
    }

    /// Whether it says of itself that it has no values: it goes with every other.
    pub(crate) fn is_all_missing(&self) -> bool {
        self.storage == Ok(Storage::Null)
    }
}

/// One Parquet file with its metadata.
pub struct ParquetFile {
    source: Arc<dyn Source>,
    identity: Arc<str>,
    metadata: ParquetMetaData,
    columns: Vec<FileColumn>,
    /// Offsets of lists that are in use, by row group: columns of one collection share them. Held for a look only.
    offsets: Mutex<HashMap<usize, Vec<Weak<Vec<u32>>>>>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFile").field("name", &self.name()).field("entries", &self.entries()).finish()
    }
}

impl ParquetFile {
    /// Reads the footer of `source`.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
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
        let columns = guarded(&name, "schema", || Ok(survey(&metadata, &obstacles)))?;
        for group in metadata.row_groups() {
            if !usize::try_from(group.num_rows()).is_ok_and(|rows| rows <= ROW_GROUP_ROWS_MAX) {
                return Err(Failure::unsupported(format!("{name}: row group of {} rows", group.num_rows()))
                    .hint(format!("write row groups of at most {ROW_GROUP_ROWS_MAX} rows")));
            }
        }
        Ok(Self { identity: source.identity().into(), source, metadata, columns, offsets: Mutex::default() })
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

    /// Equal on every host that sees the same content under its name.
    #[must_use]
    pub fn version(&self) -> String {
        self.source.version()
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

    /// The columns as the file declares them, in its order.
    pub(crate) fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    /// Fails if the name of the file leads to other content than when it was opened.
    pub(crate) fn check(&self) -> Result<()> {
        self.source.check()
    }

    /// Whether that waits for an answer from elsewhere.
    pub(crate) fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    /// The values of one column of one row group if no byte has to be read for them: all are missing.
    pub(crate) fn read_nothing(&self, row_group: usize, column: usize, kind: Kind) -> Option<Values> {
        self.columns[column].is_all_missing().then(|| missing(kind, self.rows(row_group)))
    }

    /// Decodes one column of one row group.
    pub fn read(&self, row_group: usize, column: usize) -> Result<Values> {
        let about = &self.columns[column];
        let what = format!("row group {row_group}, column {:?}", about.name);
        let storage = match &about.storage {
            Ok(storage) => *storage,
            Err(why) => return Err(Failure::unsupported(format!("{}: {what} {why}", self.name()))),
        };
        let rows = self.rows(row_group);
        if let Some(values) = self.read_nothing(row_group, column, storage.kind()) {
            return Ok(values);
        }
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
        let levels = Levels::new(rows, about.element, chunk);
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
fn survey(metadata: &ParquetMetaData, obstacles: &UnreadableLeaves) -> Vec<FileColumn> {
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
    let column = |(number, (leaf, shape)): (usize, (&ColumnDescPtr, &Shape))| {
        let name = shape.name.clone();
        let declared = Declared::new(leaf, durations.get(&name).copied());
        let is_without_values = declared == Declared::Null && shape.element.is_some();
        let storage = match (names.get(&*name), obstacles.columns.get(&leaf.path().string())) {
            (Some(count), _) if *count > 1 => {
                Err(format!("is there {count} times; give each a name of its own"))
            }
            (_, Some(obstacle)) => Err(obstacle.clone()),
            _ if is_without_values => Err("is a list of nothing but missing values".to_owned()),
            _ => match shape.refused {
                Some(why) => Err(why.to_owned()),
                None => declared.storage(leaf.physical_type()).map_err(str::to_owned),
            },
        };
        // An empty list misses nothing: what counts is whether its elements can be missing.
        let is_optional = leaf.max_def_level() > shape.element.unwrap_or(0);
        FileColumn { name, declared, is_optional, element: shape.element, leaf: number, storage }
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
