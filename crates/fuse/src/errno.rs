//! What programs are told when something fails.

use base::{Cause, ErrorKind, Failure};
use rustix::io::Errno;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As the kernel would refuse it itself.
    Errno(Errno),
    /// As the facility said.
    Failure(Failure),
}

impl Refusal {
    /// The number that the program sees. What a person should look at is logged.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Failure(failure) => match failure.cause {
                Some(Cause::NotOwner) => Errno::PERM,
                Some(Cause::TooManyNames) => Errno::MLINK,
                _ => errno(failure.kind),
            },
        }
    }

    /// Bytes could not be read or written. A program cannot do anything about a grant that has ended or an object that is gone: both
    /// are EIO, not EAGAIN or ENOENT.
    pub(crate) fn of_bytes(failure: Failure) -> Self {
        match failure.kind {
            ErrorKind::NoSpace | ErrorKind::OverQuota | ErrorKind::Invalid => Self::Failure(failure),
            _ => Self::Failure(Failure { kind: ErrorKind::Io, ..failure }),
        }
    }

    /// As a failure, for those who are told later.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Failure(failure) => failure,
            Self::Errno(errno) => Failure::unavailable(format!("it was not done: {errno}")),
        }
    }

    /// Whether a person should look at it.
    pub(crate) fn is_trouble(&self) -> bool {
        matches!(self, Self::Failure(failure) if errno(failure.kind) == Errno::IO)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(errno) => errno.fmt(f),
            Self::Failure(failure) => failure.fmt(f),
        }
    }
}

/// The number of a kind.
fn errno(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::Exists => Errno::EXIST,
        ErrorKind::NotDirectory => Errno::NOTDIR,
        ErrorKind::IsDirectory => Errno::ISDIR,
        ErrorKind::NotEmpty => Errno::NOTEMPTY,
        ErrorKind::Permission => Errno::ACCESS,
        ErrorKind::Invalid => Errno::INVAL,
        ErrorKind::Busy => Errno::BUSY,
        ErrorKind::Locked => Errno::AGAIN,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::OverQuota => Errno::DQUOT,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Corrupt
        | ErrorKind::Io
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Internal => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_numbers_that_programs_know() {
        let number = |failure: Failure| Refusal::from(failure).errno();
        assert_eq!(number(Failure::not_found("x")), Errno::NOENT);
        assert_eq!(number(Failure::over_quota("x")), Errno::DQUOT);
        assert_eq!(number(Failure::corrupt("x")), Errno::IO);
        assert_eq!(Refusal::of_bytes(Failure::locked("x")).errno(), Errno::IO, "a grant has ended");
        assert_eq!(Refusal::of_bytes(Failure::no_space("x")).errno(), Errno::NOSPC);
        assert!(Refusal::from(Failure::unavailable("x")).is_trouble());
        assert!(!Refusal::from(Errno::IO).is_trouble() && !Refusal::from(Failure::exists("x")).is_trouble());
    }
}
