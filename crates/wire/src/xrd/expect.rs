//! Size and checksum that a client expects of a file before it closes it (spec/xrootd.md §4.10).

use super::{Malformed, frame::text};
use base::Crc32c;

/// Key of `query config` whose answer lists what a server understands beyond the protocol.
pub const FEATURES_KEY: &str = "bp.features";
/// The feature: a client may say what it expects of a file that it has written.
pub const FEATURE_EXPECT: &str = "expect";

/// What a client has sent: a file that is something else must not be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// Size in bytes.
    pub size: u64,
    /// CRC-32C of the whole file.
    pub crc32c: Crc32c,
}

impl Expectation {
    /// The arguments of the query on the open file.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("bp.expect size={} crc32c={}", self.size, self.crc32c)
    }

    /// Parses the arguments of a query; `None` if they are about something else.
    pub fn parse(args: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut words = text(args, "query arguments")?.split(' ');
        if words.next() != Some("bp.expect") {
            return Ok(None);
        }
        let size = words.next().and_then(|word| word.strip_prefix("size=")?.parse().ok());
        let crc32c = words.next().and_then(|word| word.strip_prefix("crc32c=")?.parse().ok());
        match (size, crc32c, words.next()) {
            (Some(size), Some(crc32c), None) => Ok(Some(Self { size, crc32c })),
            _ => Err(Malformed::Missing("size or crc32c of what is expected")),
        }
    }
}

/// Fuzz body: whatever a client says, no panic.
pub fn fuzz_expectation(data: &[u8]) {
    if let Ok(Some(expectation)) = Expectation::parse(data) {
        assert_eq!(Expectation::parse(expectation.to_text().as_bytes()), Ok(Some(expectation)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_said_is_understood(size: u64, sum: u32, junk in prop::collection::vec(any::<u8>(), 0..60)) {
            let expectation = Expectation { size, crc32c: Crc32c(sum) };
            let text = expectation.to_text();
            prop_assert_eq!(Expectation::parse(text.as_bytes()), Ok(Some(expectation)));
            let longer = format!("{text} more");
            prop_assert!(Expectation::parse(longer.as_bytes()).is_err());
            fuzz_expectation(&junk);
        }
    }

    #[test]
    fn other_queries_are_left_alone() {
        assert_eq!(Expectation::parse(b"something else"), Ok(None));
        assert!(Expectation::parse(b"bp.expect size=x crc32c=00000000").is_err());
    }
}
