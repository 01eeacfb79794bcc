//! What people see of mounts, and what operators do with them.

use super::LockHolder;
use base::{FilePath, Timestamp};
use serde::{Deserialize, Serialize};
use share::{ClientId, Generation, Mode};
use std::fmt;

/// What the shared file system is doing: for operators.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetMounts {}

/// All sessions, and the files that they use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mounts {
    /// When the head said so.
    #[serde(default)]
    pub now: Timestamp,
    /// By number.
    pub mounts: Vec<MountInfo>,
    /// Files with grants or locks, by path.
    pub files: Vec<SharedFileInfo>,
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountInfo {
    /// Its number.
    pub client: ClientId,
    /// Who mounted.
    pub user: String,
    /// Where: `host:directory`.
    pub host: String,
    /// Which directory of the namespace.
    pub path: FilePath,
    /// When it began.
    pub since: Timestamp,
    /// When its lease was renewed last, as far as this start of the head knows.
    pub renewed: Timestamp,
    /// It renews its lease in time.
    pub is_live: bool,
}

/// A file that mounts use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SharedFileInfo {
    /// Where.
    pub path: FilePath,
    /// Grants, in the order in which they were given.
    pub grants: Vec<ShareGrantInfo>,
    /// Locks.
    pub locks: Vec<LockHolder>,
    /// Mounts that have it open.
    #[serde(default)]
    pub opens: Vec<OpenInfo>,
    /// Who waits for it, those first who wait longest.
    #[serde(default)]
    pub waits: Vec<ShareWait>,
}

/// How often a mount has a file open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenInfo {
    /// Which mount.
    pub client: ClientId,
    /// For reading only.
    pub readers: u32,
    /// For writing.
    pub writers: u32,
}

/// Something of a file that a mount waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareWait {
    /// Which mount.
    pub client: ClientId,
    /// What it wants, e.g. `a grant to write`.
    pub what: String,
    /// Since when, as far as this start of the head knows.
    pub since: Timestamp,
    /// What is in the way.
    pub why: String,
}

/// A grant as people see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShareGrantInfo {
    /// Whose.
    pub client: ClientId,
    /// Its number.
    pub generation: Generation,
    /// To read or to write.
    pub mode: Mode,
    /// It was asked back.
    pub is_recalled: bool,
}

/// Takes everything from a mount that does not answer: it is fenced, and what it has not synced is lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EvictMount {
    /// The session.
    pub client: ClientId,
}

impl fmt::Display for ShareGrantInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.mode {
            Mode::Read => "read",
            Mode::Write => "write",
        };
        let recalled = if self.is_recalled { " (asked back)" } else { "" };
        write!(f, "{what} by mount {}{recalled}", self.client)
    }
}

impl fmt::Display for OpenInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount {}", self.client)?;
        let many = |count: u32, what: &str| match count {
            0 => String::new(),
            1 => format!(" {what}"),
            count => format!(" {what} {count} times"),
        };
        f.write_str(&many(self.readers, "reads"))?;
        f.write_str(&many(self.writers, "writes"))
    }
}
