//! How many tape drives the files of a group may have at the same time.

use crate::control::RequestKind;
use serde::{Deserialize, Serialize};

/// Sets how many drives read or write files of a group at the same time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetDriveQuota {
    /// The group of the files.
    pub group: String,
    /// The direction.
    pub kind: RequestKind,
    /// Drives at most; `None`: as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<u32>,
}

/// Asks for the quotas of drives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetDriveQuotas {}

/// All quotas of drives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveQuotas {
    /// By group and direction.
    pub quotas: Vec<DriveQuota>,
}

/// One quota of drives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveQuota {
    /// The group of the files.
    pub group: String,
    /// The direction.
    pub kind: RequestKind,
    /// Drives at most.
    pub drives: u32,
    /// Drives that have files of the group now.
    pub used: u32,
}
