//! Makes writes wait while space is being freed: a pool of files that are safe on tape is not full.
//!
//! The head evicts, the janitor deletes, and a write waits here until there is space for its bytes. Sessions and bodies
//! ask for the space of a piece before they write it ([`WriteFile::lacks_space`]), so that threads wait only where that
//! cannot be avoided.
//!
//! [`WriteFile::lacks_space`]: crate::serve::open_file::WriteFile::lacks_space

use crate::{ObjectWriter, port::Head};
use base::{ErrorKind, Failure, Result};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use wire::control::FreeSpace;

/// How long a write waits for space at a time: longer than the deletion of a thousand files takes, shorter than the minute after
/// which clients of the field take a silent server for dead.
const WAIT_MAX: Duration = Duration::from_secs(45);
/// It looks this often even if nobody says that something was deleted: file systems give space back late.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits for free space on the partitions of this host.
#[derive(Clone)]
pub(crate) struct SpaceWait {
    head: Head,
    /// Told when something was deleted.
    freed: Arc<Notify>,
}

impl SpaceWait {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, freed: Arc::default() }
    }

    /// Something was deleted, or given up.
    pub(crate) fn note_freed(&self) {
        self.freed.notify_waiters();
    }

    /// Takes the space so that `writer` can have `bytes` in all; waits for it while it is being freed.
    pub(crate) async fn reserve(&self, writer: &ObjectWriter, bytes: u64) -> Result<()> {
        let Some(mut full) = lacking(writer.reserve(bytes))? else { return Ok(()) };
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Before the head is asked: what it frees may be deleted before its answer is here.
            freed.as_mut().enable();
            match self.head.call(FreeSpace { object: writer.object(), bytes }).await {
                Ok(_) => {}
                Err(failure) if matches!(failure.kind, ErrorKind::NoSpace | ErrorKind::OverQuota) => {
                    return Err(failure);
                }
                Err(failure) if may_come_back(&failure) => {}
                // The file was removed, or the head is of an older release.
                Err(_) => return Err(full),
            }
            match lacking(writer.reserve(bytes))? {
                None => return Ok(()),
                Some(failure) => full = failure,
            }
            if Instant::now() >= deadline {
                return Err(full.during(format_args!("wait of {} s for free space", WAIT_MAX.as_secs())));
            }
            // Running out of time is as good as being told: it looks again.
            let _ = timeout(LOOK_EVERY, freed).await;
        }
    }

    /// The same on a thread that may block.
    pub(crate) fn reserve_blocking(&self, writer: &ObjectWriter, bytes: u64) -> Result<()> {
        let Some(full) = lacking(writer.reserve(bytes))? else { return Ok(()) };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Err(full) };
        runtime.block_on(self.reserve(writer, bytes))
    }
}

/// The failure, if only free space is lacking.
fn lacking(outcome: Result<()>) -> Result<Option<Failure>> {
    match outcome {
        Ok(()) => Ok(None),
        Err(failure) if failure.kind == ErrorKind::NoSpace => Ok(Some(failure)),
        Err(failure) => Err(failure),
    }
}

fn may_come_back(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked)
}
