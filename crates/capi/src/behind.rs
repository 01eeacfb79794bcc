//! Write-behind: small writes one after the other become one. Pure: it holds bytes, others send them.

/// Bytes held back; a write of as many is not held back at all. Several requests of the client, which are under way
/// together, and little enough for a process that writes hundreds of files.
pub(crate) const BEHIND_BYTES_MAX: usize = 4 << 20;

/// Bytes that were written and not sent, in one piece.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    offset: u64,
    bytes: Vec<u8>,
}

impl WriteBuffer {
    /// Takes as much of `data` as fits, if it follows what is there; returns how much that is.
    pub(crate) fn fill(&mut self, offset: u64, data: &[u8]) -> usize {
        if self.bytes.is_empty() {
            self.offset = offset;
        } else if self.offset + self.bytes.len() as u64 != offset {
            return 0;
        }
        let count = data.len().min(BEHIND_BYTES_MAX - self.bytes.len());
        self.bytes.extend_from_slice(&data[..count]);
        count
    }

    /// Whether nothing is held back.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether nothing more fits.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BEHIND_BYTES_MAX
    }

    /// What is held back, and where it belongs.
    pub(crate) fn held(&self) -> (u64, &[u8]) {
        (self.offset, &self.bytes)
    }

    /// Forgets what is held back; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_follows_is_taken() {
        let mut behind = WriteBuffer::default();
        assert_eq!(behind.fill(10, b"abc"), 3);
        assert_eq!((behind.fill(12, b"x"), behind.fill(14, b"x")), (0, 0));
        assert_eq!(behind.fill(13, b"de"), 2);
        assert_eq!(behind.held(), (10, &b"abcde"[..]));
        behind.clear();
        assert_eq!(behind.fill(0, &vec![1; BEHIND_BYTES_MAX + 1]), BEHIND_BYTES_MAX);
        assert!(behind.is_full());
        assert_eq!(behind.fill(BEHIND_BYTES_MAX as u64, b"x"), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_moved(writes in prop::collection::vec((0u64..40, 1usize..30), 0..40)) {
            let (mut wanted, mut found) = (vec![0u8; 80], vec![0u8; 80]);
            let mut behind = WriteBuffer::default();
            let send = |behind: &mut WriteBuffer, found: &mut Vec<u8>| {
                let (offset, bytes) = behind.held();
                found[offset as usize..][..bytes.len()].copy_from_slice(bytes);
                behind.clear();
            };
            for (number, (offset, length)) in writes.into_iter().enumerate() {
                let data = vec![number as u8 + 1; length];
                wanted[offset as usize..][..length].copy_from_slice(&data);
                if behind.fill(offset, &data) == 0 {
                    send(&mut behind, &mut found);
                    prop_assert_eq!(behind.fill(offset, &data), length);
                }
            }
            send(&mut behind, &mut found);
            prop_assert_eq!(wanted, found);
        }
    }
}
