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

/// Whether the mode bits let `who` do it. Groups carry the name of their user until tokens bring real ones.
pub(crate) fn allows(who: &Principal, node: &Node, right: Right) -> bool {
    if who.is_operator {
        return true;
    }
    let shift = if who.name == node.owner {
        6
    } else if who.name == node.group {
        3
    } else {
        0
    };
    node.mode >> shift & right as u32 != 0
}
