//! Compressed blocks of ROOT: chunks of at most 16 MiB, each with a header of nine bytes that names the algorithm.

use super::super::cursor::{Cursor, Parsed, corrupt, unsupported};
use parquet::errors::ParquetError;
use std::{hash::Hasher, io::Read};
use twox_hash::{XxHash3_64, XxHash64};

/// Longest block that is decompressed: the limit of the format for pages is far above what anybody writes.
const BLOCK_BYTES_MAX: usize = 512 << 20;
/// Memory for a dictionary of xz: its highest level takes 64 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 128 << 10;

/// The checksum of envelopes and pages.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The `length` bytes that `block` holds; it is not compressed if it is as long.
pub(super) fn decompress(block: &[u8], length: usize) -> Parsed<Vec<u8>> {
    if length > BLOCK_BYTES_MAX {
        return unsupported(format!("a block of {length} bytes; up to {BLOCK_BYTES_MAX} are possible"));
    }
    if block.len() == length {
        return Ok(block.to_vec());
    }
    let mut bytes = vec![0; length];
    let (mut done, mut rest) = (0, Cursor(block));
    while done < length {
        let algorithm = rest.take(3)?;
        let [packed, unpacked] = [size(&mut rest)?, size(&mut rest)?];
        let chunk = rest.take(packed)?;
        let Some(into) = bytes.get_mut(done..done + unpacked).filter(|_| unpacked > 0) else {
            return corrupt(format!("compressed block is longer than {length} bytes"));
        };
        expand(algorithm, chunk, into)?;
        done += unpacked;
    }
    Ok(bytes)
}

/// A size in three bytes.
fn size(rest: &mut Cursor<'_>) -> Parsed<usize> {
    let bytes = rest.take(3)?;
    Ok(usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16)
}

fn expand(algorithm: &[u8], chunk: &[u8], into: &mut [u8]) -> Parsed<()> {
    let failed =
        |what: &str, cause: &dyn std::fmt::Display| ParquetError::General(format!("{what}: {cause}"));
    let wanted = into.len();
    let length = match algorithm {
        b"ZS\x01" => zstd::bulk::Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(chunk, into))
            .map_err(|cause| failed("zstd", &cause))?,
        b"ZL\x08" => {
            let mut zlib = flate2::Decompress::new(true);
            zlib.decompress(chunk, into, flate2::FlushDecompress::Finish)
                .map_err(|cause| failed("zlib", &cause))?;
            usize::try_from(zlib.total_out()).unwrap_or(usize::MAX)
        }
        b"L4\x01" => {
            let mut rest = Cursor(chunk);
            let expected = rest.big_u64()?;
            let mut hasher = XxHash64::with_seed(0);
            hasher.write(rest.0);
            if hasher.finish() != expected {
                return corrupt("lz4: checksum does not match");
            }
            lz4_flex::block::decompress_into(rest.0, into).map_err(|cause| failed("lz4", &cause))?
        }
        b"XZ\x00" => {
            let mut xz = lzma_rust2::XzReader::new_mem_limit(chunk, false, XZ_MEMORY_KIB_MAX);
            xz.read_exact(into).map_err(|cause| failed("lzma", &cause))?;
            wanted
        }
        b"CS\x08" => return unsupported("the old deflation of ROOT before 5.0 is not supported"),
        other => return corrupt(format!("unknown compression {:?}", String::from_utf8_lossy(other))),
    };
    if length == wanted {
        Ok(())
    } else {
        corrupt(format!("{length} bytes of {wanted} in a compressed chunk"))
    }
}
