//! READ ELEMENT STATUS: what a changer says of its elements.

use super::inquiry::text;
use crate::changer::ElementKind;
use base::{Failure, Result};

/// Bytes of an answer that are read at once; more elements are asked for with another command.
pub(super) const STATUS_BYTES_MAX: u32 = 64 << 10;
/// Elements that are asked for at once: with descriptors of up to 200 bytes they fit [`STATUS_BYTES_MAX`].
pub(super) const ELEMENTS_AT_ONCE: u16 = 256;
/// Shortest descriptor that says anything: up to the sense code of the element.
const DESCRIPTOR_BYTES_MIN: usize = 12;
/// Bytes of a bar code in a descriptor, with its sequence number.
const TAG_BYTES: usize = 36;
/// Characters of the bar code itself.
const TAG_TEXT_BYTES: usize = 32;

/// The four types of elements, as commands number them. Each is asked for by itself: some changers answer a question for all types
/// with a page that cannot be read.
pub(super) const KINDS: [(u8, ElementKind); 4] =
    [(1, ElementKind::Arm), (2, ElementKind::Slot), (3, ElementKind::ImportExport), (4, ElementKind::Drive)];

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ElementStatus {
    pub(super) address: u16,
    /// There is a cartridge in it.
    pub(super) is_full: bool,
    /// Something is wrong with it: the codes.
    pub(super) exception: Option<(u8, u8)>,
    /// The element that the cartridge came from.
    pub(super) source: Option<u16>,
    /// The bar code; empty if there is none, or it cannot be read.
    pub(super) bar_code: String,
    /// What the drive in the element says it is; empty if the changer does not know.
    pub(super) identity: String,
}

/// Decodes an answer about elements of type `code`.
pub(super) fn decode(code: u8, data: &[u8]) -> Result<Vec<ElementStatus>> {
    let nonsense = |what: &str| Failure::new(base::ErrorKind::Io, format!("READ ELEMENT STATUS: {what}"));
    let Some(header) = data.get(..8) else { return Err(nonsense("the answer has no header")) };
    let end = (8 + be_24(&header[5..8])).min(data.len());
    let mut pages = &data[8..end];
    let mut found = Vec::new();
    while !pages.is_empty() {
        let Some(page) = pages.get(..8) else { return Err(nonsense("a page is cut off")) };
        let (kind, flags) = (page[0] & 0x0f, page[1]);
        let length = usize::from(u16::from_be_bytes([page[2], page[3]]));
        if length < DESCRIPTOR_BYTES_MIN {
            // Without this guard the walk would never end.
            return Err(nonsense(&format!("descriptors have {length} bytes, which is too short")));
        }
        let rest = &pages[8..];
        let (body, next) = rest.split_at(be_24(&page[5..8]).min(rest.len()));
        if kind == code {
            // Some changers cut the last descriptor short, behind what matters: what is missing is not there.
            let whole = |piece: &&[u8]| piece.len() >= DESCRIPTOR_BYTES_MIN;
            found.extend(body.chunks(length).filter(whole).map(|descriptor| element(descriptor, flags)));
        }
        pages = next;
    }
    Ok(found)
}

/// Decodes a descriptor on a page with `flags`, which say whether bar codes are there.
fn element(descriptor: &[u8], flags: u8) -> ElementStatus {
    let state = descriptor[2];
    let is_source_valid = descriptor[9] & 0x80 != 0;
    let tags = [flags & 0x80 != 0, flags & 0x40 != 0];
    let behind_tags = 12 + TAG_BYTES * tags.iter().filter(|is_there| **is_there).count();
    let bar_code = if tags[0] { text(descriptor, 12, TAG_TEXT_BYTES) } else { String::new() };
    let identity_length = descriptor.get(behind_tags + 3).copied().unwrap_or(0).into();
    let identity_end = behind_tags + 4 + identity_length;
    let identity = if identity_end <= descriptor.len() {
        text(descriptor, behind_tags + 4, identity_length)
    } else {
        String::new()
    };
    ElementStatus {
        address: u16::from_be_bytes([descriptor[0], descriptor[1]]),
        is_full: state & 0x01 != 0,
        exception: (state & 0x04 != 0).then_some((descriptor[4], descriptor[5])),
        source: is_source_valid.then(|| u16::from_be_bytes([descriptor[10], descriptor[11]])),
        bar_code,
        identity,
    }
}

