//! Jobs that wait for other jobs.

use super::JobSelection;
use serde::{Deserialize, Serialize};

/// What of another job must have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// It has begun, or is over.
    After,
    /// It is over, however it ended.
    AfterAny,
    /// It ended well.
    AfterOk,
    /// It failed or was cancelled.
    AfterNotOk,
    /// Of two arrays: the element with the same index ended well.
    AfterCorr,
    /// No job with the same name and owner that was submitted earlier is left. It names no job.
    Singleton,
}

impl DependencyKind {
    /// The word of the kind, as Slurm has it: `afterok`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
            Self::AfterCorr => "aftercorr",
            Self::Singleton => "singleton",
        }
    }
}

/// One condition on another job, an array, or elements of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDependency {
    /// What must have happened.
    pub kind: DependencyKind,
    /// Of which jobs: of all of them. `12` is the whole array if 12 is one. Not with [`DependencyKind::Singleton`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobSelection>,
}
