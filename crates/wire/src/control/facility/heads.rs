//! Several heads: of each subtree one is active.

use base::{FilePath, OtherHead, Timestamp};
use serde::{Deserialize, Serialize};

/// Orders a standby to take over from the active head.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakeOver {
    /// The host whose standby it is to be; `None`: whichever is first.
    pub host: Option<String>,
}

/// Refers a directory and everything below it to another head; of the root: everything that is not here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refer {
    /// The directory; empty, but for the root.
    pub path: FilePath,
    /// The head; `None`: this one keeps it again.
    #[serde(default)]
    pub to: Option<OtherHead>,
}

/// Returns the referrals to other heads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetReferrals {}

/// A directory that another head serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referral {
    /// The directory.
    pub path: FilePath,
    /// The head.
    pub at: OtherHead,
    /// The user who set it.
    pub giver: String,
    /// When.
    pub made: Timestamp,
}

/// The referrals to other heads, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referrals {
    /// The directories.
    pub referrals: Vec<Referral>,
}
