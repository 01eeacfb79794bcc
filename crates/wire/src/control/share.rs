//! The file system that several hosts share: mounts, grants on files that change in place, and locks.
//!
//! Mounts name files by number, as kernels do: a file keeps its number when it is renamed. Every call is checked as if it had come
//! with a path: each directory above must allow search.

mod acts_for;
mod locks;
mod nodes;
mod seen;

use crate::control::{Entry, LiveStart};
pub use acts_for::{ACTS_FOR_HEADER, ActsFor, fuzz_acts_for};
use base::{FileId, FilePath, Millis, ObjectId, Timestamp};
pub use locks::*;
pub use nodes::{
    DescribeNode, GetNode, GetNodeAttributes, LinkNode, LinkTarget, ListNode, LookUp, MakeNode, MountedNames,
    MountedNode, MoveNode, ReadLink, RemoveNode, SetNode, SetNodeAttribute,
};
pub use seen::*;
use serde::{Deserialize, Serialize};
use share::{ClientId, Generation, Incarnation, Mode, RequestId};

/// Begins the session of a mount. Its lease lasts until [`MountSession::lease`] after the last call of [`NextRecalls`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenMount {
    /// The directory that is mounted.
    pub path: FilePath,
    /// The host that mounts it, and where: for people.
    pub host: String,
}

/// A session of a mount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountSession {
    /// Its number.
    pub client: ClientId,
    /// The mounted directory.
    pub root: Entry,
    /// How long what was granted may be used after the last renewal was sent.
    pub lease: Millis,
    /// Which start of the head this is.
    pub start: Incarnation,
    /// It may make calls on behalf of the users of its host ([`ActsFor`]).
    #[serde(default)]
    pub acts_for_others: bool,
}

/// Ends a session: its grants, locks and opens end with it. It has written back what it had to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CloseMount {
    /// The session.
    pub client: ClientId,
}

/// Renews the lease of a session, and asks which grants are to be returned, and what is not to be cached any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextRecalls {
    /// The session.
    pub client: ClientId,
    /// Its number of this call: one that is held back counts as received once.
    #[serde(default)]
    pub round: u64,
    /// The start of the head whose leases on names and attributes it still uses.
    #[serde(default)]
    pub start: Incarnation,
    /// It has forgotten all that it was asked to, up to [`Recalls::number`].
    #[serde(default)]
    pub acknowledged: u64,
    /// Recalls that it works on: it need not be told of them.
    #[serde(default)]
    pub working: Vec<Recall>,
}

/// A grant that somebody else waits for, or that has lost its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    /// The file.
    pub file: FileId,
    /// The grant.
    pub generation: Generation,
}

/// Grants that are to be returned, and leases on names and attributes that end. Each is told until it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recalls {
    /// In the order of their files.
    pub recalls: Vec<Recall>,
    /// Nodes whose attributes and names are not to be cached any more.
    #[serde(default)]
    pub invalidations: Vec<FileId>,
    /// The number of the last of them.
    #[serde(default)]
    pub number: u64,
    /// Which start of the head this is.
    #[serde(default)]
    pub start: Incarnation,
    /// The session has leases of another start, which this one does not know: it forgets them all, and says [`Self::start`] then.
    #[serde(default)]
    pub must_forget: bool,
}

impl Recalls {
    /// Whether there is nothing to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recalls.is_empty() && self.invalidations.is_empty() && !self.must_forget
    }
}

/// Notes that a mount has a file open: it stays after its name is removed. Permissions are checked here, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenNode {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// Its bytes are to be read.
    pub is_read: bool,
    /// Its bytes are to be changed.
    pub is_write: bool,
    /// Its bytes are to be read because it is run: the right to run it will do. Of a mount that acts for others only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_run: bool,
    /// The number of a request for a grant: to read if the file is opened for that only, else to write, as [`AskGrant::request`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<RequestId>,
}

/// The answer to [`OpenNode`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OpenedNode {
    /// The grant that was asked for, if nothing was in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<ShareGrant>,
}

/// Ends one open of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CloseNode {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// It was open for writing.
    pub is_write: bool,
}

/// Asks for a grant on a file that the session has open. Those that are in its way are asked back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AskGrant {
    /// The session.
    pub client: ClientId,
    /// Its number of this request; the same again has the same answer.
    pub request: RequestId,
    /// The file.
    pub file: FileId,
    /// What for.
    pub mode: Mode,
}

/// What is told to whoever asks for a grant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrantAnswer {
    /// The grant; `None`: not yet.
    pub grant: Option<ShareGrant>,
    /// Why not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// A grant with the way to the bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShareGrant {
    /// Its number.
    pub generation: Generation,
    /// Where the bytes are.
    pub layout: Layout,
    /// Bytes of the file as of its last commit.
    pub size: u64,
    /// Time of its content.
    pub modified: Timestamp,
}

/// Which disk servers hold which bytes of a file: its units go round the columns, and all copies of a column have the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes that lie in one column before the next one follows; without a meaning if there is one column.
    pub unit: u64,
    /// The copies of each column. Reads go to the first that answers, writes to all. None: the file has no bytes yet.
    pub columns: Vec<Vec<LayoutObject>>,
}

/// One copy of one column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutObject {
    /// Its number.
    pub object: ObjectId,
    /// Where it is: a `root://` URL with a capability. With a grant to write it is opened for update.
    pub url: String,
}

impl Layout {
    /// The layout of a file that is one object.
    #[must_use]
    pub fn of_one(object: ObjectId, url: String) -> Self {
        Self { unit: 0, columns: vec![vec![LayoutObject { object, url }]] }
    }

    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = &LayoutObject> {
        self.columns.iter().flatten()
    }
}

/// Publishes size and time of a file that was written to under a grant, once its disk server has synced it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitNode {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// The grant.
    pub generation: Generation,
    /// Its bytes.
    pub size: u64,
    /// Time of its content.
    pub modified: Timestamp,
}

/// Takes copies out of a file that is being written, for good: they did not do what the others did. It is answered with the layout that
/// is left. One that its pool wants at least is not taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DropCopies {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// The grant to write.
    pub generation: Generation,
    /// The copies.
    pub objects: Vec<ObjectId>,
}

/// Gives a grant back: nothing is cached under it any more, and nothing more is written. Repeated, it changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReturnGrant {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// The grant.
    pub generation: Generation,
    /// What was written since the last commit, if anything: it is published first, as by [`CommitNode`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Written>,
    /// One open of the file ends with it, as by [`CloseNode`]: one for reading only, or one for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Mode>,
    /// Objects whose disk servers have fenced the grant at the request of this client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fenced: Vec<FencedObject>,
    /// Nothing was opened with the grant at a disk server, nor will be: nothing has to be fenced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unused: bool,
    /// All copies of the file have all that was written under it. If not, they are compared before anybody uses them.
    #[serde(default)]
    pub is_complete: bool,
}

/// A live object whose disk server refuses a grant from now on, though it may forget that when it starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FencedObject {
    /// Which.
    pub object: ObjectId,
    /// The start of it that has fenced the grant.
    pub start: LiveStart,
}

/// What was written to a file and synced at its disk servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its bytes.
    pub size: u64,
    /// Time of its content.
    pub modified: Timestamp,
}
