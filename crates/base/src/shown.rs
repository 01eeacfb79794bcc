//! The one rule for text from outside that a person will see: on a terminal, or in a log that is read on one.
//!
//! Control characters could move the cursor, change the title of the window or write over what stands there; bidirectional
//! overrides make a text look like another one. They are shown as `\x1b` or `\u{202e}`, everything else as it is.

use std::{
    borrow::Cow,
    fmt::Write,
    path::{Component, Path},
};

/// Whether a character changes how others look instead of showing itself.
fn is_hidden(c: char) -> bool {
    // Marks, embeddings, overrides and isolates of bidirectional text (UAX #9); line and paragraph separators.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text in one line, with nothing in it that a terminal obeys.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// A text that may have several lines, and tabs; else as [`shown`].
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// A path of a host as failures name it that clients may see: its last two components, without where the facility's directory is.
/// Operators find the rest by the name of the partition, library or worker that stands beside it.
#[must_use]
pub fn tail(path: &Path) -> String {
    // The root is a component, too.
    let names = path.components().filter(|part| *part != Component::RootDir);
    let names: Vec<_> = names.rev().take(2).map(|name| name.as_os_str().to_string_lossy()).collect();
    names.iter().rev().fold(String::from("…"), |shown, name| shown + "/" + name)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing into a string cannot fail.
        let _ = match c {
            c if !is_escaped(c) => safe.write_char(c),
            '\n' => safe.write_str("\\n"),
            '\r' => safe.write_str("\\r"),
            '\t' => safe.write_str("\\t"),
            c if c.is_ascii() => write!(safe, "\\x{:02x}", u32::from(c)),
            c => write!(safe, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(safe)
}

/// Bytes in lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text in hex; none if a digit is missing or foreign.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, expected) in [
            ("plain text, é 李 👩‍🔬", "plain text, é 李 👩‍🔬"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("a\u{0}\u{7f}\u{7}", "a\\x00\\x7f\\x07"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("run\u{202e}gpj.exe", "run\\u{202e}gpj.exe"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown_lines("a\n\tb\rc\u{1b}"), "a\n\tb\\rc\\x1b");
    }

    #[test]
    fn of_a_path_of_the_host_only_its_end_is_told() {
        assert_eq!(tail(Path::new("/srv/facility/tape/slots/BP0001.aws")), "…/slots/BP0001.aws");
        assert_eq!(tail(Path::new("/key")), "…/key");
        assert_eq!(tail(Path::new("")), "…");
    }

    #[test]
    fn hex_is_read() {
        assert_eq!(unhex("00fFa5"), Some(vec![0, 255, 0xa5]));
        assert_eq!(unhex(""), Some(vec![]));
        for bad in ["0", "0g", "+1", "é", "00 0"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn hex_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        }

        #[test]
        fn nothing_hidden_is_left(text in ".*") {
            prop_assert!(!shown(&text).contains(is_hidden));
            prop_assert!(!shown_lines(&text).contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
            let once = shown(&text);
            prop_assert_eq!(shown(&once), once.as_ref());
        }
    }
}
