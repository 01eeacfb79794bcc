//! POSIX permission bits, as a pure function, and grants beside them.

use super::grants::upwards;
use crate::{Core, Principal, store::Node};
use base::{Cause, Failure, FilePath, Result};
use wire::control::Subject;

/// The access that a principal asks for.
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
/// Everybody is in the group of their own name; tokens bring others.
#[must_use]
pub fn rights(who: &Principal, owner: &str, group: &str, mode: u32) -> u32 {
    if who.is_operator {
        return 7;
    }
    let shift = if who.name == owner {
        6
    } else if who.is_in(group) {
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

/// The bit of a directory in which users remove and rename only what is theirs, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Refuses to remove or rename what is somebody else's in a directory that has the sticky bit.
pub(crate) fn require_unstuck(
    who: &Principal,
    (directory, node): (&Node, &Node),
    path: &FilePath,
) -> Result<()> {
    let is_free = directory.mode & STICKY == 0 || who.is_operator;
    if is_free || who.name == node.owner || who.name == directory.owner {
        return Ok(());
    }
    let what = format!(
        "user {} may not remove or rename {path}, which belongs to {}: its directory has the sticky bit",
        who.name, node.owner
    );
    Err(Failure::permission(what).because(Cause::NotOwner).hint("its owner can, and that of the directory"))
}

/// Whether a grant on a node or on a directory above it lets `who` do it. It is asked where the mode does not.
pub(crate) fn is_granted(core: &Core, who: &Principal, node: &Node, right: Right) -> Result<bool> {
    let table = core.store.grants()?;
    if table.is_empty() {
        return Ok(false);
    }
    let is_meant = |subject: &Subject| match subject {
        Subject::User(name) => who.name == *name,
        Subject::Group(name) => who.is_in(name),
    };
    let ids = upwards(core, node)?;
    let mut grants = ids.iter().filter_map(|id| table.get(id)).flatten();
    Ok(grants.any(|grant| grant.rights.bits() & right as u32 != 0 && is_meant(&grant.subject)))
}
