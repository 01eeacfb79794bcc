//! POSIX permission bits, as a pure function.

use crate::{Principal, store::Node};

/// What somebody wants to do with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    Read = 4,
    Write = 2,
    /// Walk through a directory.
    Search = 1,
}

impl Right {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "change",
            Self::Search => "reach",
        }
    }
}

/// What the mode bits of a node let `who` do: the sum of 4 to read, 2 to change, 1 to search or run.
///
/// Groups carry the name of their user until tokens bring real ones.
#[must_use]
pub fn rights(who: &Principal, owner: &str, group: &str, mode: u32) -> u32 {
    if who.is_operator {
        return 7;
    }
    let shift = if who.name == owner {
        6
    } else if who.name == group {
        3
    } else {
        0
    };
    mode >> shift & 7
}

/// Whether the mode bits let `who` do it.
pub(crate) fn allows(who: &Principal, node: &Node, right: Right) -> bool {
    rights(who, &node.owner, &node.group, node.mode) & right as u32 != 0
}
