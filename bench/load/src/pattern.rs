//! What the files of the benchmark contain: each word of eight bytes tells where it stands.

use base::{Failure, Result};
use std::{fs::File, io::Write, path::Path};

const WORD_BYTES: u64 = 8;
/// Odd, so that no two words of a file are equal; without regularity that a link could compress.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const BLOCK_BYTES: u64 = 1 << 20;

/// The word at `offset`, which is a multiple of eight.
pub(crate) fn word(offset: u64) -> [u8; WORD_BYTES as usize] {
    (offset / WORD_BYTES + 1).wrapping_mul(FACTOR).to_le_bytes()
}

/// The bytes of `offset..offset + length`; both are multiples of eight.
pub(crate) fn block(offset: u64, length: u64) -> Vec<u8> {
    (offset..offset + length).step_by(WORD_BYTES as usize).flat_map(word).collect()
}

/// Refuses data that stand at `offset` of a file of the pattern and do not begin as they must.
///
/// Data that begin inside a word, or are shorter than one, pass.
pub(crate) fn check(offset: u64, data: &[u8]) -> Result<()> {
    let Some(found) = data.first_chunk() else { return Ok(()) };
    if !offset.is_multiple_of(WORD_BYTES) || *found == word(offset) {
        return Ok(());
    }
    Err(Failure::corrupt(format!("byte {offset} of the file is not what was written there"))
        .hint("leave out --pattern if the file was not made with `rfio-load fill`"))
}

/// Writes a file of the pattern; its size is rounded up to whole words.
pub(crate) fn fill(path: &Path, size: u64) -> Result<()> {
    let refuse = |cause| Failure::io(format!("write {}", path.display()), &cause);
    let mut file = File::create(path).map_err(refuse)?;
    for offset in (0..size).step_by(BLOCK_BYTES as usize) {
        file.write_all(&block(offset, BLOCK_BYTES.min(size - offset))).map_err(refuse)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_from_elsewhere_are_refused() {
        let data = block(4096, 64);
        assert_eq!(data.len(), 64);
        assert!(check(4096, &data).is_ok());
        assert!(check(4104, &data[8..]).is_ok());
        assert!(check(4104, &data).is_err());
        assert!(check(4097, &data).is_ok(), "inside a word nothing can be said");
        assert!(check(0, &data[..7]).is_ok(), "too short to say anything");
    }
}
