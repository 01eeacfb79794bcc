//! The disk server's chores: deletes objects that nothing refers to and reports the room that is left.

use crate::{
    files::blocking,
    link::Link,
    objects::{Objects, Withdrawn, Writing},
    scan::Scanner,
};
use base::{ErrorKind, Millis, ObjectId, Result};
use disk::Partition;
use net::shutdown::Token;
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};
use wire::control::{DiskServer, NextRemovals, ObjectsRemoved, RegisterPartition, ReportSpace};

/// Room is reported at least this often.
const REPORT_EVERY: Millis = Millis::from_seconds(2);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(1);

/// A disk server as the head is to know it.
#[derive(Clone)]
pub struct Introduction {
    /// Name and addresses.
    pub server: DiskServer,
    /// Drawn when the process started.
    pub boot: u64,
    /// Pool of its partitions.
    pub pool: String,
}

/// Keeps one partition.
#[derive(Clone)]
pub struct Janitor {
    link: Link,
    introduction: Introduction,
    partition: Arc<Partition>,
    withdrawn: Arc<Withdrawn>,
    writing: Writing,
}

impl Janitor {
    /// The janitor of a partition whose objects are served from `objects`.
    #[must_use]
    pub fn new(link: Link, introduction: Introduction, partition: Arc<Partition>, objects: &Objects) -> Self {
        Self { link, introduction, partition, withdrawn: objects.withdrawn(), writing: objects.writing() }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Scans the partition when the head says so.
    pub(crate) fn scanner(&self, token: Token) -> Scanner {
        Scanner::new(self.link.clone(), Arc::clone(&self.partition), token)
    }

    /// Announces the partition to the head.
    pub async fn register(&self) -> Result<()> {
        let space = self.partition.space()?;
        let Introduction { server, boot, pool } = self.introduction.clone();
        let call = RegisterPartition {
            server,
            boot,
            pool,
            partition: self.name(),
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
        };
        self.link.call(call).await?;
        info!(partition = self.name(), "registered with the head");
        Ok(())
    }

    /// Does the chores until it is time to stop.
    pub async fn keep(self, token: Token) {
        while !token.is_stopped() {
            let outcome = tokio::select! {
                () = token.stopped() => return,
                outcome = self.round() => outcome,
            };
            let outcome = match outcome {
                // A head that does not know us, or took us for an earlier start.
                Err(failure) if failure.kind == ErrorKind::NotFound => self.register().await.map(|()| false),
                outcome => outcome,
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => pause(&token).await,
                Err(failure) => {
                    warn!(partition = self.name(), %failure, "disk chores failed");
                    pause(&token).await;
                }
            }
        }
    }

    /// Reports, waits for objects to delete, and deletes them. False if some could not be deleted yet.
    async fn round(&self) -> Result<bool> {
        self.report().await?;
        let name = self.name();
        let removals = self.link.call_waiting(NextRemovals { partition: name.clone() }, REPORT_EVERY).await?;
        let wanted = removals.objects.len();
        let removed = remove(&self.partition, &self.withdrawn, removals.objects).await?;
        let is_complete = removed.len() == wanted;
        if !removed.is_empty() {
            self.link.call(ObjectsRemoved { partition: name, objects: removed }).await?;
        }
        Ok(is_complete)
    }

    async fn report(&self) -> Result<()> {
        let (space, partition) = (self.partition.space()?, self.name());
        let report = ReportSpace {
            boot: self.introduction.boot,
            writing: self.writing.on(&partition),
            partition,
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
        };
        self.link.call(report).await.map(drop)
    }
}

async fn pause(token: &Token) {
    // Stopping ends the pause; running out of time is the usual way.
    let _ = tokio::time::timeout(PAUSE, token.stopped()).await;
}

/// Deletes what can be deleted; an object that is still being written is tried again later.
async fn remove(
    partition: &Arc<Partition>,
    withdrawn: &Arc<Withdrawn>,
    objects: Vec<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let (partition, withdrawn) = (Arc::clone(partition), Arc::clone(withdrawn));
    blocking(move || {
        for object in &objects {
            // First, so that a writer that begins after the removal finds it.
            if partition.open_object(*object).is_err() {
                withdrawn.add(*object);
            }
        }
        Ok(partition.remove_all(&objects))
    })
    .await
}
