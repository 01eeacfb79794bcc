//! Headers of POSIX `tar` (IEEE 1003.1, *pax Interchange Format*).

use super::RECORD_BYTES;

/// Longest name that fits the header alone.
const NAME_BYTES: usize = 100;
/// Stands for a longer name, which a header before it gives.
const LONG_NAME: &str = ".backplane/long-name";

/// The largest number that the header has digits for.
const SIZE_MAX: u64 = 0o777_7777_7777;

/// What ends an archive.
pub const END: [u8; 2 * RECORD_BYTES] = [0; 2 * RECORD_BYTES];

/// Where the fields of a header are, as ranges of bytes.
mod field {
    use std::ops::Range;
    pub(super) const NAME: Range<usize> = 0..100;
    pub(super) const MODE: Range<usize> = 100..108;
    pub(super) const UID: Range<usize> = 108..116;
    pub(super) const GID: Range<usize> = 116..124;
    pub(super) const SIZE: Range<usize> = 124..136;
    pub(super) const MTIME: Range<usize> = 136..148;
    pub(super) const SUM: Range<usize> = 148..156;
    pub(super) const KIND: usize = 156;
    pub(super) const MAGIC: Range<usize> = 257..265;
}

/// `ustar`, a zero and version 00.
const MAGIC: &[u8; 8] = b"ustar\x0000";

/// The header of a member with these many bytes; before it what gives a name that is long or not ASCII. `modified` is in seconds
/// since 1970. A whole number of records.
#[must_use]
pub fn header(name: &str, size: u64, modified: u64) -> Vec<u8> {
    if name.len() <= NAME_BYTES && name.is_ascii() {
        return record(name, size, modified, b'0').to_vec();
    }
    let path = pax_record("path", name);
    let mut out = record(LONG_NAME, path.len() as u64, modified, b'x').to_vec();
    out.extend_from_slice(&path);
    out.resize(out.len() + padding(path.len() as u64), 0);
    out.extend(record(LONG_NAME, size, modified, b'0'));
    out
}

/// Zeros behind data of so many bytes.
#[must_use]
pub fn padding(size: u64) -> usize {
    (RECORD_BYTES - (size % RECORD_BYTES as u64) as usize) % RECORD_BYTES
}

/// `LENGTH KEY=VALUE\n`, where the length counts its own digits, too.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

fn record(name: &str, size: u64, modified: u64, kind: u8) -> [u8; RECORD_BYTES] {
    assert!(size <= SIZE_MAX, "a member of {size} bytes is none for a bundle");
    let mut record = [0; RECORD_BYTES];
    record[field::NAME][..name.len()].copy_from_slice(name.as_bytes());
    let mut number = |field: std::ops::Range<usize>, value: u64| {
        // One byte is left for the zero behind it.
        let digits = field.len() - 1;
        let text = format!("{value:0digits$o}");
        record[field.start..field.start + digits].copy_from_slice(&text.as_bytes()[text.len() - digits..]);
    };
    number(field::MODE, 0o644);
    number(field::UID, 0);
    number(field::GID, 0);
    number(field::SIZE, size);
    number(field::MTIME, modified.min(SIZE_MAX));
    record[field::KIND] = kind;
    record[field::MAGIC].copy_from_slice(MAGIC);
    let sum = format!("{:06o}\0 ", sum_of(&record));
    record[field::SUM].copy_from_slice(sum.as_bytes());
    record
}

/// The sum of all bytes, with spaces in place of the sum itself.
fn sum_of(record: &[u8; RECORD_BYTES]) -> u32 {
    let counted = record.iter().enumerate();
    counted.map(|(at, byte)| if field::SUM.contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

/// A header, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) kind: u8,
}

impl Header {
    /// `None` if it is not one, or its sum is wrong.
    pub(super) fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let octal = |field: std::ops::Range<usize>| {
            let text = std::str::from_utf8(&record[field]).ok()?.trim_matches([' ', '\0']);
            u64::from_str_radix(text, 8).ok()
        };
        let is_ours = record[field::MAGIC] == *MAGIC && octal(field::SUM)? == u64::from(sum_of(record));
        let name = record[field::NAME].split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        is_ours.then_some(Self { name, size: octal(field::SIZE)?, kind: record[field::KIND] })
    }
}
