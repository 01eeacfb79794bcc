//! Virtual cartridges: AWSTAPE (`spec/tape.md` §1).
//!
//! An image is a sequence of chunks. Each has six bytes of header and up to 65,535 bytes of data. One or several chunks
//! make a block. An empty chunk with a flag of its own is a tape mark. [`Scanner`] reads only the headers of an image, so
//! that a reader seeks over the data. [`join`] takes the data of one block out of its chunks.

use base::{ErrorKind, Failure};

/// Bytes of a chunk header (§1.1).
pub const CHUNK_HEADER_BYTES: usize = 6;
/// Most data of one chunk: what its 16-bit length field can say.
pub const CHUNK_DATA_BYTES_MAX: usize = 65_535;
/// Longest block: the 24-bit transfer length of SCSI READ and WRITE, so that a real drive could hold it too.
pub const BLOCK_BYTES_MAX: usize = (1 << 24) - 1;

const BEGINS: u8 = 0x80;
const MARK: u8 = 0x40;
const ENDS: u8 = 0x20;
const COMPRESSED: u8 = 0x03;

/// What a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    /// A tape mark; carries no data.
    Mark,
    /// A whole block.
    Whole,
    /// The beginning of a block that goes on.
    First,
    /// A piece between beginning and end.
    Middle,
    /// The end of a block that began before.
    Last,
}

/// The six bytes in front of every chunk (§1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Data bytes of this chunk.
    pub length: u16,
    /// Data bytes of the chunk before; 0 for the first chunk of an image.
    pub previous: u16,
    /// What the chunk is.
    pub kind: ChunkKind,
}

/// What is wrong with an image, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AwstapeError {
    /// The image ends inside a chunk or inside a block.
    #[error(
        "image is torn: the object at byte {offset} does not end before byte {image_bytes}, where the image ends"
    )]
    Torn {
        /// Where the unfinished block or header begins.
        offset: u64,
        /// Length of the image.
        image_bytes: u64,
    },
    /// Flags that mean nothing.
    #[error("chunk at byte {offset} has flags {flags1:#04x} {flags2:#04x}, which mean nothing")]
    Flags {
        /// Where the chunk begins.
        offset: u64,
        /// First flag byte.
        flags1: u8,
        /// Second flag byte.
        flags2: u8,
    },
    /// A chunk of a HET image, compressed.
    #[error("chunk at byte {offset} is compressed (HET)")]
    Compressed {
        /// Where the chunk begins.
        offset: u64,
    },
    /// A mark with data, or a data chunk without.
    #[error("chunk at byte {offset} is a {kind:?} of {length} bytes")]
    Length {
        /// Where the chunk begins.
        offset: u64,
        /// What the chunk says it is.
        kind: ChunkKind,
        /// Its length.
        length: u16,
    },
    /// The back link does not fit the chunk before.
    #[error("chunk at byte {offset} says {found} bytes come before it, but it is {expected}")]
    Previous {
        /// Where the chunk begins.
        offset: u64,
        /// Length of the chunk before.
        expected: u16,
        /// What the header says.
        found: u16,
    },
    /// A piece of a block without its beginning, or a beginning inside another block.
    #[error("chunk at byte {offset} is a {kind:?} where none can be")]
    Sequence {
        /// Where the chunk begins.
        offset: u64,
        /// What the chunk says it is.
        kind: ChunkKind,
    },
    /// A block longer than [`BLOCK_BYTES_MAX`].
    #[error("block at byte {offset} is longer than {BLOCK_BYTES_MAX} bytes")]
    TooLong {
        /// Where the block begins.
        offset: u64,
    },
}

impl From<AwstapeError> for Failure {
    fn from(error: AwstapeError) -> Self {
        let failure = |kind| Self::new(kind, error.to_string());
        match error {
            AwstapeError::Compressed { .. } => failure(ErrorKind::Unsupported)
                .hint("copy the image with `hetupd -d` to write it without compression"),
            _ => failure(ErrorKind::Corrupt),
        }
    }
}

impl ChunkHeader {
    /// The six bytes on the medium.
    #[must_use]
    pub fn encode(self) -> [u8; CHUNK_HEADER_BYTES] {
        let flags = match self.kind {
            ChunkKind::Mark => MARK,
            ChunkKind::Whole => BEGINS | ENDS,
            ChunkKind::First => BEGINS,
            ChunkKind::Middle => 0,
            ChunkKind::Last => ENDS,
        };
        let [length, previous] = [self.length.to_le_bytes(), self.previous.to_le_bytes()];
        [length[0], length[1], previous[0], previous[1], flags, 0]
    }

