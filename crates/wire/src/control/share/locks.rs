//! Locks of files, as programs take them through mounts.

use base::{ByteRange, FileId};
use serde::{Deserialize, Serialize};
use share::{Assurance, ClientId, LockMode, LockOwner, RequestId, Verdict};
use std::fmt;

/// Which kind of lock. They know nothing of each other, as on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// `fcntl`, by process, on ranges.
    Posix,
    /// `flock`, by open file.
    Flock,
}

/// Takes, changes or gives back a lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetLock {
    /// The session.
    pub client: ClientId,
    /// The file.
    pub file: FileId,
    /// Which kind.
    pub kind: LockKind,
    /// Whose, among those of the session.
    pub owner: LockOwner,
    /// The process, for people.
    pub pid: u32,
    /// Where.
    pub range: ByteRange,
    /// `None`: given back.
    pub mode: Option<LockMode>,
    /// Its program waits until it can be had; `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<LockPatience>,
}

/// A lock that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPatience {
    /// Number of the wait among the requests of the session. It is repeated under the same number.
    pub request: RequestId,
    /// The answer to a doubt of the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<Assurance>,
}

/// Gives up a wait for a lock: its program was interrupted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelLock {
    /// The session.
    pub client: ClientId,
    /// The wait.
    pub request: RequestId,
}

/// What is told to whoever wants a lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LockAnswer {
    /// It is set.
    pub is_set: bool,
    /// Else: a lock that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<LockHolder>,
    /// What whoever waits does now; `None`: goes on waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// A lock that somebody has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LockHolder {
    /// Whose mount.
    pub client: ClientId,
    /// The process there.
    pub pid: u32,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Where.
    pub range: ByteRange,
}

/// Asks whether a lock could be taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestLock {
    /// The lock as it would be asked for.
    #[serde(flatten)]
    pub lock: SetLock,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.mode {
            LockMode::Shared => "shared",
            LockMode::Exclusive => "exclusive",
        };
        write!(f, "{what} by process {} of mount {}", self.pid, self.client)
    }
}
