//! Audit records of the XRootD door: changes, refusals and opens.

use super::{DoorSession, RootDoor};
use crate::access::audit::AuditedPeer;
use base::{ErrorKind, Failure, FilePath, Result};
use std::net::IpAddr;

/// Which outcomes of an action are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuditLevel {
    /// Always.
    Change,
    /// If it was refused.
    Look,
}

/// An action for the audit log.
pub(super) struct AuditedAction<'a> {
    pub(super) session: &'a DoorSession,
    /// Whose permissions counted: those of a token that came with the request may be another user's than the session's.
    pub(super) user: &'a str,
    pub(super) verb: &'static str,
    pub(super) weight: AuditLevel,
}

impl RootDoor {
    /// Notes what was done with a path, and the other path of it.
    pub(super) fn note(
        &self,
        action: &AuditedAction<'_>,
        (what, to): (&str, Option<&FilePath>),
        failure: Option<&Failure>,
    ) {
        // Clients ask whether something is there before they make it.
        let is_dull = failure.is_none_or(|failure| failure.kind == ErrorKind::NotFound);
        if is_dull && action.weight == AuditLevel::Look {
            return;
        }
        self.audit.note(|| {
            let visitor =
                AuditedPeer { door: "root", address: Some(action.session.address), user: action.user };
            let mut record = visitor.record(self.authenticator.now(), action.verb, what);
            record.to = to.map(|to| to.as_str().to_owned());
            record.with_outcome(failure)
        });
    }

    /// Notes a login that proved nothing: also one that is told so at its first request only.
    pub(super) fn note_login(&self, address: IpAddr, session: &Result<DoorSession>) {
        let failure = match session {
            Ok(session) => session.identity.is_good(self.authenticator.now()).err(),
            Err(failure) => Some(failure.clone()),
        };
        if let Some(failure) = failure {
            self.note_refused(address, &failure);
        }
    }

    /// Notes a proof that was not good.
    pub(super) fn note_refused(&self, address: IpAddr, failure: &Failure) {
        let visitor = AuditedPeer { door: "root", address: Some(address), user: "nobody" };
        self.audit.note(|| visitor.record(self.authenticator.now(), "login", "").with_outcome(Some(failure)));
    }
}
