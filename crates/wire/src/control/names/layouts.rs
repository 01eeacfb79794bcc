//! How files that are changed in place lie on disk servers, as their directories say.

use base::{Failure, FilePath, Result, units::human_bytes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Columns at most: each client has a connection to each.
pub const LAYOUT_WIDTH_MAX: u8 = 16;
/// Copies at most.
pub const LAYOUT_COPIES_MAX: u8 = 8;
/// Bytes of a unit, at least and at most: whole pages, and no more than a client buffers.
pub const LAYOUT_UNIT_BYTES: (u64, u64) = (64 << 10, 64 << 20);
/// Bytes of a unit if nothing is said: what one request moves.
pub const LAYOUT_UNIT_DEFAULT: u64 = 1 << 20;

/// A wish for files that are changed in place. What is not set is as their pool has it, and one column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRule {
    /// Copies of each column while the file is changed in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u8>,
    /// Columns over which a file is striped, on different disk servers as far as there are so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
    /// Bytes that lie in one column before the next one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<u64>,
}

impl LayoutRule {
    /// Refuses what no file can have.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: String| Err(Failure::invalid(what).hint(hint));
        if self == &Self::default() {
            return refuse(
                "a layout without copies, width or unit says nothing".into(),
                "set one of them".into(),
            );
        }
        for (what, value, most) in
            [("copies", self.copies, LAYOUT_COPIES_MAX), ("columns", self.width, LAYOUT_WIDTH_MAX)]
        {
            if value.is_some_and(|value| value == 0 || value > most) {
                return refuse(
                    format!("a file cannot have {} {what}", value.unwrap_or(0)),
                    format!("set 1 to {most}"),
                );
            }
        }
        let (least, most) = LAYOUT_UNIT_BYTES;
        match self.unit {
            Some(unit) if unit < least || unit > most || unit % 4096 != 0 => {
                let bounds =
                    format!("set {} to {}, whole pages of 4096 bytes", human_bytes(least), human_bytes(most));
                refuse(format!("a unit cannot have {unit} bytes"), bounds)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for LayoutRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copies = self.copies.map(|copies| format!("copies {copies}"));
        let width = self.width.map(|width| format!("width {width}"));
        let unit = self.unit.map(|unit| format!("unit {}", human_bytes(unit)));
        f.write_str(&[copies, width, unit].into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Sets how files lie on disk servers that are changed in place: those that are made below a directory, or a file when it is begun anew.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetLayout {
    /// The directory or file.
    pub path: FilePath,
    /// The rule; `None`: what is above counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<LayoutRule>,
}

/// Asks for the rule that counts for a directory or file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetLayout {
    /// The directory or file.
    pub path: FilePath,
}

/// The rule that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutInfo {
    /// The rule; `None`: none was set, and the pool decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<LayoutRule>,
    /// Where it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FilePath>,
}

/// How the objects of a file lie that is changed in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLayout {
    /// Bytes that lie in one column before the next one follows; 0: one column.
    pub unit: u64,
    /// Partitions with the copies of each column.
    pub columns: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_no_file_can_have_are_refused() {
        let rule = |copies, width, unit| LayoutRule { copies, width, unit };
        for good in
            [rule(Some(2), None, None), rule(None, Some(16), Some(1 << 20)), rule(None, None, Some(65536))]
        {
            assert!(good.check().is_ok(), "{good}");
        }
        for bad in [
            rule(None, None, None),
            rule(Some(0), None, None),
            rule(Some(9), None, None),
            rule(None, Some(17), None),
            rule(None, None, Some(65537)),
            rule(None, None, Some(4096)),
            rule(None, None, Some(u64::MAX)),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert_eq!(rule(Some(2), Some(4), Some(1 << 20)).to_string(), "copies 2, width 4, unit 1.00 MiB");
    }
}
