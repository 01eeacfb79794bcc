//! Changes of all copies of a file, and what is done when one of them fails.

use crate::{caller::Caller, errno::Refusal, files::HeldGrant, mount::Mount};
use base::{FileId, Result};
use client::LiveFile;
use wire::control::DropCopies;

impl Mount {
    /// Changes all copies of a file. If some fail and others do not, the head takes those out of the file, durably, before anything
    /// counts; then it is done once more: each change can be made twice.
    ///
    /// # Errors
    /// The failure, if the head wants more copies than are left.
    pub(crate) fn on_copies<T>(
        &self,
        caller: &Caller,
        file: FileId,
        held: &HeldGrant,
        change: impl Fn(&LiveFile) -> Result<T>,
    ) -> Result<T> {
        let bytes = held.writable()?;
        loop {
            let failure = match change(bytes) {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            if !self.drop_failed(caller, file, held, bytes) {
                return Err(failure);
            }
            tracing::warn!(%file, %failure, "a copy of a file failed; the others go on");
        }
    }

    /// Goes on without the copies that have failed. Yields whether some have and the head agrees.
    fn drop_failed(&self, caller: &Caller, file: FileId, held: &HeldGrant, bytes: &LiveFile) -> bool {
        let objects: Vec<_> = bytes.failed().into_iter().map(|copy| copy.object).collect();
        if objects.is_empty() || !bytes.can_go_on() {
            return false;
        }
        let generation = held.generation;
        let drop = |client| DropCopies { client, file, generation, objects: objects.clone() };
        match self.head.call(caller, drop) {
            Ok(layout) => {
                bytes.keep(&layout);
                true
            }
            Err(Refusal::Failure(failure)) => {
                tracing::warn!(%file, %failure, "the failed copies of a file are not given up");
                false
            }
            Err(Refusal::Errno(_)) => false,
        }
    }
}
