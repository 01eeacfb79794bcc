//! From the pages of a column chunk to values.

use super::{
    Array, Kind, Values,
    declared::Storage,
    number::{half, seconds, whole},
};
use bytes::{Buf, Bytes, buf::Reader};
use parquet::{
    basic::{Encoding, Type as Physical},
    column::{
        page::{Page, PageMetadata, PageReader},
        reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    },
    data_type::DataType,
    errors::ParquetError,
    file::{
        metadata::ColumnChunkMetaData,
        reader::{ChunkReader, Length},
        serialized_reader::SerializedPageReader,
    },
};
use std::sync::Arc;

/// Rows decoded at a time.
const DECODE_ROWS: usize = 1 << 16;
/// Most elements that the lists of a column chunk have: run-length encoding makes any number of them of a few bytes.
const ELEMENTS_MAX: usize = 1 << 28;

/// What to make of the levels of a column chunk.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    /// Rows that the chunk must have.
    pub(super) rows: usize,
    /// For a list: the least definition level of a row with an element.
    pub(super) element: Option<i16>,
    /// Definition level of a value.
    full: i16,
}

impl Levels {
    pub(super) fn new(rows: usize, element: Option<i16>, chunk: &ColumnChunkMetaData) -> Self {
        Self { rows, element, full: chunk.column_descr().max_def_level() }
    }
}

/// Decodes a column chunk.
pub(super) fn decode(
    window: Window,
    chunk: &ColumnChunkMetaData,
    storage: Storage,
    levels: Levels,
) -> Result<Values, ParquetError> {
    let pages = Pages::new(window, chunk, levels.rows)?;
    Ok(match get_column_reader(chunk.column_descr_ptr(), Box::new(pages)) {
        ColumnReader::FloatColumnReader(reader) => values(reader, levels)?.floats(f32::NAN, Array::F32),
        ColumnReader::DoubleColumnReader(reader) => values(reader, levels)?.floats(f64::NAN, Array::F64),
        ColumnReader::FixedLenByteArrayColumnReader(reader) if storage == Storage::F16 => {
            values(reader, levels)?.map(|value| half(&value))?.floats(f32::NAN, Array::F32)
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) if storage.is_decimal() => {
            let values = values(reader, levels)?;
            values.map(|value| Ok(storage.float(whole(value.data())?)))?.floats(f64::NAN, Array::F64)
        }
        ColumnReader::ByteArrayColumnReader(reader) if storage.is_decimal() => {
            let values = values(reader, levels)?;
            values.map(|value| Ok(storage.float(whole(value.data())?)))?.floats(f64::NAN, Array::F64)
        }
        ColumnReader::Int96ColumnReader(reader) if storage == Storage::Int96 => {
            values(reader, levels)?.map(|value| Ok(seconds(value.data())))?.floats(f64::NAN, Array::F64)
        }
        ColumnReader::Int32ColumnReader(reader) => {
            let decoded = values(reader, levels)?;
            if storage == Storage::U32 {
                decoded.map(|value| Ok(i64::from(value.cast_unsigned())))?.others(0, Array::I64)
            } else if storage.kind() == Kind::F64 {
                decoded.map(|value| Ok(storage.float(value.into())))?.floats(f64::NAN, Array::F64)
            } else {
                decoded.others(0, Array::I32)
            }
        }
        ColumnReader::Int64ColumnReader(reader) if storage.kind() == Kind::F64 => {
            let values = values(reader, levels)?;
            values.map(|value| Ok(storage.float(value.into())))?.floats(f64::NAN, Array::F64)
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let decoded = values(reader, levels)?;
            let too_large = decoded.values.iter().find(|value| storage == Storage::U64 && **value < 0);
            if let Some(value) = too_large {
                let value = value.cast_unsigned();
                return Err(ParquetError::NYI(format!(
                    "{value} is too large: unsigned values up to {} are possible",
                    i64::MAX
                )));
            }
            decoded.others(0, Array::I64)
        }
        ColumnReader::BoolColumnReader(reader) => {
            values(reader, levels)?.map(|value| Ok(u8::from(value)))?.others(0, Array::Bool)
        }
        _ => return Err(ParquetError::NYI("column is not numeric".to_owned())),
    })
}

