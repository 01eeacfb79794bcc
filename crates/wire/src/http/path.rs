//! Paths of the namespace in URLs (RFC 3986 §2.1).

use base::{Failure, FilePath, Result, limits::PATH_BYTES_MAX};
use std::fmt::Write as _;

/// Reads the path of a request target, without its query, as a path of the namespace.
///
/// An encoded slash is a slash: no name of the namespace has one.
pub fn decode_path(target: &str) -> Result<FilePath> {
    // Three characters may stand for each byte; a longer path cannot become a legal one.
    if target.len() > 3 * PATH_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "path of {} bytes is longer than {PATH_BYTES_MAX}",
            target.len()
        )));
    }
    let bytes = percent_decode(target)
        .ok_or_else(|| Failure::invalid(format!("path {target:?} has a % without two hex digits")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::invalid(format!("path {target:?} is not UTF-8 once decoded")))?;
    text.parse()
}

/// Whether the path of a request target, without its query, is that of a directory by its form.
#[must_use]
pub fn target_names_directory(target: &str) -> bool {
    percent_decode(target).is_some_and(|bytes| crate::names_directory(&String::from_utf8_lossy(&bytes)))
}

/// Writes a path so that it can stand in a URL, a `Location` or a WebDAV `href`.
#[must_use]
pub fn encode_path(path: &FilePath) -> String {
    let mut text = String::with_capacity(path.as_str().len());
    for byte in path.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$'()*+,;=:@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    text
}

/// The bytes that percent-encoded text stands for; none if an escape is cut off or not hex.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = after;
    }
    Some(bytes)
}

/// Fuzz body: whatever is decoded is a legal path that survives being encoded.
pub fn fuzz_path(data: &[u8]) {
    if let Ok(path) = decode_path(&String::from_utf8_lossy(data)) {
        assert_eq!(decode_path(&encode_path(&path)), Ok(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_read() {
        assert_eq!(decode_path("/a%20b/%C3%BC").unwrap().as_str(), "/a b/ü");
        assert_eq!(decode_path("//a%2fb").unwrap().as_str(), "/a/b");
        assert_eq!(encode_path(&"/a b/50%/ü?#\"".parse().unwrap()), "/a%20b/50%25/%C3%BC%3F%23%22");
    }

    #[test]
    fn a_slash_at_the_end_names_a_directory() {
        for directory in ["/", "/a/", "/a//", "/a/.", "/a%2F", "/a/%2e", "/a%2f%2E"] {
            assert!(target_names_directory(directory), "{directory}");
        }
        for file in ["/a", "/a.", "/a/..b", "/a/.b", "/a%2Fb", "/%2E%2Ea"] {
            assert!(!target_names_directory(file), "{file}");
        }
    }

    #[test]
    fn escapes_do_not_smuggle() {
        for bad in ["/%2e%2e/x", "/a/..%2Fb", "/%00", "/%", "/%4", "/%zz", "/%+1", "/%ff", "a", ""] {
            assert!(decode_path(bad).is_err(), "{bad}");
        }
        assert!(decode_path(&"/%41".repeat(5000)).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(text in "(/[a-z%ü ?#&]{1,8}){0,4}") {
            if let Ok(path) = text.parse::<FilePath>() {
                prop_assert_eq!(decode_path(&encode_path(&path)).unwrap(), path);
            }
        }

        #[test]
        fn noise_never_panics(text in "/[%0-9a-fü./]{0,40}", raw in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_path(text.as_bytes());
            fuzz_path(&raw);
        }
    }
}
