//! CRC-32 of POSIX, the one of the command `cksum`: XRootD and its clients call it `crc32`, and that of zlib `zcrc32`.

use crc32fast::Hasher;

/// Bytes that are turned at once.
const TURNED_BYTES: usize = 4096;

/// The state of a sum.
///
/// The polynomial is that of zlib, but bits are taken from the other end, the remainder begins with 0, and the length
/// follows the bytes. So this code reverses the bits of each byte with vector instructions, and the code of zlib's sum
/// does the rest.
#[derive(Debug, Clone)]
pub(super) struct Cksum {
    turned: Hasher,
    length: u64,
}

impl Default for Cksum {
    fn default() -> Self {
        // It inverts at both ends.
        Self { turned: Hasher::new_with_initial(!0), length: 0 }
    }
}

impl Cksum {
    /// Takes the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.turn(bytes);
        self.length += bytes.len() as u64;
    }

    fn turn(&mut self, bytes: &[u8]) {
        let mut turned = [0; TURNED_BYTES];
        for chunk in bytes.chunks(TURNED_BYTES) {
            let turned = &mut turned[..chunk.len()];
            for (turned, byte) in turned.iter_mut().zip(chunk) {
                *turned = byte.reverse_bits();
            }
            self.turned.update(turned);
        }
    }

    /// The sum: the length follows in as many bytes as it needs, the lowest first.
    pub(super) fn finish(mut self) -> u32 {
        let length = self.length.to_le_bytes();
        let needed = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.turn(&length[..needed]);
        self.turned.finalize().reverse_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cksum(pieces: &[&[u8]]) -> u32 {
        let mut cksum = Cksum::default();
        for piece in pieces {
            cksum.update(piece);
        }
        cksum.finish()
    }

    #[test]
    fn known_answers() {
        // Of the command.
        assert_eq!(cksum(&[]), 4_294_967_295);
        assert_eq!(cksum(&[b"1234", b"56789"]), 930_766_865);
        let long = vec![7; 3 * TURNED_BYTES + 1];
        assert_eq!(
            cksum(&[&long]),
            cksum(&[&long[..5], &long[5..TURNED_BYTES + 9], &long[TURNED_BYTES + 9..]])
        );
    }
}
