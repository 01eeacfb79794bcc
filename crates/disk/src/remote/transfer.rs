//! Transfers of whole objects between disk servers.

use crate::{ObjectReader, ObjectWriter, remote::objects::PeerClient};
use base::{Failure, Result};
use client::{
    LiveFile,
    xrd::{CreateOptions, File},
};
use wire::control::Layout;

/// Bytes that are read from the disk at a time.
const BLOCK_BYTES: usize = 4 << 20;

impl PeerClient {
    /// Fills the object of `url` with one of this host. It is durable when this returns. Blocks.
    pub(crate) fn push(&self, reader: &ObjectReader, url: &str) -> Result<()> {
        let size = reader.size();
        let create = CreateOptions { replace: true, size: Some(size), ..CreateOptions::default() };
        let file = File::create(&url.parse()?, self.options(), create)?;
        let mut writer = file.writer();
        let (mut block, mut at) = (vec![0; BLOCK_BYTES], 0);
        while at < size {
            let count = reader.read_at(&mut block, at)?;
            if count == 0 {
                return Err(Failure::corrupt(format!("the object ended at {at} instead of {size}")));
            }
            writer.push(&block[..count])?;
            at += count as u64;
        }
        writer.finish()?;
        file.close()
    }

    /// Puts the columns of a file of `size` bytes together. Blocks.
    pub(crate) fn join(&self, layout: &Layout, size: u64, writer: &ObjectWriter) -> Result<()> {
        let file = LiveFile::open_read(layout, self.options())?;
        file.require_size(size)?;
        let (mut block, mut at) = (vec![0; BLOCK_BYTES], 0);
        while at < size {
            let wanted = size.saturating_sub(at).min(BLOCK_BYTES as u64) as usize;
            let count = file.read_at(at, &mut block[..wanted])?;
            if count == 0 {
                return Err(Failure::corrupt(format!("the columns end at {at} instead of {size}")));
            }
            writer.write_at(&block[..count], at)?;
            at += count as u64;
        }
        file.close()
    }

    /// Fetches the object of `url`. Blocks.
    pub(crate) fn pull(&self, url: &str, writer: &ObjectWriter) -> Result<()> {
        let mut at = 0;
        File::open_read(&url.parse()?, self.options())?.copy_to(&mut |bytes| {
            writer.write_at(bytes, at)?;
            at += bytes.len() as u64;
            Ok(())
        })
    }
}
