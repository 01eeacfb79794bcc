//! The trash: removed files, and how to restore them.

use crate::control::FileState;
use base::{Failure, FileId, FilePath, Millis, Timestamp, units::Size};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The reason for which a file is in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrashReason {
    /// A user removed it.
    Removed,
    /// Other content was written in its place.
    Overwritten,
    /// Another file was given its name.
    Replaced,
}

impl TrashReason {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Overwritten => "overwritten",
            Self::Replaced => "replaced",
        }
    }
}

/// The size limit of the trash on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TrashLimit {
    /// So many hundredths of what all pools can hold.
    Percent(u8),
    /// So many bytes.
    Bytes(u64),
}

impl TrashLimit {
    /// How many bytes that is where pools can hold `total`.
    #[must_use]
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Percent(percent) => total / 100 * u64::from(percent.min(100)),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for TrashLimit {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return text.parse().map(|Size(bytes)| Self::Bytes(bytes));
        };
        let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
        percent.map(Self::Percent).ok_or_else(|| {
            Failure::invalid(format!("{text:?} is not a share from 0% to 100%"))
                .hint("write it as 10%, or as a size: 500GiB")
        })
    }
}

impl fmt::Display for TrashLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => Size(*bytes).fmt(f),
        }
    }
}

impl TryFrom<String> for TrashLimit {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<TrashLimit> for String {
    fn from(limit: TrashLimit) -> Self {
        limit.to_string()
    }
}

/// A position in the list of the trash: the time of a removal, and the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashPosition {
    /// When.
    pub removed: Timestamp,
    /// Which file.
    pub file: FileId,
}

/// A file in the trash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashedFile {
    /// The number by which it can be restored, even if others had the same path.
    pub id: FileId,
    /// Where it was.
    pub path: FilePath,
    /// Bytes.
    pub size: u64,
    /// Its owner.
    pub owner: String,
    /// Last change of its content.
    pub modified: Timestamp,
    /// When it was removed.
    pub removed: Timestamp,
    /// The user who granted it.
    pub remover: String,
    /// How.
    pub why: TrashReason,
    /// The end of its time in the trash; it goes earlier if space is needed.
    pub until: Timestamp,
    /// Where its bytes are.
    pub state: FileState,
}

/// Lists what the caller may restore: what they removed, and their own files; the facility's owner sees all. Removed last
/// comes first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetTrash {
    /// Only what was at this path or below it.
    #[serde(default)]
    pub path: Option<FilePath>,
    /// Only what was removed before this; none for the first page.
    #[serde(default)]
    pub after: Option<TrashPosition>,
}

/// A page of the trash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trash {
    /// Files, at most [`base::limits::LIST_ENTRIES_MAX`].
    pub files: Vec<TrashedFile>,
    /// Where the next page begins, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TrashPosition>,
    /// How long a file is kept; 0: not at all.
    pub retention: Millis,
    /// The size limit of the trash on disk.
    pub max_size: TrashLimit,
}

/// Brings back the file that was removed last at a path; if there was none, all that was removed below it, some at a time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RestoreTrash {
    /// Where it was. One of this and `id` must be given.
    #[serde(default)]
    pub path: Option<FilePath>,
    /// Which file.
    #[serde(default)]
    pub id: Option<FileId>,
    /// The path to restore to; none: the old path. A missing directory is made.
    #[serde(default)]
    pub to: Option<FilePath>,
    /// The cursor that the previous call returned.
    #[serde(default)]
    pub after: Option<TrashPosition>,
}

/// The restored files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashRestored {
    /// The restored files, by their new paths.
    pub files: Vec<FilePath>,
    /// Bytes of these.
    pub bytes: u64,
    /// Paths that are taken by other files; their old files stay in the trash.
    #[serde(default)]
    pub taken: Vec<FilePath>,
    /// Where the next call goes on, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TrashPosition>,
}

/// Deletes the files in the trash for good, some at a time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EmptyTrash {
    /// Only what was at this path or below it.
    #[serde(default)]
    pub path: Option<FilePath>,
}

/// The deleted files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashEmptied {
    /// Files.
    pub files: u64,
    /// Bytes of these on disk.
    pub bytes: u64,
    /// Whether there may be more.
    pub is_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_a_share_or_a_size() {
        for (text, limit) in [
            ("10%", TrashLimit::Percent(10)),
            ("0%", TrashLimit::Percent(0)),
            ("2GiB", TrashLimit::Bytes(2 << 30)),
        ] {
            assert_eq!(text.parse::<TrashLimit>().unwrap(), limit);
            assert_eq!(limit.to_string(), text);
        }
        for bad in ["101%", "-1%", "%", "much"] {
            assert!(bad.parse::<TrashLimit>().is_err(), "{bad}");
        }
        assert_eq!(TrashLimit::Percent(10).bytes(1000), 100);
        assert_eq!(TrashLimit::Bytes(7).bytes(1000), 7);
    }
}
