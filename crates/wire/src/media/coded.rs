//! Coded files: how a file is cut into pieces, a piece into cells, and the tail of each cell (spec/coded.md).
//!
//! The tail names the cell and has its checksum. So a reader of any part of a file finds a damaged or misplaced cell
//! before it uses the content.

use crate::control::PIECES_MAX;
use base::{Crc32c, Failure, FileId, Result, limits::OBJECT_BYTES_MAX};

/// Bytes of a tail.
pub const TAIL_BYTES: usize = 64;
/// Cells are multiples of it, so that pieces can be written without the page cache.
pub const ALIGNMENT: u32 = 4096;
/// Largest cell: with the most pieces it bounds the memory of a stripe.
pub const CELL_BYTES_MAX: u32 = 16 << 20;
const MAGIC: [u8; 4] = *b"BPC1";

/// How a file is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    data: u8,
    parity: u8,
    cell_bytes: u32,
    file: FileId,
    content: u64,
    file_bytes: u64,
}

/// What to code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coded {
    /// The file.
    pub file: FileId,
    /// Which content of it: pieces of another content are never mixed with these.
    pub content: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Shape {
    /// Cuts `coded` into `data` pieces and `parity` more, in cells of `cell_bytes`.
    pub fn new(data: u8, parity: u8, cell_bytes: u32, coded: Coded) -> Result<Self> {
        let is_legal = data > 0
            && u16::from(data) + u16::from(parity.min(1)) > 1
            && u16::from(data) + u16::from(parity) <= u16::from(PIECES_MAX);
        if !is_legal {
            return Err(Failure::invalid(format!(
                "{data}+{parity} pieces: there must be 2 or more, {PIECES_MAX} at most"
            )));
        }
        if !(ALIGNMENT..=CELL_BYTES_MAX).contains(&cell_bytes) || !cell_bytes.is_multiple_of(ALIGNMENT) {
            return Err(Failure::invalid(format!(
                "cells of {cell_bytes} bytes: they must be multiples of {ALIGNMENT}, {CELL_BYTES_MAX} at most"
            )));
        }
        let Coded { file, content, bytes: file_bytes } = coded;
        let shape = Self { data, parity, cell_bytes, file, content, file_bytes };
        // Compared by division: no size that is told can overflow.
        if file_bytes / u64::from(data) >= OBJECT_BYTES_MAX / 2 {
            return Err(Failure::invalid(format!(
                "a file of {file_bytes} bytes is too large for {data} pieces"
            )));
        }
        Ok(shape)
    }

    /// All pieces.
    pub fn pieces(&self) -> u8 {
        self.data + self.parity
    }

    /// Pieces that are needed.
    pub fn data(&self) -> u8 {
        self.data
    }

    /// Pieces that may be lost.
    pub fn parity(&self) -> u8 {
        self.parity
    }

    /// What is coded.
    pub fn coded(&self) -> Coded {
        Coded { file: self.file, content: self.content, bytes: self.file_bytes }
    }

    /// Bytes of content in one full stripe.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.cell_bytes - TAIL_BYTES as u32) * u64::from(self.data)
    }

    /// Stripes; an empty file has one.
    pub fn stripes(&self) -> u64 {
        self.file_bytes.div_ceil(self.stripe_bytes()).max(1)
    }

    /// Bytes of content in a stripe.
    pub fn content_bytes(&self, stripe: u64) -> u64 {
        let before = stripe.saturating_mul(self.stripe_bytes());
        self.file_bytes.saturating_sub(before).min(self.stripe_bytes())
    }

    /// Bytes of each cell of a stripe: the last stripe has shorter ones.
    pub fn cell_bytes(&self, stripe: u64) -> usize {
        let payload = self.content_bytes(stripe).div_ceil(u64::from(self.data));
        let cell = (payload + TAIL_BYTES as u64).next_multiple_of(u64::from(ALIGNMENT));
        cell as usize
    }

    /// Bytes of each piece.
    pub fn piece_bytes(&self) -> u64 {
        let last = self.stripes() - 1;
        last * u64::from(self.cell_bytes) + self.cell_bytes(last) as u64
    }

    /// Where in each piece the cell of a stripe begins.
    pub fn cell_offset(&self, stripe: u64) -> u64 {
        stripe * u64::from(self.cell_bytes)
    }

    /// The stripe that has the byte at `offset`, and where in its content.
    pub fn locate(&self, offset: u64) -> (u64, u64) {
        (offset / self.stripe_bytes(), offset % self.stripe_bytes())
    }

    /// Writes the tail of a cell whose payload is there.
    pub fn seal(&self, cell: &mut [u8], index: u8, stripe: u64) {
        let tail_at = cell.len() - TAIL_BYTES;
        cell[tail_at..].copy_from_slice(&self.tail(index, stripe));
        let sum_at = cell.len() - 4;
        let sum = Crc32c::of(&cell[..sum_at]).0;
        cell[sum_at..].copy_from_slice(&sum.to_be_bytes());
    }

    /// A tail, with zeros for its checksum.
    fn tail(&self, index: u8, stripe: u64) -> [u8; TAIL_BYTES] {
        let mut tail = [0; TAIL_BYTES];
        tail[0..4].copy_from_slice(&MAGIC);
        tail[4..7].copy_from_slice(&[self.data, self.parity, index]);
        tail[8..12].copy_from_slice(&self.cell_bytes.to_be_bytes());
        for (field, value) in [self.file.0, self.content, self.file_bytes, stripe].into_iter().enumerate() {
            tail[16 + 8 * field..24 + 8 * field].copy_from_slice(&value.to_be_bytes());
        }
        tail
    }

    /// Whether a cell is undamaged and the one that it should be.
    pub fn is_good(&self, cell: &[u8], index: u8, stripe: u64) -> bool {
        if cell.len() != self.cell_bytes(stripe) || !is_whole(cell) {
            return false;
        }
        let tail = &cell[cell.len() - TAIL_BYTES..cell.len() - 4];
        *tail == self.tail(index, stripe)[..TAIL_BYTES - 4]
    }
}

