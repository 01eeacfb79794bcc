//! Quotas: limits on the data of users, groups and projects.

use serde::{Deserialize, Serialize};

/// The kind of account that a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKind {
    /// Files of a user.
    User,
    /// Files of a group.
    Group,
    /// Files of a project.
    Project,
}

impl QuotaKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }
}

/// Sets a quota, or lifts it: `None` is no limit. What is held already stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuota {
    /// The kind of account that it limits.
    pub kind: QuotaKind,
    /// Their name.
    pub name: String,
    /// Most bytes of files, on disk or on tape.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Most files.
    #[serde(default)]
    pub files: Option<u64>,
}

/// Shows the quotas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetQuotas {}

/// All quotas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// By kind and name.
    pub quotas: Vec<QuotaInfo>,
}

/// A quota, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaInfo {
    /// The kind of account that it limits.
    pub kind: QuotaKind,
    /// Their name.
    pub name: String,
    /// Bytes of their files.
    pub bytes: u64,
    /// Bytes that writes in progress add.
    pub reserved_bytes: u64,
    /// The limit of both together.
    pub bytes_max: Option<u64>,
    /// Their files.
    pub files: u64,
    /// The limit of these.
    pub files_max: Option<u64>,
}
