//! Names and attributes, as mounts ask for them.

use super::ShareGrant;
use crate::control::{AttributeChange, Entry, NodeKind};
use base::{FileId, Millis, NanoTime};
use serde::{Deserialize, Serialize};
use share::{ClientId, RequestId};

/// A file or directory as a mount sees it, and how long it may be cached: from when the call was sent, as long as the session
/// renews its lease, and until the head asks to forget it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MountedNode {
    /// What it is. Its size and time are those of its last commit. `None`: there is none of that name, or another client has to
    /// commit what it has written first.
    pub entry: Option<Entry>,
    /// There is none of that name.
    #[serde(default)]
    pub is_absent: bool,
    /// The lease on its attributes; 0: none.
    #[serde(default)]
    pub lease: Millis,
    /// The lease on the names of the directory that was asked; 0: none.
    #[serde(default)]
    pub names_lease: Millis,
    /// The grant that was asked for with the call, if nothing was in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<ShareGrant>,
}

impl MountedNode {
    /// Whether the answer is still to come.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.entry.is_none() && !self.is_absent
    }
}

/// Names of a directory with what they stand for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountedNames {
    /// In the order of their names.
    pub entries: Vec<Entry>,
    /// There are more: ask again after the last one.
    pub is_partial: bool,
    /// The lease on the names of the directory; 0: none.
    #[serde(default)]
    pub names_lease: Millis,
    /// The lease on the attributes of the entries; 0: none.
    #[serde(default)]
    pub lease: Millis,
    /// Entries without a lease: somebody writes to them, perhaps. Their size and time are to be asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_leased: Vec<FileId>,
}

/// Finds a name in a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookUp {
    /// The session.
    pub client: ClientId,
    /// The directory.
    pub parent: FileId,
    /// The name.
    pub name: String,
}

/// Describes a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetNode {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
}

/// Lists a directory, as [`crate::control::List`] does, with leases on what is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListNode {
    /// The session.
    pub client: ClientId,
    /// The directory.
    pub directory: FileId,
    /// Entries after this name.
    pub after: String,
}

/// Makes an empty file, a directory, a link or a special file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MakeNode {
    /// The session.
    pub client: ClientId,
    /// Where.
    pub parent: FileId,
    /// Its name.
    pub name: String,
    /// What.
    pub kind: NodeKind,
    /// Its permission bits.
    pub mode: u32,
    /// Of a file: it is opened for writing, too, as by [`OpenNode`](crate::control::OpenNode).
    pub is_opened: bool,
    /// Of a symbolic link: where it leads; of a device: its number, `MAJOR:MINOR`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Of a file that is opened: the number of a request for a grant to write, as [`AskGrant::request`](crate::control::AskGrant).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<RequestId>,
}

/// Asks where a symbolic link leads, or which device a special file is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadLink {
    /// The session.
    pub client: ClientId,
    /// The link.
    pub file: FileId,
}

/// The answer to [`ReadLink`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkTarget {
    /// As [`MakeNode::target`].
    pub target: String,
}

/// Asks for all that is known of a node, as [`crate::control::Stat`] does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DescribeNode {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
}

/// Asks for the user attributes of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetNodeAttributes {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
}

/// Sets or removes a user attribute of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetNodeAttribute {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
    /// The name, and the value that it gets; `None` removes it.
    pub change: AttributeChange,
    /// Whether it must be there already (`true`) or must not (`false`).
    pub must_exist: Option<bool>,
}

/// Removes a file or an empty directory. A file that a mount has open loses its name only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveNode {
    /// The session.
    pub client: ClientId,
    /// The directory.
    pub parent: FileId,
    /// The name.
    pub name: String,
    /// What it must be.
    pub kind: NodeKind,
}

/// Moves a node to another name, which is replaced unless that is forbidden.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MoveNode {
    /// The session.
    pub client: ClientId,
    /// The directory.
    pub parent: FileId,
    /// The name.
    pub name: String,
    /// The new directory.
    pub to_parent: FileId,
    /// The new name.
    pub to_name: String,
    /// Refuses if the new name exists.
    pub is_new: bool,
    /// The two names change places; both must exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_exchange: bool,
}

/// Gives a node that is not a directory a further name (a hard link).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkNode {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
    /// The directory of the new name.
    pub parent: FileId,
    /// The new name.
    pub name: String,
}

/// Changes mode, owner, group or times of a node. The size is changed under a grant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetNode {
    /// The session.
    pub client: ClientId,
    /// The node.
    pub file: FileId,
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub owner: Option<String>,
    /// New group.
    pub group: Option<String>,
    /// New time of the content.
    pub modified: Option<NanoTime>,
    /// New time of the last access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed: Option<NanoTime>,
}
