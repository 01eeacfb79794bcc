//! Reading of bytes that may be damaged, in both byte orders: keys of a ROOT file are big-endian, RNTuple envelopes and cached
//! columns are little-endian.

use parquet::errors::ParquetError;

/// `General` is damage, `NYI` is what the reader does not know; `super::guard` makes failures of both.
pub(super) type Parsed<T> = Result<T, ParquetError>;

pub(super) fn corrupt<T>(what: impl Into<String>) -> Parsed<T> {
    Err(ParquetError::General(what.into()))
}

pub(super) fn unsupported<T>(what: impl Into<String>) -> Parsed<T> {
    Err(ParquetError::NYI(what.into()))
}

/// The words that some bytes are; less than a word at their end is left out.
pub fn words<T, const SIZE: usize>(bytes: &[u8], word: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| word(*chunk)).collect()
}

/// The unread rest of some bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

macro_rules! numbers {
    ($($name:ident $number:ty, $from:ident;)*) => {
        $(pub(super) fn $name(&mut self) -> Parsed<$number> {
            Ok(<$number>::$from(self.array()?))
        })*
    };
}

impl<'a> Cursor<'a> {
    numbers! {
        u16 u16, from_le_bytes;
        u32 u32, from_le_bytes;
        u64 u64, from_le_bytes;
        i64 i64, from_le_bytes;
        f64 f64, from_le_bytes;
        big_u16 u16, from_be_bytes;
        big_u32 u32, from_be_bytes;
        big_u64 u64, from_be_bytes;
    }

    pub(super) fn take(&mut self, count: usize) -> Parsed<&'a [u8]> {
        match self.0.split_at_checked(count) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => corrupt("ends too early"),
        }
    }

    /// So many words.
    pub(super) fn words<T, const SIZE: usize>(
        &mut self,
        count: usize,
        word: impl Fn([u8; SIZE]) -> T,
    ) -> Parsed<Vec<T>> {
        Ok(words(self.take(count.saturating_mul(SIZE))?, word))
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        self.take(N).map(|bytes| bytes.try_into().unwrap_or([0; N]))
    }

    /// A string of an envelope: length in four bytes, UTF-8.
    pub(super) fn text(&mut self) -> Parsed<String> {
        let length = self.u32()? as usize;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A string of a key: length in one byte, or 255 and four bytes.
    pub(super) fn key_text(&mut self) -> Parsed<String> {
        let length = match self.take(1)?[0] {
            255 => self.big_u32()? as usize,
            length => usize::from(length),
        };
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// An offset or a length of a key: eight bytes if it is of a large file, else four.
    pub(super) fn big_word(&mut self, is_large: bool) -> Parsed<u64> {
        if is_large { self.big_u64() } else { self.big_u32().map(u64::from) }
    }

    fn frame(&mut self) -> Parsed<(bool, Self)> {
        let size = self.i64()?;
        let Some(payload) = size.unsigned_abs().checked_sub(8).and_then(|size| usize::try_from(size).ok())
        else {
            return corrupt(format!("frame of {size} bytes"));
        };
        Ok((size < 0, Self(self.take(payload)?)))
    }

    /// The payload of a record frame.
    pub(super) fn record(&mut self) -> Parsed<Self> {
        match self.frame()? {
            (false, record) => Ok(record),
            (true, _) => corrupt("a list stands where a record is expected"),
        }
    }

    /// Number of items and payload of a list frame.
    pub(super) fn list(&mut self) -> Parsed<(usize, Self)> {
        let (true, mut list) = self.frame()? else {
            return corrupt("a record stands where a list is expected");
        };
        let count = list.u32()? as usize;
        // Every item takes a byte at least.
        if count > list.0.len() {
            return corrupt(format!("list of {count} items in {} bytes", list.0.len()));
        }
        Ok((count, list))
    }
}
