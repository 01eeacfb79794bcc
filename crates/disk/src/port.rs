//! How the rooms of a host reach the head: in their own process, or over the network.

use base::{ErrorKind, Failure, Millis, Result};
use client::Control;
use daemon::doors::files::blocking;
use head::{Apply, Head, Principal};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// How long a room insists while the head is out of reach: longer than a restart takes, shorter than clients wait.
const INSIST: Duration = Duration::from_secs(60);
/// Pause before it tries again.
const PAUSE: Duration = Duration::from_millis(500);

/// The way to the head.
#[derive(Clone)]
pub enum Link {
    /// It runs in this process.
    Near(Head),
    /// It runs on another host.
    Far(Control),
}

impl Link {
    /// Makes a call as a room of this host.
    pub async fn call<C: Apply>(&self, call: C) -> Result<C::Reply> {
        self.call_waiting(call, Millis(0)).await
    }

    /// Makes a call whose reply may be held back for up to `wait` while it is pending.
    pub async fn call_waiting<C: Apply>(&self, call: C, wait: Millis) -> Result<C::Reply> {
        match self {
            Self::Near(head) => head.call_waiting(&Principal::room("room"), call, wait).await,
            Self::Far(control) => {
                let control = control.clone();
                blocking(move || control.call_waiting(&call, wait)).await
            }
        }
    }

    /// Makes a call again and again while the head is out of reach, or waits for disk servers itself. Only for calls that may be
    /// carried out twice.
    pub async fn insist<C: Apply>(&self, call: C) -> Result<C::Reply> {
        let (deadline, mut is_told) = (Instant::now() + INSIST, false);
        loop {
            match self.call(call.clone()).await {
                Err(failure) if self.may_come_back(&failure) && Instant::now() < deadline => {
                    if !std::mem::replace(&mut is_told, true) {
                        warn!(call = C::NAME, %failure, "the head cannot do it now; trying again");
                    }
                    sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    fn may_come_back(&self, failure: &Failure) -> bool {
        match self {
            Self::Near(_) => failure.kind == ErrorKind::Unavailable,
            Self::Far(_) => {
                matches!(
                    failure.kind,
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked
                )
            }
        }
    }
}
