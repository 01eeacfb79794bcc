//! The audit log in the configuration.

use base::{Failure, Result, units::Size};
use serde::{Deserialize, Serialize};

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// Size at which a file ends and the next begins.
    pub file_size: Size,
    /// Files that are kept, including the current one; 0: no audit log is written, of refusals neither.
    pub files: u32,
    /// The same for the log of what clients were refused before they authenticated.
    pub refused_file_size: Size,
    /// Files of that log that are kept; 0: it is not written.
    pub refused_files: u32,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file_size: Size(64 << 20), files: 16, refused_file_size: Size(8 << 20), refused_files: 2 }
    }
}

impl AuditConfig {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let rings =
            [("", self.file_size, self.files), ("refused_", self.refused_file_size, self.refused_files)];
        for (which, file_size, files) in rings {
            if file_size.0 < 1 << 16 || files > 1000 {
                let what = format!("audit.{which}file_size = {file_size}, audit.{which}files = {files}");
                return Err(Failure::invalid(format!("{what} make no log"))
                    .hint("files have 64KiB at least, and there are 1000 at most"));
            }
        }
        Ok(())
    }
}
