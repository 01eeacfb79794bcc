//! The disk server's chores: deletes objects that nothing refers to and reports the room that is left.

use crate::files::{Withdrawn, blocking};
use base::{Millis, ObjectId, Result};
use disk::Partition;
use head::{Head, Principal};
use net::shutdown::Token;
use std::{sync::Arc, time::Duration};
use tracing::{debug, warn};
use wire::control::{NextRemovals, ObjectsRemoved, RegisterPartition, ReportSpace};

/// Room is reported at least this often.
const REPORT_EVERY: Millis = Millis::from_seconds(2);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(1);

/// Announces a partition to the head.
pub async fn register(head: &Head, pool: &str, partition: &Partition) -> Result<()> {
    let space = partition.space()?;
    let call = RegisterPartition {
        pool: pool.to_owned(),
        partition: partition.identity().partition.clone(),
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
    };
    head.call(&Principal::room("disk"), call).await.map(drop)
}

/// Does the chores of one partition until it is time to stop.
pub async fn keep(head: Head, partition: Arc<Partition>, withdrawn: Arc<Withdrawn>, token: Token) {
    while !token.is_stopped() {
        let outcome = tokio::select! {
            () = token.stopped() => return,
            outcome = round(&head, &partition, &withdrawn) => outcome,
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => pause(&token).await,
            Err(failure) => {
                warn!(partition = partition.identity().partition, %failure, "disk chores failed");
                pause(&token).await;
            }
        }
    }
}

async fn pause(token: &Token) {
    // Stopping ends the pause; running out of time is the usual way.
    let _ = tokio::time::timeout(PAUSE, token.stopped()).await;
}

/// Waits for objects to delete, deletes them, and reports the room. False if some could not be deleted yet.
async fn round(head: &Head, partition: &Arc<Partition>, withdrawn: &Arc<Withdrawn>) -> Result<bool> {
    let room = Principal::room("disk");
    let name = partition.identity().partition.clone();
    let removals = head.call_waiting(&room, NextRemovals { partition: name.clone() }, REPORT_EVERY).await?;
    let wanted = removals.objects.len();
    let removed = remove(partition, withdrawn, removals.objects).await?;
    let is_complete = removed.len() == wanted;
    if !removed.is_empty() {
        head.call(&room, ObjectsRemoved { partition: name.clone(), objects: removed }).await?;
    }
    let space = partition.space()?;
    let report =
        ReportSpace { partition: name, total_bytes: space.total_bytes, free_bytes: space.free_bytes };
    head.call(&room, report).await?;
    Ok(is_complete)
}

/// Deletes what can be deleted; an object that is still being written is tried again later.
async fn remove(
    partition: &Arc<Partition>,
    withdrawn: &Arc<Withdrawn>,
    objects: Vec<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let (partition, withdrawn) = (Arc::clone(partition), Arc::clone(withdrawn));
    blocking(move || {
        let mut removed = Vec::with_capacity(objects.len());
        for object in objects {
            // First, so that a writer that begins after the removal finds it.
            if partition.open_object(object).is_err() {
                withdrawn.add(object);
            }
            match partition.remove(object) {
                Ok(()) => removed.push(object),
                Err(failure) => debug!(%object, %failure, "object not removed yet"),
            }
        }
        Ok(removed)
    })
    .await
}
