//! What can go wrong in the store, and how callers are told.

use super::engine;
use base::{ErrorKind, Failure};
use tokio_postgres::error::SqlState;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The embedded engine failed.
    #[error("catalogue: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database refused something, or cannot be reached.
    #[error("catalogue: {}", told(.0))]
    Postgres(tokio_postgres::Error),
    /// There is no good way to the database.
    #[error("catalogue: {0}")]
    Unreached(Failure),
    /// Another head was started on the same catalogue.
    #[error("catalogue: another head has taken over")]
    Superseded,
    /// There is no runtime for the connection.
    #[error("catalogue: cannot start its runtime: {cause}")]
    Unstarted {
        /// Why.
        cause: std::io::Error,
    },
    /// A stored document cannot be read.
    #[error("catalogue: {what} is damaged: {cause}")]
    Damaged {
        /// Which one.
        what: String,
        /// Why.
        cause: String,
    },
    /// The file was written by a newer release.
    #[error("catalogue has schema {found}, this release knows up to {known}")]
    Newer {
        /// In the file.
        found: usize,
        /// Here.
        known: usize,
    },
    /// Mounts have cached what a call would change. The call is undone and made again.
    #[error("mount {client} has not said yet that it has forgotten what this changes")]
    Leased {
        /// Which mount.
        client: share::ClientId,
    },
    /// The engine gave the group up by itself, as it does on a full disk.
    #[error("catalogue: the group of changes was rolled back by the engine")]
    RolledBack,
}

/// What the server said: the error itself names only where it came from.
fn told(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(refused), _) => format!("{} ({})", refused.message(), refused.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if code.code() == engine::FENCED => Self::Superseded,
            _ => Self::Postgres(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        use rusqlite::ErrorCode as Code;
        let (kind, hint) = match &error {
            StoreError::Sqlite(cause) => match cause.sqlite_error_code() {
                Some(Code::DiskFull) => {
                    (ErrorKind::NoSpace, "free space on the disk that holds the catalogue")
                }
                Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                    (ErrorKind::Corrupt, "restore the catalogue from its backup")
                }
                Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                    (ErrorKind::Busy, "another process has the catalogue open")
                }
                _ => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            },
            StoreError::Postgres(cause) => match cause.code() {
                Some(&SqlState::DISK_FULL) => {
                    (ErrorKind::NoSpace, "free space on the disk that holds the database")
                }
                Some(_) => (ErrorKind::Io, "look at the database's log"),
                None => (ErrorKind::Unavailable, "look whether the database is running and reachable"),
            },
            StoreError::Unreached(failure) => return failure.clone().during("catalogue"),
            StoreError::Superseded => (ErrorKind::Unavailable, "ask the head that runs now"),
            StoreError::Unstarted { .. } => (ErrorKind::Io, "look at the limits of the daemon"),
            StoreError::Damaged { .. } => (ErrorKind::Corrupt, "restore the catalogue from its backup"),
            StoreError::RolledBack => (ErrorKind::Io, "look at the disk that holds the catalogue"),
            StoreError::Leased { .. } => {
                (ErrorKind::Busy, "try again in a moment; `bp lease` shows the mount")
            }
            StoreError::Newer { .. } => (ErrorKind::Unsupported, "use the newer release"),
        };
        Self::new(kind, error.to_string()).hint(hint)
    }
}

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;
