//! Answers of an emulated drive: sense data, and numbers of commands.

use crate::{
    drive::Written,
    scsi::sense::{Sense, SenseKey},
};
use base::{ErrorKind, Failure, Result};

pub(super) const NO_MEDIUM: Sense = Sense { key: SenseKey::NotReady, code: (0x3a, 0x00), ..GOOD };
pub(super) const DIED: Sense = Sense { key: SenseKey::Hardware, code: (0x44, 0x00), ..GOOD };
pub(super) const GOOD: Sense = Sense::new(SenseKey::NoSense, (0, 0));

/// What a command has come to: bytes of data, or sense data and the bytes that came with them.
pub(super) type Answer = Result<usize, (Sense, usize)>;

/// The sense data for what the medium says.
pub(super) fn of(failure: &Failure) -> Sense {
    let (key, code) = match failure.kind {
        ErrorKind::NotFound => (SenseKey::NotReady, (0x3a, 0x00)),
        ErrorKind::Corrupt | ErrorKind::Unsupported => (SenseKey::Medium, (0x31, 0x00)),
        ErrorKind::Permission => (SenseKey::DataProtect, (0x27, 0x00)),
        ErrorKind::Invalid => (SenseKey::IllegalRequest, (0x24, 0x00)),
        _ => (SenseKey::Hardware, (0x44, 0x00)),
    };
    Sense { key, code, ..GOOD }
}

pub(super) fn full(count: i64) -> Sense {
    let (key, information) = (SenseKey::VolumeOverflow, Some(count));
    Sense { key, code: (0x00, 0x02), end_of_medium: true, information, ..GOOD }
}

pub(super) fn answer_of_write(written: Result<Written>, count: usize) -> Answer {
    match written {
        Ok(Written::Plenty) => Ok(count),
        Ok(Written::EarlyWarning) => {
            let near = Sense { end_of_medium: true, code: (0x00, 0x02), information: Some(0), ..GOOD };
            Err((near, count))
        }
        Err(failure) if failure.kind == ErrorKind::NoSpace => Err((full(count as i64), 0)),
        Err(failure) => Err((of(&failure), 0)),
    }
}

pub(super) fn copy(answer: &[u8], buffer: &mut [u8]) -> usize {
    let length = answer.len().min(buffer.len());
    buffer[..length].copy_from_slice(&answer[..length]);
    length
}

pub(super) fn be_24(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

pub(super) fn be_32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
