//! Names as the tables print them, taken as arguments.

use base::{RequestId, Result};

/// A partition as `bp pool list` shows it, `POOL/PARTITION`, or its name alone: names of partitions are unique.
pub(crate) fn partition(text: &str) -> Result<String> {
    Ok(text.rsplit_once('/').map_or(text, |(_, name)| name).to_owned())
}

/// A request as `bp queue` shows it, `r7`, or only its number.
pub(crate) fn request(text: &str) -> Result<RequestId> {
    text.strip_prefix('r').unwrap_or(text).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_printed() {
        for text in ["main/d1-disk1", "d1-disk1"] {
            assert_eq!(partition(text).unwrap(), "d1-disk1");
        }
        for text in ["r7", "7"] {
            assert_eq!(request(text).unwrap(), RequestId(7));
        }
        assert!(request("rr7").is_err() && request("r").is_err());
    }
}