    /// Takes the header that lies at byte `offset` of an image apart; `offset` only names the place in errors.
    pub fn decode(bytes: [u8; CHUNK_HEADER_BYTES], offset: u64) -> Result<Self, AwstapeError> {
        let [l0, l1, p0, p1, flags1, flags2] = bytes;
        let kind = match (flags1, flags2) {
            (MARK, 0) => ChunkKind::Mark,
            (f, 0) if f == BEGINS | ENDS => ChunkKind::Whole,
            (BEGINS, 0) => ChunkKind::First,
            (0, 0) => ChunkKind::Middle,
            (ENDS, 0) => ChunkKind::Last,
            (f, _) if f & COMPRESSED != 0 && f & !(COMPRESSED | BEGINS | ENDS) == 0 => {
                return Err(AwstapeError::Compressed { offset });
            }
            _ => {
                return Err(AwstapeError::Flags { offset, flags1, flags2 });
            }
        };
        let length = u16::from_le_bytes([l0, l1]);
        if (kind == ChunkKind::Mark) != (length == 0) {
            return Err(AwstapeError::Length { offset, kind, length });
        }
        Ok(Self { length, previous: u16::from_le_bytes([p0, p1]), kind })
    }
}

/// Appends `block` as chunks to `image` and returns the length of its last chunk: the back link of what follows.
///
/// `previous` is the length of the chunk before. A block has 1 to [`BLOCK_BYTES_MAX`] bytes; the caller has checked.
pub fn encode_block(block: &[u8], previous: u16, image: &mut Vec<u8>) -> u16 {
    assert!(
        (1..=BLOCK_BYTES_MAX).contains(&block.len()),
        "a block of {} bytes cannot be written",
        block.len()
    );
    let last = (block.len() - 1) / CHUNK_DATA_BYTES_MAX;
    let mut previous = previous;
    image.reserve(block.len() + (last + 1) * CHUNK_HEADER_BYTES);
    for (index, data) in block.chunks(CHUNK_DATA_BYTES_MAX).enumerate() {
        let kind = match (index == 0, index == last) {
            (true, true) => ChunkKind::Whole,
            (true, false) => ChunkKind::First,
            (false, false) => ChunkKind::Middle,
            (false, true) => ChunkKind::Last,
        };
        let length = data.len() as u16;
        image.extend_from_slice(&ChunkHeader { length, previous, kind }.encode());
        image.extend_from_slice(data);
        previous = length;
    }
    previous
}

/// Appends a tape mark to `image`; the back link of what follows is 0.
pub fn encode_mark(previous: u16, image: &mut Vec<u8>) -> u16 {
    image.extend_from_slice(&ChunkHeader { length: 0, previous, kind: ChunkKind::Mark }.encode());
    0
}

/// Bytes that a block of `length` bytes takes in an image that [`encode_block`] writes.
#[must_use]
pub fn image_bytes(length: usize) -> u64 {
    (length + length.div_ceil(CHUNK_DATA_BYTES_MAX) * CHUNK_HEADER_BYTES) as u64
}

/// A block or a mark of an image: one logical object of the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Byte of the image where its first chunk header begins.
    pub offset: u64,
    /// Bytes of data; 0 means a tape mark.
    pub length: u32,
    /// Bytes of data in its last chunk: the back link of the object that follows.
    pub last_chunk: u16,
}

impl Object {
    /// Whether this is a tape mark.
    #[must_use]
    pub fn is_mark(self) -> bool {
        self.length == 0
    }
}

/// Walks an image chunk by chunk and reads only the headers.
///
/// The caller reads six bytes at [`Scanner::next_header`] and gives them to [`Scanner::take`]. It repeats this until
/// `next_header` returns `None`, because the image ends where a block or a tape mark ends, or until either fails. After
/// a failure the image is complete up to [`Scanner::readable_bytes`].
#[derive(Debug, Clone)]
pub struct Scanner {
    image_bytes: u64,
    offset: u64,
    previous: u16,
    /// The block whose end has not come yet.
    open: Option<Object>,
    readable_bytes: u64,
}

impl Scanner {
    /// Starts at the beginning of an image of `image_bytes` bytes.
    #[must_use]
    pub fn new(image_bytes: u64) -> Self {
        Self { image_bytes, offset: 0, previous: 0, open: None, readable_bytes: 0 }
    }

    /// Byte where the next header lies, whole; `None` at the end of the image.
    pub fn next_header(&self) -> Result<Option<u64>, AwstapeError> {
        match self.image_bytes - self.offset {
            0 if self.open.is_none() => Ok(None),
            left if left < CHUNK_HEADER_BYTES as u64 => Err(self.torn()),
            _ => Ok(Some(self.offset)),
        }
    }

    /// Takes the header at [`Scanner::next_header`], and returns the object that this chunk completes.
    pub fn take(&mut self, bytes: [u8; CHUNK_HEADER_BYTES]) -> Result<Option<Object>, AwstapeError> {
        let offset = self.offset;
        let header = ChunkHeader::decode(bytes, offset)?;
        if header.previous != self.previous {
            return Err(AwstapeError::Previous { offset, expected: self.previous, found: header.previous });
        }
        let object = self.joined(header)?;
        let end = offset + CHUNK_HEADER_BYTES as u64 + u64::from(header.length);
        if end > self.image_bytes {
            return Err(self.torn());
        }
        self.offset = end;
        self.previous = header.length;
        if matches!(header.kind, ChunkKind::First | ChunkKind::Middle) {
            self.open = Some(object);
            return Ok(None);
        }
        self.open = None;
        self.readable_bytes = end;
        Ok(Some(object))
    }

