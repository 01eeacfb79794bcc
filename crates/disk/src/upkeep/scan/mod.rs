//! Scans of a partition: compares it with the catalogue, slowly, and repairs the differences.
//!
//! A scan goes through the partition and the catalogue together, in the order of object numbers. It never trusts a
//! single look: it asks the head and looks again at each apparent difference. Files may be written, evicted or removed
//! meanwhile. The head knows of such a file before its object appears, and forgets it only after the object has gone.

mod compare;
mod judge;
mod listed;
mod pace;
mod repair;
mod scrub;
mod walk;

pub(crate) use pace::Pace;

use self::walk::Walk;
use crate::{Partition, port::Head};
use base::Millis;
use net::{blocking, shutdown::Token};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Handle;
use tracing::warn;
use wire::control::NextScan;

/// How long a question for work is held back; a stop does not wait for the answer.
const WAIT: Millis = Millis::from_seconds(30);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(5);

/// Scans one partition when the head says so.
#[derive(Clone)]
pub struct Scanner {
    head: Head,
    partition: Arc<Partition>,
    token: Token,
}

impl Scanner {
    pub(crate) fn new(head: Head, partition: Arc<Partition>, token: Token) -> Self {
        Self { head, partition, token }
    }

    /// Does what the head wants until it is time to stop.
    pub async fn keep(self) {
        let name = self.partition.identity().partition.clone();
        // What was listed for a scan that somebody has stopped.
        let mut kept = None;
        while !self.token.is_stopped() {
            let orders = tokio::select! {
                () = self.token.stopped() => return,
                orders = self.head.call_waiting(NextScan { partition: name.clone() }, WAIT) => orders,
            };
            let outcome = match orders.map(|orders| orders.order) {
                Ok(None) => continue,
                Ok(Some(order)) => {
                    let scan = order.scan;
                    let listed = kept.take().filter(|(of, _)| *of == scan).map(|(_, listed)| listed);
                    let walk = Walk::new(&self, Handle::current(), order, listed);
                    blocking(move || walk.carry_out()).await.map(|listed| Some((scan, listed?)))
                }
                Err(failure) => Err(failure),
            };
            match outcome {
                Ok(listed) => kept = listed,
                Err(failure) => {
                    warn!(partition = name, %failure, "scan interrupted; it continues later");
                    // Stopping ends the pause; running out of time is the usual way.
                    let _ = tokio::time::timeout(PAUSE, self.token.stopped()).await;
                }
            }
        }
    }
}
