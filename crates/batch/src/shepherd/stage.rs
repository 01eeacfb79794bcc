//! Stages of the shepherd's program, and how each starts the next.

use base::{Failure, Result};
use std::{
    ffi::OsStr,
    fmt,
    path::Path,
    process::{Command, Stdio},
    str::FromStr,
};

/// Our own image, even after the file was replaced by a newer release.
const SELF: &str = "/proc/self/exe";

/// The stages of a shepherd process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Started by the room.
    #[default]
    Outer,
    /// The shepherd.
    Inner,
    /// Leaves the namespaces of the host.
    Sandbox,
    /// Process 1 of the job.
    Init,
    /// About to become the job.
    Job,
    /// Serves the facility to the job as a file system.
    Mount,
}

impl Stage {
    /// The word on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outer => "outer",
            Self::Inner => "inner",
            Self::Sandbox => "sandbox",
            Self::Init => "init",
            Self::Job => "job",
            Self::Mount => "mount",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Outer, Self::Inner, Self::Sandbox, Self::Init, Self::Job, Self::Mount]
            .into_iter()
            .find(|stage| stage.as_str() == text)
            .ok_or_else(|| Failure::invalid(format!("{text:?} is not a stage of a shepherd")))
    }
}

/// Our own program as another stage.
pub(crate) fn stage_command(run_dir: &Path, stage: Stage) -> Command {
    let mut command = Command::new(SELF);
    command
        .args([OsStr::new("shepherd"), run_dir.as_os_str(), OsStr::new("--stage")])
        .arg(stage.as_str())
        .stdin(Stdio::null());
    command
}