    /// The object that begins or goes on with the chunk of `header`.
    fn joined(&self, header: ChunkHeader) -> Result<Object, AwstapeError> {
        let begins = !matches!(header.kind, ChunkKind::Middle | ChunkKind::Last);
        let (offset, before) = match self.open {
            Some(open) if !begins => (open.offset, open.length),
            None if begins => (self.offset, 0),
            _ => {
                return Err(AwstapeError::Sequence { offset: self.offset, kind: header.kind });
            }
        };
        let length = before + u32::from(header.length);
        if length as usize > BLOCK_BYTES_MAX {
            return Err(AwstapeError::TooLong { offset });
        }
        Ok(Object { offset, length, last_chunk: header.length })
    }

    /// Bytes of the image, from its beginning, that hold whole objects.
    #[must_use]
    pub fn readable_bytes(&self) -> u64 {
        self.readable_bytes
    }

    fn torn(&self) -> AwstapeError {
        let offset = self.open.map_or(self.offset, |open| open.offset);
        AwstapeError::Torn { offset, image_bytes: self.image_bytes }
    }
}

/// Walks an image that is in memory; the objects before the damage, and the damage.
#[must_use]
pub fn scan(image: &[u8]) -> (Vec<Object>, Option<AwstapeError>) {
    let mut scanner = Scanner::new(image.len() as u64);
    let mut objects = Vec::new();
    loop {
        let header = match scanner.next_header() {
            Ok(Some(offset)) => header_at(image, offset as usize),
            Ok(None) => return (objects, None),
            Err(error) => return (objects, Some(error)),
        };
        match scanner.take(header) {
            Ok(object) => objects.extend(object),
            Err(error) => return (objects, Some(error)),
        }
    }
}

/// Appends the data of the block whose chunks fill `extent` to `block`.
///
/// `offset` is where `extent` begins in the image; only errors use it. The chunks are checked again: the image may have
/// changed after it was scanned.
pub fn join(extent: &[u8], offset: u64, block: &mut Vec<u8>) -> Result<(), AwstapeError> {
    let torn = AwstapeError::Torn { offset, image_bytes: offset + extent.len() as u64 };
    let mut at = 0;
    let mut previous = None;
    loop {
        if extent.len() - at < CHUNK_HEADER_BYTES {
            return Err(torn);
        }
        let here = offset + at as u64;
        let header = ChunkHeader::decode(header_at(extent, at), here)?;
        let begins = matches!(header.kind, ChunkKind::Whole | ChunkKind::First);
        if header.kind == ChunkKind::Mark || begins != previous.is_none() {
            return Err(AwstapeError::Sequence { offset: here, kind: header.kind });
        }
        if let Some(expected) = previous.filter(|expected| *expected != header.previous) {
            return Err(AwstapeError::Previous { offset: here, expected, found: header.previous });
        }
        let begin = at + CHUNK_HEADER_BYTES;
        let end = begin + usize::from(header.length);
        block.extend_from_slice(extent.get(begin..end).ok_or(torn)?);
        at = end;
        previous = Some(header.length);
        if matches!(header.kind, ChunkKind::Whole | ChunkKind::Last) {
            return if at == extent.len() { Ok(()) } else { Err(torn) };
        }
    }
}

/// The six bytes at `at`; the caller has checked that they are there.
fn header_at(image: &[u8], at: usize) -> [u8; CHUNK_HEADER_BYTES] {
    let mut header = [0; CHUNK_HEADER_BYTES];
    header.copy_from_slice(&image[at..at + CHUNK_HEADER_BYTES]);
    header
}

/// Fuzz body: any bytes as an image. Never panics; what scans can be joined and encodes to the same objects.
pub fn fuzz_awstape(data: &[u8]) {
    let (objects, damage) = scan(data);
    let mut image = Vec::new();
    let mut previous = 0;
    for (index, object) in objects.iter().enumerate() {
        if object.is_mark() {
            previous = encode_mark(previous, &mut image);
            continue;
        }
        let end = match (objects.get(index + 1), damage) {
            (Some(next), _) => next.offset,
            (None, None) => data.len() as u64,
            // Where the damaged object begins is not always where the last whole one ends: stop here.
            (None, Some(_)) => break,
        };
        let mut block = Vec::new();
        let joined = join(&data[object.offset as usize..end as usize], object.offset, &mut block);
        assert!(joined.is_ok() && block.len() == object.length as usize, "a scanned block cannot be joined");
        previous = encode_block(&block, previous, &mut image);
    }
    let (again, damage) = scan(&image);
    assert!(damage.is_none() && again.len() <= objects.len(), "what was encoded cannot be scanned");
}

#[cfg(test)]
#[path = "awstape_tests.rs"]
mod tests;
