//! Presence: hosts send heartbeats, and say goodbye when they stop.

use crate::control::DiskServer;
use base::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A heartbeat: a host reports every few seconds, whatever its roles are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostHeartbeat {
    /// Name and doors.
    pub server: DiskServer,
    /// Drawn when its daemon started; the same as in [`crate::control::RegisterPartition`].
    pub boot: u64,
}

/// A host says goodbye: its daemon stops, and clients are not sent there any more. Transfers in progress still complete.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostLeaves {
    /// The host.
    pub host: String,
    /// As in [`HostHeartbeat`]: what is said late does not count for a daemon that was started since.
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

/// The presence of a host.
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
