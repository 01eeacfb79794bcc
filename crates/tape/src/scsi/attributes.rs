//! Attributes that a cartridge keeps in its memory chip (MAM).

use super::{
    command::Command,
    device::{Device, Trouble},
    transport::Transport,
};
use crate::drive::Capacity;

/// Bytes of attributes that are read: both of them and what a drive may give beside them.
const ATTRIBUTES_BYTES: u32 = 1024;
/// MiB that can still be written.
pub(super) const REMAINING: u16 = 0x0000;
/// MiB of the cartridge.
pub(super) const MAXIMUM: u16 = 0x0001;
/// The unit of both.
const MIB: u64 = 1 << 20;

/// How full the medium is; `None` if it does not say.
pub(super) fn capacity<T: Transport>(device: &mut Device<T>) -> Result<Option<Capacity>, Trouble> {
    let mut buffer = [0; ATTRIBUTES_BYTES as usize];
    let data = device.ask(&Command::read_attribute(REMAINING, ATTRIBUTES_BYTES), &mut buffer)?;
    let (Some(remaining), Some(total)) = (attribute(data, REMAINING), attribute(data, MAXIMUM)) else {
        return Ok(None);
    };
    let bytes = |mib: u64| mib.saturating_mul(MIB);
    Ok(Some(Capacity { used_bytes: bytes(total.saturating_sub(remaining)), total_bytes: bytes(total) }))
}

/// The value of a number among attributes.
fn attribute(data: &[u8], wanted: u16) -> Option<u64> {
    let mut rest = data.get(4..)?;
    while let [high, low, _, length_high, length_low, ..] = *rest {
        let end = 5 + usize::from(u16::from_be_bytes([length_high, length_low]));
        let value = rest.get(5..end)?;
        if u16::from_be_bytes([high, low]) == wanted && value.len() <= 8 {
            return Some(value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        }
        rest = &rest[end..];
    }
    None
}

/// Writes the two attributes, as the emulation answers.
pub(super) fn encode(capacity: Capacity) -> Vec<u8> {
    let remaining = capacity.total_bytes.saturating_sub(capacity.used_bytes) / MIB;
    let mut answer = vec![0; 4];
    for (id, value) in [(REMAINING, remaining), (MAXIMUM, capacity.total_bytes / MIB)] {
        answer.extend(id.to_be_bytes());
        answer.extend([0x80, 0, 8]);
        answer.extend(value.to_be_bytes());
    }
    let length = (answer.len() - 4) as u32;
    answer[..4].copy_from_slice(&length.to_be_bytes());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_a_cut_answer_has_none() {
        let answer = encode(Capacity { used_bytes: 3 * MIB, total_bytes: 10 * MIB });
        assert_eq!((attribute(&answer, REMAINING), attribute(&answer, MAXIMUM)), (Some(7), Some(10)));
        for end in 0..answer.len() {
            assert_eq!(attribute(&answer[..end], MAXIMUM), None);
        }
    }
}
