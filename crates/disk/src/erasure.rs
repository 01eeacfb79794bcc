//! Coded files: pieces of which some may be lost, as pure functions over buffers (spec/coded.md).
//!
//! A file is cut into stripes, a stripe into one cell for each piece. Each cell ends with a tail that says what it is and has a
//! checksum, so what is damaged or misplaced is found before it is used, whichever part of a file is read. Memory is that of one
//! stripe.

use crate::OBJECT_BYTES_MAX;
use base::{Crc32c, Failure, FileId, Result};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Bytes of a tail.
const TAIL_BYTES: usize = 64;
/// Cells are multiples of it, so that pieces can be written without the page cache.
const ALIGNMENT: u32 = 4096;
/// Largest cell: with [`PIECES_MAX`] it bounds the memory of a stripe.
pub const CELL_BYTES_MAX: u32 = 16 << 20;
/// Most pieces of a file.
pub const PIECES_MAX: u8 = 32;
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
        let is_legal = data > 0 && parity > 0 && u16::from(data) + u16::from(parity) <= u16::from(PIECES_MAX);
        if !is_legal {
            return Err(Failure::invalid(format!(
                "{data}+{parity} pieces: both must be 1 or more, together {PIECES_MAX} at most"
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
    fn seal(&self, cell: &mut [u8], index: u8, stripe: u64) {
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
        return Err(damaged("it is none, or of a newer release"));
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

/// Takes the content of a file in order and gives cells in order.
pub struct Encoder {
    shape: Shape,
    stripe: u64,
    /// Content that the stripe has.
    filled: u64,
    taken: u64,
    cells: Vec<Vec<u8>>,
    coder: Coder,
}

impl Encoder {
    /// Begins a file.
    pub fn new(shape: Shape) -> Self {
        let cells = (0..shape.pieces()).map(|_| vec![0; shape.cell_bytes(0)]).collect();
        Self { shape, stripe: 0, filled: 0, taken: 0, cells, coder: Coder::new(shape) }
    }

    /// Takes the next bytes; `sink` is given each finished cell with the index of its piece, to be appended to it.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl FnMut(u8, &[u8]) -> Result<()>) -> Result<()> {
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.taken > self.shape.file_bytes {
            return Err(self.wrong_size());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let shard = self.shape.cell_bytes(self.stripe) - TAIL_BYTES;
            let (index, at) = (self.filled as usize / shard, self.filled as usize % shard);
            let (now, later) = rest.split_at(rest.len().min(shard - at));
            self.cells[index][at..at + now.len()].copy_from_slice(now);
            self.filled += now.len() as u64;
            rest = later;
            if self.filled == self.shape.content_bytes(self.stripe) {
                self.end_stripe(sink)?;
            }
        }
        Ok(())
    }

    /// Ends the file; refused if it did not have the size that was told.
    pub fn finish(mut self, sink: &mut impl FnMut(u8, &[u8]) -> Result<()>) -> Result<()> {
        if self.taken != self.shape.file_bytes {
            return Err(self.wrong_size());
        }
        if self.shape.file_bytes == 0 { self.end_stripe(sink) } else { Ok(()) }
    }

    fn wrong_size(&self) -> Failure {
        let Shape { file, file_bytes, .. } = self.shape;
        Failure::invalid(format!(
            "file {file} has another size than {file_bytes} bytes ({} came)",
            self.taken
        ))
    }

    fn end_stripe(&mut self, sink: &mut impl FnMut(u8, &[u8]) -> Result<()>) -> Result<()> {
        let shard = self.shape.cell_bytes(self.stripe) - TAIL_BYTES;
        let (data, parity) = self.cells.split_at_mut(usize::from(self.shape.data));
        self.coder.encode(shard, data.iter().map(Vec::as_slice), parity)?;
        for (cell, index) in self.cells.iter_mut().zip(0..) {
            self.shape.seal(cell, index, self.stripe);
            sink(index, cell)?;
        }
        self.stripe += 1;
        self.filled = 0;
        let next = self.shape.cell_bytes(self.stripe.min(self.shape.stripes() - 1));
        for cell in &mut self.cells {
            // Zeros again: what follows the content of the last stripe is coded, too.
            cell.clear();
            cell.resize(next, 0);
        }
        Ok(())
    }
}

/// The coder of a library, kept for its buffers.
struct Coder {
    shape: Shape,
    encoder: Option<ReedSolomonEncoder>,
    decoder: Option<ReedSolomonDecoder>,
}

impl Coder {
    fn new(shape: Shape) -> Self {
        Self { shape, encoder: None, decoder: None }
    }

    fn counts(&self) -> (usize, usize) {
        (usize::from(self.shape.data), usize::from(self.shape.parity))
    }

    /// Makes the payloads of all parity cells from the first `shard` bytes of each data cell.
    fn encode<'a>(
        &mut self,
        shard: usize,
        data: impl Iterator<Item = &'a [u8]>,
        parity: &mut [Vec<u8>],
    ) -> Result<()> {
        let (originals, recoveries) = self.counts();
        let encoder = match &mut self.encoder {
            Some(encoder) => {
                encoder.reset(originals, recoveries, shard).map_err(internal)?;
                encoder
            }
            empty => empty.insert(ReedSolomonEncoder::new(originals, recoveries, shard).map_err(internal)?),
        };
        for cell in data {
            encoder.add_original_shard(&cell[..shard]).map_err(internal)?;
        }
        let result = encoder.encode().map_err(internal)?;
        for (cell, made) in parity.iter_mut().zip(result.recovery_iter()) {
            cell[..shard].copy_from_slice(made);
        }
        Ok(())
    }

    /// Makes the payloads of missing data cells from any others, as many as there are data cells.
    fn decode(&mut self, shard: usize, good: &[Option<&[u8]>]) -> Result<Vec<(usize, Vec<u8>)>> {
        let (originals, recoveries) = self.counts();
        let decoder = match &mut self.decoder {
            Some(decoder) => {
                decoder.reset(originals, recoveries, shard).map_err(internal)?;
                decoder
            }
            empty => empty.insert(ReedSolomonDecoder::new(originals, recoveries, shard).map_err(internal)?),
        };
        let there = good.iter().enumerate().filter_map(|(index, cell)| Some((index, (*cell)?)));
        for (index, cell) in there.take(originals) {
            let payload = &cell[..shard];
            if index < originals {
                decoder.add_original_shard(index, payload).map_err(internal)?;
            } else {
                decoder.add_recovery_shard(index - originals, payload).map_err(internal)?;
            }
        }
        let result = decoder.decode().map_err(internal)?;
        Ok(result.restored_original_iter().map(|(index, bytes)| (index, bytes.to_vec())).collect())
    }
}

/// The library refuses only what a [`Shape`] cannot be.
fn internal(cause: reed_solomon_simd::Error) -> Failure {
    Failure::internal(format!("coding: {cause}"))
}

/// Cells of one stripe.
struct Sorted<'a> {
    /// Those that are undamaged, each at the number of its piece.
    good: Vec<Option<&'a [u8]>>,
    /// Pieces whose cells are damaged.
    damaged: Vec<u8>,
}

/// Gives the content of stripes, or pieces anew, from cells of which some are missing or damaged.
pub struct Decoder {
    shape: Shape,
    coder: Coder,
}

impl Decoder {
    /// For one file.
    pub fn new(shape: Shape) -> Self {
        Self { shape, coder: Coder::new(shape) }
    }

    /// Puts the content of a stripe into `content`, and returns the pieces whose cells were given but are damaged.
    ///
    /// `cells` has one entry for each piece; more than are needed let damaged ones be made good.
    pub fn read(&mut self, stripe: u64, cells: &[Option<&[u8]>], content: &mut Vec<u8>) -> Result<Vec<u8>> {
        let Sorted { good, damaged } = self.sort_out(stripe, cells)?;
        let shard = self.shape.cell_bytes(stripe) - TAIL_BYTES;
        let data = self.data_payloads(shard, &good)?;
        content.clear();
        for payload in &data {
            content.extend_from_slice(payload);
        }
        content.truncate(self.shape.content_bytes(stripe) as usize);
        Ok(damaged)
    }

    /// Puts the cell of piece `wanted` into `cell`, and returns the pieces whose cells were given but are damaged.
    pub fn rebuild(
        &mut self,
        stripe: u64,
        cells: &[Option<&[u8]>],
        wanted: u8,
        cell: &mut Vec<u8>,
    ) -> Result<Vec<u8>> {
        if wanted >= self.shape.pieces() {
            return Err(Failure::invalid(format!("there is no piece {wanted} of {}", self.shape.pieces())));
        }
        let Sorted { good, damaged } = self.sort_out(stripe, cells)?;
        let bytes = self.shape.cell_bytes(stripe);
        let shard = bytes - TAIL_BYTES;
        let data = self.data_payloads(shard, &good)?;
        cell.clear();
        if wanted < self.shape.data {
            cell.extend_from_slice(&data[usize::from(wanted)]);
            cell.resize(bytes, 0);
        } else {
            let mut parity = vec![vec![0; bytes]; usize::from(self.shape.parity)];
            self.coder.encode(shard, data.iter().map(|payload| &**payload), &mut parity)?;
            cell.extend_from_slice(&parity[usize::from(wanted - self.shape.data)]);
        }
        self.shape.seal(cell, wanted, stripe);
        Ok(damaged)
    }

    /// Leaves out what is damaged.
    fn sort_out<'a>(&self, stripe: u64, cells: &[Option<&'a [u8]>]) -> Result<Sorted<'a>> {
        let Shape { file, .. } = self.shape;
        if cells.len() != usize::from(self.shape.pieces()) || stripe >= self.shape.stripes() {
            return Err(Failure::invalid(format!(
                "file {file} has no stripe {stripe} of {} cells",
                cells.len()
            )));
        }
        let mut damaged = Vec::new();
        let mut good = Vec::new();
        for (cell, index) in cells.iter().zip(0..) {
            let is_good = cell.is_some_and(|cell| self.shape.is_good(cell, index, stripe));
            if cell.is_some() && !is_good {
                damaged.push(index);
            }
            good.push(cell.filter(|_| is_good));
        }
        let (count, needed) = (good.iter().flatten().count(), usize::from(self.shape.data));
        if count < needed {
            return Err(Failure::corrupt(format!(
                "file {file}: stripe {stripe} has {count} good cells, {needed} are needed (damaged: {damaged:?})"
            ))
            .hint("bring back a disk server that has a piece, or recall the file from tape"));
        }
        Ok(Sorted { good, damaged })
    }

    /// The payloads of all data cells: those that are there, and the others made anew.
    fn data_payloads<'a>(
        &mut self,
        shard: usize,
        good: &[Option<&'a [u8]>],
    ) -> Result<Vec<std::borrow::Cow<'a, [u8]>>> {
        let data = usize::from(self.shape.data);
        let mut made = if good[..data].iter().all(Option::is_some) {
            Vec::new()
        } else {
            self.coder.decode(shard, good)?
        };
        let mut payloads = Vec::with_capacity(data);
        for (index, cell) in good[..data].iter().enumerate() {
            let payload = match cell {
                Some(cell) => std::borrow::Cow::Borrowed(&cell[..shard]),
                None => {
                    let at = made.iter().position(|(made, _)| *made == index);
                    let at =
                        at.ok_or_else(|| Failure::internal(format!("coding: cell {index} was not made")))?;
                    std::borrow::Cow::Owned(made.swap_remove(at).1)
                }
            };
            payloads.push(payload);
        }
        Ok(payloads)
    }
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

#[cfg(test)]
#[path = "erasure_tests.rs"]
mod tests;
