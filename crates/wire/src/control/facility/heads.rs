//! Several heads: of each subtree one is active.

use base::{FilePath, OtherHead, Timestamp};
use serde::{Deserialize, Serialize};

/// Orders a standby to take over from the active head.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakeOver {
    /// The host whose standby it is to be; `None`: whichever is first.
    pub host: Option<String>,
}

/// Says that another head keeps a directory and all that is below it; of the root: all that is not here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refer {
    /// The directory; empty, but for the root.
    pub path: FilePath,
    /// The head; `None`: this one keeps it again.
    #[serde(default)]
    pub to: Option<OtherHead>,
}

/// Shows what other heads keep.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetReferrals {}

/// A directory that another head keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referral {
    /// The directory.
    pub path: FilePath,
    /// The head.
    pub at: OtherHead,
    /// Who said so.
    pub giver: String,
    /// When.
    pub made: Timestamp,
}

/// What other heads keep, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referrals {
    /// The directories.
    pub referrals: Vec<Referral>,
}
