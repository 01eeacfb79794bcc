//! A failure of a tape session, and the component that caused it.

use base::{Cause, ErrorKind, Failure};
use std::fmt;
use wire::control::Blame;

/// A failure of a tape session, and what should be taken out of use for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The component at fault.
    pub blame: Blame,
    /// The failure.
    pub failure: Failure,
}

impl Fault {
    /// The cartridge, or what is written on it, is at fault.
    pub fn volume(failure: Failure) -> Self {
        Self { blame: Blame::Volume, failure }
    }

    /// A drive or changer said so. What it found on the medium is the volume's fault, anything else is its own.
    pub fn of_drive(failure: Failure) -> Self {
        let blame = match failure.kind {
            _ if failure.cause == Some(Cause::WriteProtected) => Blame::Volume,
            ErrorKind::Corrupt | ErrorKind::NoSpace | ErrorKind::Unsupported => Blame::Volume,
            _ => Blame::Drive,
        };
        Self { blame, failure }
    }

    /// The source or the sink on disk said so. Whoever is out of reach may come back, anything else concerns the file.
    pub fn of_disk(failure: Failure) -> Self {
        let blame = match failure.kind {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked => {
                Blame::System
            }
            _ => Blame::File,
        };
        Self { blame, failure }
    }

    /// Our own code or the head is at fault.
    pub fn system(failure: Failure) -> Self {
        Self { blame: Blame::System, failure }
    }

    /// Puts the operation in front of the failure.
    #[must_use]
    pub fn during(self, context: impl fmt::Display) -> Self {
        Self { blame: self.blame, failure: self.failure.during(context) }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        fault.failure
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}
