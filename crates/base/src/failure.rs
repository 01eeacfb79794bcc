//! The one error that crosses room boundaries: a kind to act on, what went wrong, and the next step.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a caller can do about a failure. Every door maps these to its own codes, in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The named thing does not exist.
    NotFound,
    /// The named thing exists already.
    Exists,
    /// A component of the path is not a directory.
    NotDirectory,
    /// A directory was named where a file is needed.
    IsDirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The principal may not do this.
    Permission,
    /// The request makes no sense, whoever sends it.
    Invalid,
    /// A bound is reached or the thing is in use; trying later can help.
    Busy,
    /// No room left on disk or tape.
    NoSpace,
    /// A user, group or project holds as much as it may.
    OverQuota,
    /// Bytes do not match their checksum, label or catalogue entry.
    Corrupt,
    /// The operating system or a device failed.
    Io,
    /// Known, but not offered here.
    Unsupported,
    /// A deadline passed.
    Timeout,
    /// The room that would do it is not there; trying later can help.
    Unavailable,
    /// Our own bug.
    Internal,
}

impl ErrorKind {
    /// Exit code of a command that ends with this kind.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Invalid | Self::Unsupported => 2,
            Self::NotFound => 3,
            Self::Exists | Self::NotEmpty | Self::IsDirectory | Self::NotDirectory => 4,
            Self::Permission => 5,
            Self::Busy | Self::Unavailable | Self::Timeout => 6,
            Self::NoSpace | Self::OverQuota => 7,
            Self::Corrupt => 8,
            Self::Io => 9,
            Self::Internal => 70,
        }
    }
}

/// A failure as the person or the peer sees it.
///
/// `what` is lower case, without a full stop, and names the thing; `hint` is the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Failure {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// What failed, and on which thing.
    pub what: String,
    /// The next step, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Result with a [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Makes a failure of `kind` that says `what`.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts the operation in front: `"{context}: {what}"`.
    pub fn during(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }

    /// Wraps an I/O error; the kind follows the error number.
    pub fn io(context: impl fmt::Display, cause: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match cause.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::AlreadyExists => ErrorKind::Exists,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Permission,
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::NoSpace,
            Io::TimedOut | Io::WouldBlock => ErrorKind::Timeout,
            Io::ConnectionRefused | Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe => {
                ErrorKind::Unavailable
            }
            Io::NotADirectory => ErrorKind::NotDirectory,
            Io::IsADirectory => ErrorKind::IsDirectory,
            Io::DirectoryNotEmpty => ErrorKind::NotEmpty,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{context}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Failure {
            $($(#[$doc])* pub fn $name(what: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, what) })*
        }
    };
}

shorthand! {
    /// [`ErrorKind::NotFound`].
    not_found => NotFound;
    /// [`ErrorKind::Exists`].
    exists => Exists;
    /// [`ErrorKind::Permission`].
    permission => Permission;
    /// [`ErrorKind::Invalid`].
    invalid => Invalid;
    /// [`ErrorKind::Busy`].
    busy => Busy;
    /// [`ErrorKind::NoSpace`].
    no_space => NoSpace;
    /// [`ErrorKind::OverQuota`].
    over_quota => OverQuota;
    /// [`ErrorKind::Corrupt`].
    corrupt => Corrupt;
    /// [`ErrorKind::Unsupported`].
    unsupported => Unsupported;
    /// [`ErrorKind::Timeout`].
    timeout => Timeout;
    /// [`ErrorKind::Unavailable`].
    unavailable => Unavailable;
    /// [`ErrorKind::Internal`].
    internal => Internal;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_space() {
        let full = std::io::Error::from_raw_os_error(28);
        let failure = Failure::io("write object 7", &full).hint("free space in pool main");
        assert_eq!(failure.kind, ErrorKind::NoSpace);
        assert!(failure.to_string().starts_with("write object 7: "));
    }
}
