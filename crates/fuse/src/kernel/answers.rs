//! Answers to the kernel.
#![allow(clippy::host_endian_bytes, reason = "both ends are the same host")]

use super::names;
use base::NanoTime;

/// The fields of an answer, one after the other.
#[derive(Debug, Default)]
pub struct Answer {
    bytes: Vec<u8>,
}

impl Answer {
    /// Data as they are.
    pub fn data(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// 16 bits.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// 32 bits.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// 64 bits.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A node that was found or made. It may not be cached: another host may change it at any time.
    pub(crate) fn entry(attributes: &Attributes) -> Self {
        let mut answer = Self::default();
        // The node, its generation, and how long the name and the attributes hold.
        answer.u64(attributes.node).u64(0).u64(0).u64(0).u32(0).u32(0);
        answer.attributes(attributes);
        answer
    }

    /// Attributes of a node, not to be cached either.
    pub(crate) fn node(attributes: &Attributes) -> Self {
        let mut answer = Self::default();
        answer.u64(0).u32(0).u32(0);
        answer.attributes(attributes);
        answer
    }

    /// An open file or directory: its handle and flags.
    pub fn opened(&mut self, handle: u64, flags: u32) {
        self.u64(handle).u32(flags).u32(0);
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let times = [attributes.accessed, attributes.modified, attributes.changed].map(NanoTime::timespec);
        self.u64(attributes.node).u64(attributes.size).u64(attributes.size.div_ceil(512));
        for (seconds, _) in times {
            self.u64(seconds as u64);
        }
        for (_, nanoseconds) in times {
            self.u32(nanoseconds);
        }
        self.u32(attributes.mode).u32(attributes.links).u32(attributes.uid).u32(attributes.gid);
        self.u32(attributes.device).u32(4096).u32(0);
    }

    /// Adds a name to a listing if it fits into `most` bytes; `kind` is the type of its mode, `next` where a later listing goes on after it.
    pub fn name(&mut self, most: usize, node: u64, next: u64, kind: u32, name: &str) -> bool {
        let name = names::bytes_of(name);
        let padding = name.len().next_multiple_of(8) - name.len();
        if self.len() + 24 + name.len() + padding > most {
            return false;
        }
        // As in `dirent`: the four bits of the type.
        self.u64(node).u64(next).u32(name.len() as u32).u32(kind >> 12);
        self.bytes.extend_from_slice(&name);
        self.bytes.extend_from_slice(&[0; 8][..padding]);
        true
    }
}

/// What `stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The number of the node.
    pub(crate) node: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// When it was accessed, as far as that was set.
    pub(crate) accessed: NanoTime,
    /// When its content changed.
    pub(crate) modified: NanoTime,
    /// When anything of it changed.
    pub(crate) changed: NanoTime,
    /// Kind and permission bits.
    pub(crate) mode: u32,
    /// Names; 2 of a directory, as many file systems have it that do not count.
    pub(crate) links: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Of a device: its number, as the kernel packs it.
    pub(crate) device: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        let (accessed, modified, changed) = (NanoTime(5), NanoTime(-1), NanoTime(7_000_000_008));
        let (mode, links, uid, gid, device) = (0o100_644, 1, 1, 2, 0);
        let node =
            Attributes { node: 7, size: 513, accessed, modified, changed, mode, links, uid, gid, device };
        let entry = Answer::entry(&node).into_bytes();
        assert_eq!((entry.len(), Answer::node(&node).len()), (128, 104));
        assert_eq!(entry[56..64], 2u64.to_ne_bytes(), "blocks");
        assert_eq!(entry[72..80], (-1i64).to_ne_bytes(), "before 1970");
        assert_eq!(entry[88..100], [5u32, 999_999_999, 8].map(u32::to_ne_bytes).concat());
    }

    #[test]
    fn names_are_padded_and_end_where_the_buffer_does() {
        let mut listing = Answer::default();
        assert!(listing.name(64, 5, 1, 0o040_000, "a") && listing.name(64, 6, 2, 0o100_000, "12345678"));
        assert_eq!(listing.len(), 64);
        assert!(!listing.name(64, 7, 3, 0o100_000, "b"));
    }
}
