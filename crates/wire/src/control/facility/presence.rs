//! Which hosts are there: each says so again and again, and says goodbye when it stops.

use crate::control::DiskServer;
use base::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A host says that it is there, every few seconds, whatever its roles are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostHere {
    /// Name and doors.
    pub server: DiskServer,
    /// Drawn when its daemon started; the same as in [`crate::control::RegisterPartition`].
    pub boot: u64,
}

/// A host says that its daemon stops: from now on nobody is sent there. What is under way is still brought to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostLeaves {
    /// The host.
    pub host: String,
    /// As in [`HostHere`]: what is said late does not count for a daemon that was started since.
    pub boot: u64,
}

/// The door has asked a host whether it is there, and it did not answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostUnanswered {
    /// The host.
    pub host: String,
    /// When it was asked. If it was heard since, it is there.
    pub asked: Timestamp,
}

/// Whether a host is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It was heard lately.
    #[default]
    Here,
    /// Its daemon has said goodbye.
    Stopped,
    /// It was not heard lately, or does not answer.
    Silent,
}

impl Presence {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Here, Self::Stopped, Self::Silent];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Stopped => "stopped",
            Self::Silent => "silent",
        }
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
