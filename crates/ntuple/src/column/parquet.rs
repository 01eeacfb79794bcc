//! One Parquet file: its footer, its columns, and the bytes of a column chunk.

use super::{
    Kind, Source, Values, arrow,
    declared::{Declared, Storage},
    decode::{Window, decode, missing},
    footer::{UnreadableLeaves, obstacles},
    guard::guarded,
};
use base::{ErrorKind, Failure, Result};
use parquet::{
    basic::Repetition,
    file::metadata::{
        ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
    },
};
use std::{collections::HashMap, sync::Arc};

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
        Ok(Self { identity: source.identity().into(), source, metadata, columns })
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
        let values = guarded(self.name(), &what, || decode(window, chunk, storage, rows))?;
        if values.array.len() != rows {
            return Err(Failure::corrupt(format!(
                "{}: {what}: {} values of {rows}",
                self.name(),
                values.array.len()
            )));
        }
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
fn survey(metadata: &ParquetMetaData, obstacles: &UnreadableLeaves) -> Vec<FileColumn> {
    let remarks = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let schema = remarks.filter(|remark| remark.key == arrow::KEY).find_map(|remark| remark.value.as_deref());
    let durations = schema.map(arrow::durations).unwrap_or_default();
    let leaves = metadata.file_metadata().schema_descr().columns();
    let mut flat: HashMap<String, usize> = HashMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.path().parts().len() == 1) {
        *flat.entry(leaf.path().string()).or_default() += 1;
    }
    let column = |(number, leaf): (usize, &parquet::schema::types::ColumnDescPtr)| {
        let name = leaf.path().string();
        let declared = Declared::new(leaf, durations.get(&name).copied());
        let storage = match (flat.get(&name), obstacles.columns.get(&name)) {
            (Some(count), _) if *count > 1 && leaf.path().parts().len() == 1 => {
                Err(format!("is there {count} times; give each a name of its own"))
            }
            (_, Some(obstacle)) => Err(obstacle.clone()),
            _ => declared.storage(leaf.physical_type()).map_err(str::to_owned),
        };
        let is_optional = leaf.self_type().get_basic_info().repetition() != Repetition::REQUIRED;
        FileColumn { name, declared, is_optional, leaf: number, storage }
    };
    leaves.iter().enumerate().map(column).collect()
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
    use super::{
        super::{
            Array,
            testing::{Data, Layout, source, write},
        },
        *,
    };
    use ::parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
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
        [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(ZstdLevel::try_new(1).unwrap()),
            Compression::GZIP(GzipLevel::try_new(6).unwrap()),
            Compression::BROTLI(BrotliLevel::try_new(1).unwrap()),
            Compression::LZ4,
            Compression::LZ4_RAW,
        ]
        .into_iter()
        .flat_map(|compression| [(compression, false), (compression, true)])
        .map(|(compression, is_version_2)| Layout { compression, is_version_2, ..Layout::default() })
        .collect()
    }

    fn kinds(file: &ParquetFile) -> Vec<Result<Kind, &str>> {
        file.columns().iter().map(FileColumn::kind).collect()
    }

    #[test]
    fn every_kind_of_column_is_read() {
        for layout in layouts() {
            let file = ParquetFile::open(source("f.parquet", sample(&layout))).unwrap();
            assert_eq!((file.entries(), file.row_groups(), file.rows(2)), (2500, 3, 500));
            let text = Err("is text or bytes, not numbers");
            let numbers = [Kind::F32, Kind::F64, Kind::I64, Kind::I32, Kind::Bool].map(Ok);
            assert_eq!(kinds(&file), [&numbers[..], &[text]].concat());
            let all = |array: Array| Values::from(array);
            assert_eq!(file.read(2, 0).unwrap(), all(Array::F32((2000..2500u16).map(f32::from).collect())));
            let Values { array: Array::F64(b), present: None } = file.read(1, 1).unwrap() else {
                panic!("b")
            };
            assert!((0..1000).all(|i| if (1000 + i) % 3 == 0 {
                b[i].is_nan()
            } else {
                b[i] == (1000 + i) as f64
            }));
            assert_eq!(file.read(0, 2).unwrap(), all(Array::I64((0..1000).map(|i| i << 33).collect())));
            assert_eq!(file.read(0, 3).unwrap(), all(Array::I32((0..1000).collect())));
            let d = file.read(1, 3).unwrap();
            let Values { array: Array::I32(values), present: Some(present) } = d else { panic!("d") };
            assert!((0..1000).all(|i| present[i] == u8::from(i != 700)));
            assert!((0..1000).all(|i| i == 700 || values[i] == 1000 + i as i32));
            assert_eq!(
                file.read(0, 4).unwrap(),
                all(Array::Bool((0..1000).map(|i| (i % 2) as u8).collect()))
            );
            assert_eq!(file.read(0, 5).unwrap_err().kind, ErrorKind::Unsupported);
        }
    }

    #[test]
    fn types_do_not_depend_on_statistics() {
        let open = |has_statistics| {
            let layout = Layout { has_statistics, ..Layout::default() };
            ParquetFile::open(source("f.parquet", sample(&layout))).unwrap()
        };
        let (with, without) = (open(true), open(false));
        assert_eq!(kinds(&with), kinds(&without));
        let optional = |file: &ParquetFile| -> Vec<bool> {
            file.columns().iter().map(|column| column.is_optional).collect()
        };
        assert_eq!(optional(&with), [false, true, true, true, false, false]);
        assert_eq!(optional(&with), optional(&without));
        assert_eq!(with.read(1, 3).unwrap(), without.read(1, 3).unwrap());
    }

    #[test]
    fn two_columns_of_one_name_are_not_supported() {
        let x = ("x", "required float", Data::F32(some(&[1.0])));
        let columns = [x.clone(), ("y", "required float", Data::F32(some(&[2.0]))), x];
        let file = ParquetFile::open(source("f", write(&columns, &Layout::default()))).unwrap();
        let twice = Err("is there 2 times; give each a name of its own");
        assert_eq!(kinds(&file), [twice, Ok(Kind::F32), twice]);
    }

    #[test]
    fn what_is_encrypted_is_not_damaged() {
        let mut bytes = sample(&Layout::default());
        let end = bytes.len();
        bytes[end - 1] = b'E';
        let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
        assert_eq!((failure.kind, &*failure.what), (ErrorKind::Unsupported, "f: is encrypted"));
    }

    /// `bytes` of an uncompressed file, with the codec of column `name` in the footer replaced.
    fn with_codec(bytes: &mut [u8], name: &str, codec: u8) {
        let mut head = vec![0x19, 0x18, name.len() as u8];
        head.extend(name.as_bytes());
        head.push(0x15);
        let places: Vec<usize> =
            (0..bytes.len() - head.len()).filter(|at| bytes[*at..].starts_with(&head)).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at + head.len()] = codec << 1;
        }
    }

    #[test]
    fn codecs_that_are_not_read_are_named() {
        let layout = Layout { compression: Compression::UNCOMPRESSED, ..Layout::default() };
        let mut bytes = sample(&layout);
        with_codec(&mut bytes, "c", 3);
        let file = ParquetFile::open(source("f", bytes.clone())).unwrap();
        assert_eq!(kinds(&file)[2], Err("is compressed with LZO, which is not supported"));
        assert_eq!(file.read(0, 0).unwrap().array.len(), 1000);
        with_codec(&mut bytes, "c", 9);
        let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unsupported);
        assert_eq!(failure.what, "f: column \"c\" is compressed with codec 9, which is not known");
    }

    #[test]
    fn a_column_chunk_before_the_file_is_damaged_and_quiet() {
        let columns = [("x", "required double", Data::F64(some(&[1.0])))];
        let layout = Layout { has_statistics: false, ..Layout::default() };
        let mut bytes = write(&columns, &layout);
        // data_page_offset, or dictionary_page_offset: 4 as a zigzag number, in the footer.
        let footer =
            bytes.len() - 8 - u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
        let at = (footer..bytes.len() - 1)
            .find(|at| [[0x26, 8], [0x36, 8]].contains(&[bytes[*at], bytes[at + 1]]));
        bytes[at.unwrap() + 1] = 7;
        let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Corrupt);
        assert!(failure.what.starts_with("f: footer: column \"x\" begins before the file"), "{failure}");
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
        assert!(kinds(&file)[0].unwrap_err().starts_with("is nested"));
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
            which in 0usize..14,
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
