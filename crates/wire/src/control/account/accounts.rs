//! Accounts: stored data and used resources, by user, group, project, pool and month.

use base::{Failure, FilePath, Millis, Month};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest name of a project in bytes.
pub const PROJECT_NAME_BYTES_MAX: usize = 64;

/// Name of a project: 1 to 64 letters, digits, `.`, `_` and `-`; it does not begin with a `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectName(String);

impl ProjectName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProjectName {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        let is_plain = |c: char| c.is_alphanumeric() || ['.', '_', '-'].contains(&c);
        if text.is_empty()
            || text.len() > PROJECT_NAME_BYTES_MAX
            || text.starts_with('-')
            || !text.chars().all(is_plain)
        {
            return Err(Failure::invalid(format!("{text:?} is not a valid project name")).hint(format!(
                "1 to {PROJECT_NAME_BYTES_MAX} bytes of letters, digits, `.`, `_` and `-`, which is not the first"
            )));
        }
        Ok(Self(text))
    }
}

impl std::str::FromStr for ProjectName {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        text.to_owned().try_into()
    }
}

impl From<ProjectName> for String {
    fn from(name: ProjectName) -> Self {
        name.0
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Assigns a file or directory to a project. New entries of a directory belong to its project; existing ones
/// there already stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetProject {
    /// The file or directory.
    pub path: FilePath,
    /// The project; `None`: none.
    pub project: Option<ProjectName>,
}

/// The fields by which accounts are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountPart {
    /// By the user who pays.
    User,
    /// By group.
    Group,
    /// By project.
    Project,
    /// By pool.
    Pool,
    /// By month.
    Month,
}

/// Shows accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAccounts {
    /// What gets a line of its own; nothing: all in one line.
    #[serde(default)]
    pub by: Vec<AccountPart>,
    /// Only this user.
    #[serde(default)]
    pub user: Option<String>,
    /// Only this group.
    #[serde(default)]
    pub group: Option<String>,
    /// Only this project; empty: what belongs to none.
    #[serde(default)]
    pub project: Option<String>,
    /// Only this pool; empty: what is on none.
    #[serde(default)]
    pub pool: Option<String>,
    /// Only this month; otherwise everything since the facility was made.
    #[serde(default)]
    pub month: Option<Month>,
    /// At most so many lines: those with the most space times time.
    #[serde(default)]
    pub top: Option<usize>,
}

/// Accounts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Accounts {
    /// By month if that was asked for, else what costs most space first.
    pub lines: Vec<AccountLine>,
    /// How many there are in all.
    pub lines_len: u64,
    /// How often the head was started again, in the month that was asked for: the service was interrupted before.
    #[serde(default)]
    pub interruptions: u64,
}

/// The stored data and used resources of one account, or of several together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountLine {
    /// Whose, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Which group, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which project, if that was asked for; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Which pool, if that was asked for; empty: what is on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Which month, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<Month>,
    /// Files in the namespace, at the end of the month or now.
    pub files: u64,
    /// Bytes of these, on disk or on tape.
    pub bytes: u64,
    /// Replicas on disk.
    pub replicas: u64,
    /// Bytes of these.
    pub disk_bytes: u64,
    /// Disk space times time.
    pub disk_gb_hours: f64,
    /// Bytes written into the facility.
    pub in_bytes: u64,
    /// Files that these were.
    pub in_transfers: u64,
    /// Bytes read from it.
    pub out_bytes: u64,
    /// Opens that read something.
    pub out_transfers: u64,
    /// Bytes written to tape.
    pub tape_written_bytes: u64,
    /// Bytes read from tape.
    pub tape_read_bytes: u64,
    /// Volumes loaded; a load that served several is split between them.
    pub tape_loads: f64,
    /// Jobs that ran.
    pub jobs: u64,
    /// CPU time of jobs.
    pub cpu: Millis,
    /// Wall time of jobs times their slots.
    pub slot_wall: Millis,
    /// Wall time of jobs times the memory that they asked for, or used if that was more.
    #[serde(default)]
    pub memory_gb_hours: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_projects_are_plain() {
        for good in ["cms", "run-3", "a.b_c", "ü"] {
            assert_eq!(good.parse::<ProjectName>().unwrap().as_str(), good);
        }
        for bad in ["", "-x", "a b", "a/b", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<ProjectName>().is_err(), "{bad:?}");
        }
    }
}
