//! Base64 (RFC 4648 §4) of the few bytes that header fields carry.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Text of `bytes`, padded.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Exactly `N` bytes; none if the length differs, a character is foreign, padding is missing or unused bits are set.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    let mut bytes = [0; N];
    for (group, out) in text.as_bytes().chunks(4).zip(bytes.chunks_mut(3)) {
        let mut bits = 0;
        for (place, byte) in group.iter().enumerate() {
            let digit = match byte {
                b'=' if place > out.len() => 0,
                _ if place > out.len() => return None,
                _ => ALPHABET.iter().position(|known| known == byte)? as u32,
            };
            bits = bits << 6 | digit;
        }
        let all = bits.to_be_bytes();
        let (used, unused) = all[1..].split_at(out.len());
        if unused.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.copy_from_slice(used);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(decode("Zm9v"), Some(*b"foo"));
        for bad in ["Zm9", "Zm8=", "Zm9v====", "Zm!v", "===="] {
            assert_eq!(decode::<3>(bad), None, "{bad}");
        }
        assert_eq!(decode::<1>("Zh=="), None, "unused bits");
        assert_eq!(decode::<1>("Zg=A"), None, "padding only at the end");
    }

    proptest! {
        #[test]
        fn round_trip(four: [u8; 4], sixteen: [u8; 16], thirty_two: [u8; 32]) {
            prop_assert_eq!(decode(&encode(&four)), Some(four));
            prop_assert_eq!(decode(&encode(&sixteen)), Some(sixteen));
            prop_assert_eq!(decode(&encode(&thirty_two)), Some(thirty_two));
        }

        #[test]
        fn noise_never_panics(text in "[A-Za-z0-9+/=ü]{0,50}") {
            let _ = (decode::<4>(&text), decode::<16>(&text), decode::<32>(&text));
        }
    }
}
