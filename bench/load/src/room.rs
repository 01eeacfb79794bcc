//! Buffers whose place in a page is known.
//!
//! Copies inside the kernel use one string instruction, and some processors (Zen 3 among them) run it ten times slower
//! if the target stands 1 to 31 bytes behind the source, counted within a page. Allocators put large blocks 16 bytes
//! behind the start of a page, just where that happens; a measurement must not depend on it.

const PAGE_BYTES: usize = 4096;

/// A buffer that starts at a chosen place of a page.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Room {
    /// A buffer that starts `place` bytes behind the start of a page.
    pub(crate) fn new(length: usize, place: usize) -> Self {
        let bytes = vec![0; length + 2 * PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES) + place % PAGE_BYTES;
        Self { bytes, start, length }
    }

    /// To receive into: in the middle of a page, far from data that begin with a page behind a short header.
    pub(crate) fn to_receive(length: usize) -> Self {
        Self::new(length, PAGE_BYTES / 2)
    }

    /// A copy of `data` to send from: far from where the kernel puts what follows a short header.
    pub(crate) fn to_send(data: &[u8]) -> Self {
        let mut room = Self::new(data.len(), PAGE_BYTES / 2);
        room.bytes_mut().copy_from_slice(data);
        room
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_where_it_should() {
        for (length, place) in [(1, 0), (5000, 2048), (0, 4095), (256 << 10, 0)] {
            let mut room = Room::new(length, place);
            assert_eq!(room.bytes().as_ptr().align_offset(PAGE_BYTES), (PAGE_BYTES - place) % PAGE_BYTES);
            assert_eq!(room.bytes_mut().len(), length);
        }
        assert_eq!(Room::to_send(b"data").bytes(), b"data");
    }
}