/// `rows` values of `kind` that are all missing.
pub(super) fn missing(kind: Kind, rows: usize) -> Values {
    let array = match kind {
        Kind::F32 => return Array::F32(vec![f32::NAN; rows]).into(),
        Kind::F64 => return Array::F64(vec![f64::NAN; rows]).into(),
        Kind::I32 => Array::I32(vec![0; rows]),
        Kind::I64 => Array::I64(vec![0; rows]),
        Kind::Bool => Array::Bool(vec![0; rows]),
    };
    Values { array, present: Some(vec![0; rows]), offsets: None }
}

/// Values in order, which rows or elements have one unless all do, and where the list of each row begins.
struct Decoded<T> {
    values: Vec<T>,
    /// 1 for each that has a value, 0 for each that is missing.
    present: Option<Vec<u8>>,
    offsets: Option<Vec<u32>>,
}

impl<T: Copy> Decoded<T> {
    fn floats(self, nan: T, array: impl FnOnce(Vec<T>) -> Array) -> Values {
        let values = match self.present {
            None => self.values,
            Some(present) => spread(&present, &self.values, nan),
        };
        Values { array: array(values), present: None, offsets: self.offsets.map(Arc::new) }
    }

    fn others(self, zero: T, array: impl FnOnce(Vec<T>) -> Array) -> Values {
        let offsets = self.offsets.map(Arc::new);
        let Some(present) = self.present else {
            return Values { array: array(self.values), present: None, offsets };
        };
        let values = array(spread(&present, &self.values, zero));
        Values { array: values, present: Some(present), offsets }
    }
}

impl<T> Decoded<T> {
    fn map<U>(self, change: impl Fn(T) -> Result<U, ParquetError>) -> Result<Decoded<U>, ParquetError> {
        let values = self.values.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(Decoded { values, present: self.present, offsets: self.offsets })
    }
}

fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    levels: Levels,
) -> Result<Decoded<T::T>, ParquetError> {
    let Levels { rows, element, full } = levels;
    let mut values = Vec::with_capacity(rows.min(DECODE_ROWS * 16));
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    let mut shape = Shape { element, full, slots: 0, present: Vec::new(), offsets: Vec::new() };
    let mut done = 0;
    while done < rows {
        let wanted = (rows - done).min(DECODE_ROWS);
        definitions.clear();
        repetitions.clear();
        let before = values.len();
        let (records, present, _) = reader.read_records(
            wanted,
            (full > 0).then_some(&mut definitions),
            element.is_some().then_some(&mut repetitions),
            &mut values,
        )?;
        if records == 0 {
            break;
        }
        debug_assert_eq!(values.len(), before + present);
        if element.is_some() {
            shape.add_lists(&definitions, &repetitions, present)?;
        } else {
            shape.add_rows(&definitions, records, present);
        }
        done += records;
    }
    values.shrink_to_fit();
    let (present, offsets) = shape.finish();
    Ok(Decoded { values, present, offsets })
}

/// What levels tell, gathered batch by batch.
struct Shape {
    element: Option<i16>,
    full: i16,
    /// Rows, or elements of lists, so far.
    slots: usize,
    /// Kept from the first missing value on only: most optional columns have none.
    present: Vec<u8>,
    /// Where the list of each row begins.
    offsets: Vec<u32>,
}

impl Shape {
    fn add_rows(&mut self, definitions: &[i16], records: usize, present: usize) {
        if self.full > 0 && (present < records || !self.present.is_empty()) {
            self.present.resize(self.slots, 1);
            self.present.extend(definitions.iter().map(|level| u8::from(*level == self.full)));
        }
        self.slots += records;
    }

    fn add_lists(
        &mut self,
        definitions: &[i16],
        repetitions: &[i16],
        present: usize,
    ) -> Result<(), ParquetError> {
        let element = self.element.unwrap_or(0);
        let before = self.slots;
        for (definition, repetition) in definitions.iter().zip(repetitions) {
            if *repetition == 0 {
                self.offsets.push(self.slots as u32);
            }
            self.slots += usize::from(*definition >= element);
        }
        if self.slots > ELEMENTS_MAX {
            return Err(ParquetError::NYI(format!(
                "a row group with lists of more than {ELEMENTS_MAX} elements; write smaller row groups"
            )));
        }
        if present < self.slots - before || !self.present.is_empty() {
            self.present.resize(before, 1);
            let elements = definitions.iter().filter(|level| **level >= element);
            self.present.extend(elements.map(|level| u8::from(*level == self.full)));
        }
        Ok(())
    }

