//! From the pages of a column chunk to values.

use super::{Array, Kind, Values, declared::Storage};
use bytes::{Buf, Bytes, buf::Reader};
use parquet::{
    basic::{Encoding, Type as Physical},
    column::{
        page::{Page, PageMetadata, PageReader},
        reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    },
    data_type::{DataType, FixedLenByteArray},
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

/// Decodes a column chunk of `rows` rows.
pub(super) fn decode(
    window: Window,
    chunk: &ColumnChunkMetaData,
    storage: Storage,
    rows: usize,
) -> Result<Values, ParquetError> {
    let pages = Pages::new(window, chunk, rows)?;
    let optional = chunk.column_descr().max_def_level() > 0;
    Ok(match get_column_reader(chunk.column_descr_ptr(), Box::new(pages)) {
        ColumnReader::FloatColumnReader(reader) => {
            Array::F32(values(reader, rows, optional)?.floats(f32::NAN)).into()
        }
        ColumnReader::DoubleColumnReader(reader) => {
            Array::F64(values(reader, rows, optional)?.floats(f64::NAN)).into()
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) if storage == Storage::F16 => {
            Array::F32(values(reader, rows, optional)?.map(|value| half(&value))?.floats(f32::NAN)).into()
        }
        ColumnReader::Int32ColumnReader(reader) => {
            let decoded = values(reader, rows, optional)?;
            if storage == Storage::U32 {
                decoded.map(|value| Ok(i64::from(value.cast_unsigned())))?.others(0, Array::I64)
            } else {
                decoded.others(0, Array::I32)
            }
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let decoded = values(reader, rows, optional)?;
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
            values(reader, rows, optional)?.map(|value| Ok(u8::from(value)))?.others(0, Array::Bool)
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
    Values { array, present: Some(vec![0; rows]) }
}

/// A 16-bit float with 32 bits, which hold each of its values.
fn half(bytes: &FixedLenByteArray) -> Result<f32, ParquetError> {
    let bytes: [u8; 2] =
        bytes.data().try_into().map_err(|_| ParquetError::General("value is not of 2 bytes".to_owned()))?;
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (u32::from(bits >> 10) & 0x1f, u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // 2⁻²⁴ is the smallest of all; the product is exact.
        0 => fraction as f32 * (1.0 / 16_777_216.0),
        31 => f32::from_bits(0xff << 23 | fraction << 13),
        _ => f32::from_bits((exponent + 127 - 15) << 23 | fraction << 13),
    };
    Ok(if bits >> 15 == 1 { -magnitude } else { magnitude })
}

/// Values in order, and which rows have one unless all do.
struct Decoded<T> {
    values: Vec<T>,
    levels: Option<Vec<i16>>,
}

impl<T: Copy> Decoded<T> {
    fn floats(self, nan: T) -> Vec<T> {
        match self.levels {
            None => self.values,
            Some(levels) => spread(&levels, &self.values, nan),
        }
    }

    fn others(self, zero: T, array: impl FnOnce(Vec<T>) -> Array) -> Values {
        let Some(levels) = self.levels else { return array(self.values).into() };
        let present = levels.iter().map(|level| u8::from(*level > 0)).collect();
        Values { array: array(spread(&levels, &self.values, zero)), present: Some(present) }
    }
}

impl<T> Decoded<T> {
    fn map<U>(self, change: impl Fn(T) -> Result<U, ParquetError>) -> Result<Decoded<U>, ParquetError> {
        let values = self.values.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(Decoded { values, levels: self.levels })
    }
}

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
    Ok(Decoded { values, levels: (!all_levels.is_empty()).then_some(all_levels) })
}

/// Puts the values where a row has one, and `missing` elsewhere.
fn spread<T: Copy>(levels: &[i16], values: &[T], missing: T) -> Vec<T> {
    let mut values = values.iter().copied();
    levels.iter().map(|level| if *level > 0 { values.next().unwrap_or(missing) } else { missing }).collect()
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
            | (Encoding::DELTA_BYTE_ARRAY, Physical::FIXED_LEN_BYTE_ARRAY) => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_is_exact() {
        let half = |bits: u16| half(&FixedLenByteArray::from(bits.to_le_bytes().to_vec())).unwrap();
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3c00, 1.0),
            (0x3c01, 1.0 + 2f32.powi(-10)),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(half(bits), value);
            assert_eq!(half(bits | 0x8000).to_bits(), (-value).to_bits());
        }
        assert!(half(0x7e00).is_nan());
    }
}