/// Whether the checksum of a cell is right.
fn is_whole(cell: &[u8]) -> bool {
    let Some((before, sum)) = cell.split_last_chunk::<4>() else { return false };
    before.len() >= TAIL_BYTES - 4 && Crc32c::of(before).0 == u32::from_be_bytes(*sum)
}

/// What an undamaged cell says of itself: how its file is coded, which piece and which stripe it is of.
pub fn describe(cell: &[u8]) -> Result<(Shape, u8, u64)> {
    let damaged = |why: &str| Failure::corrupt(format!("cell of a coded file: {why}"));
    if !is_whole(cell) {
        return Err(damaged("its checksum is wrong"));
    }
    let tail: &[u8; TAIL_BYTES] = cell.last_chunk().ok_or_else(|| damaged("it is too short"))?;
    if tail[0..4] != MAGIC {
        return Err(damaged("it is damaged, or written by a newer release"));
    }
    let number =
        |at: usize| tail[at..at + 8].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let cell_bytes = (number(8) >> 32) as u32;
    let coded = Coded { file: FileId(number(16)), content: number(24), bytes: number(32) };
    let shape = Shape::new(tail[4], tail[5], cell_bytes, coded)?;
    let (index, stripe) = (tail[6], number(40));
    if index >= shape.pieces() || stripe >= shape.stripes() || !shape.is_good(cell, index, stripe) {
        return Err(damaged("it contradicts itself"));
    }
    Ok((shape, index, stripe))
}

/// Fuzz body: a damaged cell is refused, never a panic, and what is read back says the same again.
pub fn fuzz_cell(data: &[u8]) {
    if let Ok((shape, index, stripe)) = describe(data) {
        assert!(shape.is_good(data, index, stripe));
        assert!(shape.cell_offset(stripe) + data.len() as u64 <= shape.piece_bytes());
    }
    // With a checksum that is right, so that the rest is reached.
    if data.len() >= TAIL_BYTES {
        let mut cell = data.to_vec();
        let sum_at = cell.len() - 4;
        let sum = Crc32c::of(&cell[..sum_at]).0;
        cell[sum_at..].copy_from_slice(&sum.to_be_bytes());
        if let Ok((shape, index, stripe)) = describe(&cell) {
            assert!(shape.is_good(&cell, index, stripe));
        }
    }
}