    fn finish(mut self) -> (Option<Vec<u8>>, Option<Vec<u32>>) {
        if self.element.is_some() {
            self.offsets.push(self.slots as u32);
            self.offsets.shrink_to_fit();
        }
        let offsets = self.element.map(|_| self.offsets);
        ((!self.present.is_empty()).then_some(self.present), offsets)
    }
}

/// Values of rows of which some have one, in an array: 1 for each that has.
pub(super) fn spread_array(array: Array, present: Option<Vec<u8>>) -> Values {
    let Some(present) = present else { return array.into() };
    let all = match &array {
        Array::F32(values) => return Array::F32(spread(&present, values, f32::NAN)).into(),
        Array::F64(values) => return Array::F64(spread(&present, values, f64::NAN)).into(),
        Array::I32(values) => Array::I32(spread(&present, values, 0)),
        Array::I64(values) => Array::I64(spread(&present, values, 0)),
        Array::Bool(values) => Array::Bool(spread(&present, values, 0)),
    };
    Values { array: all, present: Some(present), offsets: None }
}

/// Puts the values where a row has one, and `missing` elsewhere.
fn spread<T: Copy>(present: &[u8], values: &[T], missing: T) -> Vec<T> {
    let mut values = values.iter().copied();
    present
        .iter()
        .map(|is_there| if *is_there > 0 { values.next().unwrap_or(missing) } else { missing })
        .collect()
}

/// The pages of a column chunk. Errors say in which of them; an encoding that the type cannot have is not supported.
struct Pages {
    inner: SerializedPageReader<Window>,
    physical: Physical,
    /// Data pages read.
    read: usize,
    /// Whether the next page is the dictionary.
    is_dictionary_next: bool,
}

impl Pages {
    fn new(window: Window, chunk: &ColumnChunkMetaData, rows: usize) -> Result<Self, ParquetError> {
        let inner = SerializedPageReader::new(Arc::new(window), chunk, rows, None)?;
        let is_dictionary_next = chunk.dictionary_page_offset().is_some();
        Ok(Self { inner, physical: chunk.column_type(), read: 0, is_dictionary_next })
    }

    /// What the page that was asked for last is called.
    fn place(&self) -> String {
        if self.is_dictionary_next { "dictionary page".to_owned() } else { format!("page {}", self.read) }
    }

    fn check(&self, page: &Page) -> Result<(), ParquetError> {
        let is_known = match (page.encoding(), self.physical) {
            (Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY, _)
            | (Encoding::RLE, Physical::BOOLEAN)
            | (Encoding::DELTA_BINARY_PACKED, Physical::INT32 | Physical::INT64)
            | (Encoding::ALP, Physical::FLOAT | Physical::DOUBLE)
            | (Encoding::DELTA_BYTE_ARRAY, Physical::FIXED_LEN_BYTE_ARRAY | Physical::BYTE_ARRAY)
            | (Encoding::DELTA_LENGTH_BYTE_ARRAY, Physical::BYTE_ARRAY) => true,
            (Encoding::BYTE_STREAM_SPLIT, physical) => physical != Physical::BOOLEAN,
            _ => false,
        };
        if is_known {
            return Ok(());
        }
        let (encoding, physical) = (page.encoding(), self.physical);
        Err(ParquetError::NYI(format!(
            "{}: {encoding} is not supported as the encoding of {physical}",
            self.place()
        )))
    }

    /// Names the page in an error that the library gave.
    fn at_page(&self, cause: ParquetError) -> ParquetError {
        let what = match cause {
            ParquetError::General(what) | ParquetError::EOF(what) => what,
            ParquetError::External(cause) => cause.to_string(),
            other => return other,
        };
        ParquetError::General(format!("{}: {what}", self.place()))
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.inner.get_next_page().map_err(|cause| self.at_page(cause))?;
        let Some(page) = page else { return Ok(None) };
        self.is_dictionary_next = false;
        self.check(&page)?;
        self.read += usize::from(page.is_data_page());
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.inner.peek_next_page().map_err(|cause| self.at_page(cause))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.inner.skip_next_page().map_err(|cause| self.at_page(cause))
    }
}

/// One column chunk in memory, addressed as in the file.
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
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
