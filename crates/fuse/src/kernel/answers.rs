//! Answers to the kernel.
#![allow(clippy::host_endian_bytes, reason = "both ends are the same host")]

use super::names;
use crate::cache::Asked;
use base::NanoTime;
use std::time::Duration;

/// Bytes of a node in an answer.
const ENTRY_BYTES: usize = 128;
/// Bytes before a name in a listing.
const NAME_HEAD_BYTES: usize = 24;
/// The type in a mode, and that of directories.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// The fields of an answer, one after the other.
#[derive(Debug, Default)]
pub struct Answer {
    bytes: Vec<u8>,
    validities: Vec<Validity>,
}

/// Until when something holds, as times of [`crate::head::now`]; 0: it does not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Until {
    pub(crate) name: i64,
    pub(crate) attributes: i64,
}

/// A place of an answer that says how long a node may be cached. It is filled in when the answer is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validity {
    at: usize,
    /// It says so of a name, too.
    is_entry: bool,
    /// The kernel counts that it was given the node.
    pub(crate) is_given: bool,
    pub(crate) node: u64,
    pub(crate) is_directory: bool,
    /// When this was asked for.
    pub(crate) asked: Asked,
    pub(crate) name_until: i64,
    pub(crate) attributes_until: i64,
}

impl Answer {
    /// Data as they are.
    pub fn data(bytes: Vec<u8>) -> Self {
        Self { bytes, validities: Vec::new() }
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

    /// A node that was found or made, and until when its name and its attributes hold.
    pub(crate) fn entry(asked: Asked, attributes: &Attributes, until: Until) -> Self {
        let mut answer = Self::default();
        answer.add_entry(asked, attributes, until);
        answer
    }

    /// There is nothing of that name, until then.
    pub(crate) fn absent(until: i64) -> Self {
        let mut answer = Self::default();
        answer.validities.push(Validity {
            at: 0,
            is_entry: true,
            is_given: false,
            node: 0,
            is_directory: false,
            asked: Asked::default(),
            name_until: until,
            attributes_until: 0,
        });
        answer.bytes.resize(ENTRY_BYTES, 0);
        answer
    }

    /// Attributes of a node, and until when they hold.
    pub(crate) fn node(asked: Asked, attributes: &Attributes, until: i64) -> Self {
        let mut answer = Self::default();
        answer.validities.push(Validity {
            at: 0,
            is_entry: false,
            is_given: false,
            node: attributes.node,
            is_directory: false,
            asked,
            name_until: 0,
            attributes_until: until,
        });
        answer.u64(0).u32(0).u32(0);
        answer.attributes(attributes);
        answer
    }

    fn add_entry(&mut self, asked: Asked, attributes: &Attributes, until: Until) {
        self.validities.push(Validity {
            at: self.bytes.len(),
            is_entry: true,
            is_given: true,
            node: attributes.node,
            is_directory: attributes.mode & TYPE == DIRECTORY,
            asked,
            name_until: until.name,
            attributes_until: until.attributes,
        });
        // The node, its generation, and how long the name and the attributes hold.
        self.u64(attributes.node).u64(0).u64(0).u64(0).u32(0).u32(0);
        self.attributes(attributes);
    }

    /// Where the answer says how long something holds.
    pub(crate) fn take_validities(&mut self) -> Vec<Validity> {
        std::mem::take(&mut self.validities)
    }

    /// Says how long the name and the attributes hold from now on.
    pub(crate) fn set_validity(&mut self, validity: &Validity, (name, attributes): (Duration, Duration)) {
        let at = validity.at;
        let mut put = |at: usize, bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if validity.is_entry {
            put(at + 16, &name.as_secs().to_ne_bytes());
            put(at + 24, &attributes.as_secs().to_ne_bytes());
            put(at + 32, &name.subsec_nanos().to_ne_bytes());
            put(at + 36, &attributes.subsec_nanos().to_ne_bytes());
        } else {
            put(at, &attributes.as_secs().to_ne_bytes());
            put(at + 8, &attributes.subsec_nanos().to_ne_bytes());
        }
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
        let (length, name) = (name_bytes(name), names::bytes_of(name));
        if self.len() + length > most {
            return false;
        }
        // As in `dirent`: the four bits of the type.
        self.u64(node).u64(next).u32(name.len() as u32).u32(kind >> 12);
        self.bytes.extend_from_slice(&name);
        self.bytes.extend_from_slice(&[0; 8][..length - NAME_HEAD_BYTES - name.len()]);
        true
    }

    /// The same, with the attributes of what it stands for; none: the kernel asks for them if it needs them.
    pub(crate) fn name_with(
        &mut self,
        most: usize,
        (asked, attributes): (Asked, Option<(Attributes, i64)>),
        (node, next, kind, name): (u64, u64, u32, &str),
    ) -> bool {
        if self.len() + ENTRY_BYTES + name_bytes(name) > most {
            return false;
        }
        match attributes {
            // The kernel would take the name for newer than what it was told to forget while it read the listing.
            Some((attributes, until)) => {
                self.add_entry(asked, &attributes, Until { name: 0, attributes: until });
            }
            None => self.bytes.resize(self.bytes.len() + ENTRY_BYTES, 0),
        }
        self.name(most, node, next, kind, name)
    }
}

/// Bytes of a name in a listing.
fn name_bytes(name: &str) -> usize {
    NAME_HEAD_BYTES + names::bytes_of(name).len().next_multiple_of(8)
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
        let asked = Asked::default();
        let mut answer = Answer::entry(asked, &node, Until { name: 1, attributes: 2 });
        let validity = answer.take_validities()[0];
        assert!(validity.is_given && !validity.is_directory && validity.node == 7);
        answer.set_validity(&validity, (Duration::from_millis(2001), Duration::from_millis(3002)));
        let entry = answer.into_bytes();
        assert_eq!(
            (entry.len(), Answer::node(asked, &node, 0).len(), Answer::absent(1).len()),
            (128, 104, 128)
        );
        assert_eq!((entry[16], entry[24]), (2, 3), "seconds of the name and of the attributes");
        assert_eq!(entry[32..36], 1_000_000u32.to_ne_bytes());
        assert_eq!(entry[36..40], 2_000_000u32.to_ne_bytes());
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

    #[test]
    fn a_name_with_attributes_has_its_place_for_them_even_if_they_are_not_told() {
        let (mut listing, asked) = (Answer::default(), Asked::default());
        assert!(listing.name_with(320, (asked, None), (5, 1, 0o040_000, "a")));
        assert_eq!((listing.len(), listing.take_validities().len()), (160, 0));
        assert!(listing.name_with(320, (asked, None), (6, 2, 0o100_000, "b")));
        assert!(!listing.name_with(320, (asked, None), (7, 3, 0o100_000, "c")));
        assert_eq!(listing.into_bytes()[128..136], 5u64.to_ne_bytes());
    }
}
