//! Making a piece anew from others.

use super::{CodedFile, window::Window};
use crate::{ObjectWriter, object::erasure::Decoder};
use base::{Failure, Result};

/// Bytes of the piece that are made at a time.
const BATCH_BYTES: u64 = 2 << 20;

impl CodedFile {
    /// Writes piece `index` to `writer`, made of any others that are good. Blocks.
    pub(crate) fn rebuild(&self, index: u8, writer: &ObjectWriter) -> Result<()> {
        let shape = self.shape();
        if index >= shape.pieces() {
            return Err(Failure::invalid(format!("file {} has no piece {index}", shape.coded().file)));
        }
        let step = (BATCH_BYTES / shape.cell_bytes(0) as u64).max(1);
        let (mut decoder, mut cell, mut first) = (Decoder::new(shape), Vec::new(), 0);
        while first < shape.stripes() {
            let stripes = first..(first + step).min(shape.stripes());
            let window = Window::enough(self, shape, &stripes)?;
            for stripe in stripes.clone() {
                decoder.rebuild(stripe, &window.cells(stripe), index, &mut cell)?;
                writer.write_at(&cell, shape.cell_offset(stripe))?;
            }
            first = stripes.end;
        }
        Ok(())
    }
}
