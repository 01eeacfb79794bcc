//! Coded files: pieces of which some may be lost, as pure functions over buffers (spec/coded.md).
//!
//! How a file is cut is said by [`wire::media::coded`]; here its cells are made and made anew. Memory is that of one stripe.

use base::{Failure, Result};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use wire::media::coded::{Coded, Shape, TAIL_BYTES};

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
        if self.taken > self.shape.coded().bytes {
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
        if self.taken != self.shape.coded().bytes {
            return Err(self.wrong_size());
        }
        if self.shape.coded().bytes == 0 { self.end_stripe(sink) } else { Ok(()) }
    }

    fn wrong_size(&self) -> Failure {
        let Coded { file, bytes, .. } = self.shape.coded();
        Failure::invalid(format!("file {file} has {} bytes, expected {bytes}", self.taken))
    }

    fn end_stripe(&mut self, sink: &mut impl FnMut(u8, &[u8]) -> Result<()>) -> Result<()> {
        let shard = self.shape.cell_bytes(self.stripe) - TAIL_BYTES;
        let (data, parity) = self.cells.split_at_mut(usize::from(self.shape.data()));
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
        (usize::from(self.shape.data()), usize::from(self.shape.parity()))
    }

    /// Makes the payloads of all parity cells from the first `shard` bytes of each data cell.
    fn encode<'a>(
        &mut self,
        shard: usize,
        data: impl Iterator<Item = &'a [u8]>,
        parity: &mut [Vec<u8>],
    ) -> Result<()> {
        let (originals, recoveries) = self.counts();
        if recoveries == 0 {
            return Ok(());
        }
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
struct StripeCells<'a> {
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
        let StripeCells { good, damaged } = self.sort_out(stripe, cells)?;
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
        let StripeCells { good, damaged } = self.sort_out(stripe, cells)?;
        let bytes = self.shape.cell_bytes(stripe);
        let shard = bytes - TAIL_BYTES;
        let data = self.data_payloads(shard, &good)?;
        cell.clear();
        if wanted < self.shape.data() {
            cell.extend_from_slice(&data[usize::from(wanted)]);
            cell.resize(bytes, 0);
        } else {
            let mut parity = vec![vec![0; bytes]; usize::from(self.shape.parity())];
            self.coder.encode(shard, data.iter().map(|payload| &**payload), &mut parity)?;
            cell.extend_from_slice(&parity[usize::from(wanted - self.shape.data())]);
        }
        self.shape.seal(cell, wanted, stripe);
        Ok(damaged)
    }

    /// Leaves out what is damaged.
    fn sort_out<'a>(&self, stripe: u64, cells: &[Option<&'a [u8]>]) -> Result<StripeCells<'a>> {
        let Coded { file, .. } = self.shape.coded();
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
        let (count, needed) = (good.iter().flatten().count(), usize::from(self.shape.data()));
        if count < needed {
            return Err(Failure::corrupt(format!(
                "file {file}: stripe {stripe} has {count} good cells, {needed} are needed (damaged: {damaged:?})"
            ))
            .hint("bring back a disk server that has a piece, or recall the file from tape"));
        }
        Ok(StripeCells { good, damaged })
    }

    /// The payloads of all data cells: those that are there, and the others made anew.
    fn data_payloads<'a>(
        &mut self,
        shard: usize,
        good: &[Option<&'a [u8]>],
    ) -> Result<Vec<std::borrow::Cow<'a, [u8]>>> {
        let data = usize::from(self.shape.data());
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

#[cfg(test)]
#[path = "erasure_tests.rs"]
mod tests;
