//! Reads a file of a volume, and checks what its labels say.

use super::{LabelContext, TapeFile};
use crate::{
    drive::{Read, TapeDrive},
    fault::Fault,
};
use base::{Checksums, Result};
use wire::media::label::Side;

/// Reads `file` from the volume in `drive` into `sink`, block by block, and checks everything that is said about it:
/// headers, block lengths, trailers, size, checksums.
///
/// `sink` has got bytes that may be wrong until this returns `Ok`.
pub fn read_file(
    drive: &mut dyn TapeDrive,
    file: &TapeFile,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), Fault> {
    let context = LabelContext::file(drive, &file.vid, file.fseq);
    context.locate(drive, file.block)?;
    let headers = context.read_labels(drive)?;
    let labels = file.labels(context.block_bytes(&headers)?);
    let block_bytes = labels.block_bytes as usize;
    context.check_labels(&labels, Side::Header, 0, &headers)?;
    context.expect_mark(drive, "the mark behind the headers")?;
    let mut block = Vec::with_capacity(block_bytes);
    let mut data = Data::new(block_bytes);
    while let Read::Block(_) = context.read(drive, &mut block, "data or the mark behind them")? {
        data.add(&context, &block)?;
        if data.size > file.size {
            return Err(
                context.mismatch(&format!("data continue after byte {}, where the file ends", file.size))
            );
        }
        sink(&block).map_err(Fault::of_disk)?;
    }
    let Data { blocks, size, checksums, .. } = data;
    let trailers = context.read_labels(drive)?;
    context.check_labels(&labels, Side::Trailer, blocks, &trailers)?;
    context.expect_mark(drive, "the mark behind the trailers")?;
    let hint = "recall another copy if there is one, and check the volume";
    context.compare_file(file, size, checksums, "tape").map_err(|failure| Fault::volume(failure.hint(hint)))
}

/// The data of a file, as far as they were read.
pub(super) struct Data {
    /// Bytes of every block but the last.
    pub(super) block_bytes: usize,
    pub(super) blocks: u64,
    pub(super) size: u64,
    pub(super) checksums: Checksums,
    is_short: bool,
}

impl Data {
    pub(super) fn new(block_bytes: usize) -> Self {
        Self { block_bytes, blocks: 0, size: 0, checksums: Checksums::EMPTY, is_short: false }
    }

    /// Takes the next block, whose length must be right.
    pub(super) fn add(&mut self, context: &LabelContext, block: &[u8]) -> Result<(), Fault> {
        let (length, block_bytes, blocks) = (block.len(), self.block_bytes, self.blocks);
        if self.is_short || length > block_bytes {
            let rest = if self.is_short {
                "only the last may be shorter"
            } else {
                "which is longer than the label says"
            };
            return Err(
                context.mismatch(&format!("data block {blocks} has {length} bytes of {block_bytes}; {rest}"))
            );
        }
        self.is_short = length < block_bytes;
        self.size += length as u64;
        self.blocks += 1;
        self.checksums = self.checksums.extend(block);
        Ok(())
    }
}
