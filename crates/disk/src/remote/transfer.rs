//! Transfers of whole objects between disk servers.

use crate::{ObjectReader, ObjectWriter, remote::objects::PeerClient};
use base::{Failure, Result};
use client::xrd::{CreateOptions, File};

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
