//! Work that blocks, away from the threads that drive connections.

use base::{Failure, Result};

/// Runs `work` on a thread that may block.
///
/// # Errors
/// Those of `work`; `Internal` if it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|cause| Failure::internal(format!("a file thread panicked: {cause}")))?
}
