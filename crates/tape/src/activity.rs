//! The activity of a drive, shared between its thread and the supervisor.

use base::{RequestId, SessionId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::control::{TapePhase, TapeProgress};

/// What one drive is doing. Its thread writes it, the supervisor reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(
    /// Held for a few instructions only, and no other lock is taken under it.
    Arc<Mutex<Option<TapeProgress>>>,
);

impl Activity {
    /// A session begins.
    pub(crate) fn begin(&self, session: SessionId) {
        *self.lock() =
            Some(TapeProgress { session, phase: TapePhase::Loading, request: None, bytes_done: 0 });
    }

    /// The session enters another phase.
    pub(crate) fn phase(&self, phase: TapePhase) {
        if let Some(progress) = self.lock().as_mut() {
            progress.phase = phase;
        }
    }

    /// The session goes to a file.
    pub(crate) fn file(&self, request: RequestId) {
        if let Some(progress) = self.lock().as_mut() {
            (progress.request, progress.bytes_done) = (Some(request), 0);
        }
    }

    /// So many more bytes of the file are done.
    pub(crate) fn transferred(&self, bytes: usize) {
        if let Some(progress) = self.lock().as_mut() {
            progress.phase = TapePhase::Transferring;
            progress.bytes_done += bytes as u64;
        }
    }

    /// The session is over.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    /// How far the session is, if there is one.
    pub(crate) fn now(&self) -> Option<TapeProgress> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<TapeProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
