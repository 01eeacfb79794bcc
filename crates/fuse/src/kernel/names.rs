//! Names of any bytes, in a catalogue whose names are text without control characters.
//!
//! A byte that is no such text is written as a character of the private use area, U+F700 plus the byte. A character that would be
//! read back as such a byte is written byte by byte, too, so that each name has one spelling and comes back as it was.

/// What stands for the byte 0.
const FIRST: u32 = 0xf700;

/// Whether a byte is never text by itself. Neither `/` nor 0 is among these: no name can bring one in.
fn is_escaped(byte: u8) -> bool {
    matches!(byte, 0x01..=0x1f | 0x7f..=0xff)
}

/// The byte that a character stands for.
fn byte_of(character: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(character).checked_sub(FIRST)?).ok()?;
    is_escaped(byte).then_some(byte)
}

/// A name as the catalogue has it. It has up to three times as many bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(bytes.len());
    let escape = |byte: &u8| char::from_u32(FIRST + u32::from(*byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || byte_of(character).is_some() {
                name.extend(character.encode_utf8(&mut [0; 4]).as_bytes().iter().map(escape));
            } else {
                name.push(character);
            }
        }
        name.extend(chunk.invalid().iter().map(escape));
    }
    name
}

/// A name as the kernel has it.
pub fn bytes_of(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    for character in name.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Fuzz body: a name comes back as it was, and no name from elsewhere becomes one that the kernel refuses.
pub fn fuzz_names(data: &[u8]) {
    let data: Vec<u8> = data.iter().copied().filter(|byte| *byte != 0).collect();
    let name = of_bytes(&data);
    assert_eq!(bytes_of(&name), data);
    assert!(!name.contains(|character: char| character.is_control()));
    if let Ok(text) = std::str::from_utf8(&data)
        && !text.contains('/')
    {
        assert!(!bytes_of(text).iter().any(|byte| matches!(byte, 0 | b'/')));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_all_else_comes_back() {
        assert_eq!(of_bytes("Grüße 語".as_bytes()), "Grüße 語");
        assert_eq!(of_bytes(b"a\xff\nb"), "a\u{f7ff}\u{f70a}b");
        for odd in ["\u{f7ff}", "\u{f72f}", "\u{f700}", "\u{85}", "\u{7f}"] {
            fuzz_names(odd.as_bytes());
        }
        assert_eq!(bytes_of("\u{f72f}\u{f700}"), "\u{f72f}\u{f700}".as_bytes(), "no slash comes in");
    }

    proptest::proptest! {
        #[test]
        fn names_of_any_bytes_come_back(name in proptest::collection::vec(1..=u8::MAX, 0..300)) {
            fuzz_names(&name);
        }

        #[test]
        fn names_of_doors_bring_no_slash(name in "[^/\0]{0,100}") {
            fuzz_names(name.as_bytes());
        }
    }
}
