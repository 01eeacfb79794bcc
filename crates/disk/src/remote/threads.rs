//! A bounded pool of threads for work that waits for other disk servers, which may be waiting for this one.
//!
//! These threads do not count as threads that serve files of this host. So a server always has threads to answer with,
//! whatever it waits for itself. Reads by `root://` have their own bound ([`net::xrd::PEER_MOVERS_MAX`]).

use base::{Failure, Result};
use net::blocking;
use std::time::Duration;
use tokio::{sync::Semaphore, time::timeout};

/// Threads for short work: opens, reads of a segment, closes.
const SHORT_THREADS: usize = 32;
/// Threads that pass on what users write: one of them may wait a minute for a server that does not go on.
const WRITING_THREADS: usize = 32;
/// Threads for work on whole objects: mirrors, pieces, copies.
const LONG_THREADS: usize = 32;
/// Threads that wait for other servers, beside those of `root://`.
pub const PEER_THREADS_MAX: usize = SHORT_THREADS + WRITING_THREADS + LONG_THREADS;
/// How long short work waits for its turn: what is before it fails after a minute without progress.
const SHORT_WAIT_MAX: Duration = Duration::from_secs(600);
/// How long other work does: as long as its rights hold. What is before it goes on, or fails.
const LONG_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

static SHORT: Semaphore = Semaphore::const_new(SHORT_THREADS);
static WRITING: Semaphore = Semaphore::const_new(WRITING_THREADS);
static LONG: Semaphore = Semaphore::const_new(LONG_THREADS);

/// Runs short `work`, which may wait for other servers, on a thread, once there is one.
pub async fn with_peers<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    in_turn(&SHORT, SHORT_WAIT_MAX, work).await
}

/// The same for what users write.
pub async fn with_peers_for_writing<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    in_turn(&WRITING, SHORT_WAIT_MAX, work).await
}

/// The same for work on a whole object, which may take hours.
pub(crate) async fn with_peers_for_long<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    in_turn(&LONG, LONG_WAIT_MAX, work).await
}

async fn in_turn<T: Send + 'static>(
    places: &'static Semaphore,
    wait_max: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let busy = || {
        Failure::busy("all threads have waited too long for other servers")
            .hint("try again; `bp pool list` shows the disk servers that do not answer")
    };
    let place = timeout(wait_max, places.acquire()).await.map_err(|_| busy())?;
    let place = place.map_err(|_| Failure::internal("the places of peers were closed"))?;
    blocking(move || {
        // Kept by the thread: whoever waits for it may go before it ends.
        let _place = place;
        work()
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc};

    #[test]
    fn what_waits_for_other_servers_leaves_threads_for_files_of_this_host() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(LONG_THREADS + 2)
            .enable_all()
            .build()
            .unwrap();
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        runtime.block_on(async {
            let waiting = (0..2 * LONG_THREADS).map(|_| {
                let answered = Arc::clone(&answered);
                tokio::spawn(with_peers_for_long(move || {
                    // Until the other side is gone.
                    let _ = answered.lock().unwrap().recv();
                    Ok(())
                }))
            });
            let waiting: Vec<_> = waiting.collect();
            while LONG.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let local = timeout(Duration::from_secs(20), blocking(|| Ok(7))).await;
            let short = timeout(Duration::from_secs(20), with_peers(|| Ok(8))).await;
            drop(answer);
            assert_eq!(local.expect("no thread is left for files of this host").unwrap(), 7);
            assert_eq!(short.expect("short work waits for long work").unwrap(), 8);
            for one in waiting {
                one.await.unwrap().unwrap();
            }
        });
    }
}