/// Writes an answer about elements of type `code`, as the emulation gives it.
pub(super) fn encode(code: u8, elements: &[ElementStatus]) -> Vec<u8> {
    let mut body = Vec::new();
    for element in elements {
        let mut descriptor = [b' '; 12 + TAG_BYTES];
        descriptor[..12].fill(0);
        descriptor[..2].copy_from_slice(&element.address.to_be_bytes());
        descriptor[2] = u8::from(element.is_full) | u8::from(element.exception.is_some()) << 2 | 0x08;
        (descriptor[4], descriptor[5]) = element.exception.unwrap_or((0, 0));
        if let Some(source) = element.source {
            descriptor[9] = 0x80;
            descriptor[10..12].copy_from_slice(&source.to_be_bytes());
        }
        descriptor[44..48].fill(0);
        let bar_code = element.bar_code.as_bytes();
        descriptor[12..12 + bar_code.len()].copy_from_slice(bar_code);
        body.extend(descriptor);
        body.extend([0x02, 0x00, 0x00, element.identity.len() as u8]);
        body.extend(element.identity.bytes().chain(std::iter::repeat(0)).take(IDENTITY_BYTES));
    }
    let mut answer = vec![0; 8];
    if !elements.is_empty() {
        answer[..2].copy_from_slice(&elements[0].address.to_be_bytes());
        answer[2..4].copy_from_slice(&(elements.len() as u16).to_be_bytes());
        let length = 12 + TAG_BYTES + 4 + IDENTITY_BYTES;
        answer.extend([code, 0x80]);
        answer.extend((length as u16).to_be_bytes());
        answer.extend((body.len() as u32).to_be_bytes());
        answer.extend(body);
    }
    let bytes = (answer.len() - 8) as u32;
    answer[4..8].copy_from_slice(&bytes.to_be_bytes());
    answer
}

/// Room for the identity of a drive in the answers of the emulation.
const IDENTITY_BYTES: usize = 32;

fn be_24(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(address: u16, bar_code: &str) -> ElementStatus {
        ElementStatus {
            address,
            is_full: !bar_code.is_empty(),
            exception: None,
            source: Some(address + 1),
            bar_code: bar_code.to_owned(),
            identity: format!("DRV{address}"),
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let elements = [slot(1000, "BP0001L9"), slot(1001, "")];
        assert_eq!(decode(2, &encode(2, &elements)).unwrap(), elements);
        assert_eq!(decode(3, &encode(2, &elements)).unwrap(), []);
        assert_eq!(decode(2, &encode(2, &[])).unwrap(), []);
    }

    #[test]
    fn a_last_descriptor_that_is_cut_short_is_an_element_without_identity() {
        let elements = [slot(500, "BP0001L9"), slot(501, "BP0002L9")];
        let answer = encode(4, &elements);
        let found = decode(4, &answer[..answer.len() - 29]).unwrap();
        assert_eq!(found[0], elements[0]);
        assert_eq!((found[1].bar_code.as_str(), found[1].identity.as_str()), ("BP0002L9", ""));
    }

    #[test]
    fn a_descriptor_without_length_ends_nothing() {
        let mut answer = encode(2, &[slot(1000, "BP0001L9")]);
        answer[10..12].fill(0);
        assert!(decode(2, &answer).unwrap_err().what.contains("0 bytes"));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0u8..60) {
            let _ = decode(2, &bytes);
            // Past the header of the answer and into the pages.
            let mut answer = encode(2, &[slot(1, "A"), slot(2, "B")]);
            answer[11] = length;
            answer.extend(bytes);
            let _ = decode(2, &answer);
        }
    }
}
