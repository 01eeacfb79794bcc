//! Adoption on a partition: makes files on its file system objects, and tells the head, which gives them names.
//!
//! Each pass goes through the whole tree and recognizes files that were adopted before. So an interrupted pass leaves
//! nothing to remember. A file is adopted when the head has said that it is durable; only then its old name is changed.
//!
//! An `AdoptionPass` goes through the tree (`pass`), hands files over in batches (`batch`) to a few readers (`reader`),
//! and reports its progress to the head (`report`).

mod batch;
mod pass;
mod reader;
mod report;

use crate::{Partition, object::walk::Walk, port::Head, serve::local_objects::Writing, upkeep::users::Users};
use base::{Clock, ErrorKind, Millis, Result};
use net::{blocking, shutdown::Token};
use pass::{AdoptionPass, PassEnd};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::{info, warn};
use wire::control::{AdoptionOrder, Amount, NextAdoption};

/// How long a question for work is held back; a stop does not wait for the answer.
const WAIT: Millis = Millis::from_seconds(30);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(5);
/// The head is told at least this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Adopts files for one partition when the head says so.
pub struct Adopter {
    pub(crate) head: Head,
    pub(crate) partition: Arc<Partition>,
    pub(crate) writing: Writing,
    pub(crate) boot: u64,
    /// Directories below which the configuration allows it.
    pub(crate) allowed: Arc<Vec<PathBuf>>,
    pub(crate) clock: Clock,
    pub(crate) token: Token,
}

impl Adopter {
    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Does what the head wants until it is time to stop.
    pub async fn keep(self) {
        while !self.token.is_stopped() {
            let ask = NextAdoption { partition: self.name(), boot: self.boot };
            let orders = tokio::select! {
                () = self.token.stopped() => return,
                orders = self.head.call_waiting(ask, WAIT) => orders,
            };
            let outcome = match orders {
                Ok(orders) => match orders.order {
                    Some(order) => self.follow(&order).await,
                    None => continue,
                },
                // It registers in a moment.
                Err(failure) if failure.kind == ErrorKind::NotFound => {
                    self.pause().await;
                    continue;
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = outcome {
                warn!(partition = self.name(), %failure, "adoption interrupted; it continues later");
                self.pause().await;
            }
        }
    }

    async fn pause(&self) {
        // Stopping ends the pause; running out of time is the usual way.
        let _ = tokio::time::timeout(PAUSE, self.token.stopped()).await;
    }

    async fn follow(&self, order: &AdoptionOrder) -> Result<()> {
        info!(
            partition = self.name(),
            adoption = order.adoption,
            directory = order.directory,
            "adoption started"
        );
        let mut pass = AdoptionPass {
            adopter: self,
            order,
            users: Users::of_this_host(),
            total: None,
            seen: Amount::default(),
            unowned: 0,
            left: Vec::new(),
            told: Instant::now(),
            reading: Arc::default(),
            is_halted: Arc::default(),
        };
        let (walk, root) = match self.walk(order).await {
            Ok(begun) => begun,
            Err(failure) => return pass.tell(false, Some((failure, true))).await.map(drop),
        };
        match pass.go_through(walk, root).await {
            Ok(PassEnd::Done) => pass.tell(true, None).await.map(drop),
            Ok(PassEnd::Stopped) => Ok(()),
            Err(failure) => {
                // What was done is told, if the head can hear it; the failure is what matters.
                let _ = pass.tell(false, Some((failure.clone(), false))).await;
                Err(failure)
            }
        }
    }

    async fn walk(&self, order: &AdoptionOrder) -> Result<(Walk, std::fs::Metadata)> {
        let (allowed, directory) = (Arc::clone(&self.allowed), PathBuf::from(&order.directory));
        let partition = self.partition.directory().to_owned();
        blocking(move || Walk::new(&allowed, &directory, &partition)).await
    }
}
