//! Deletes objects that the head has given up, or that nobody finished.

use super::{Janitor, PAUSE, pause};
use crate::{
    Partition, port::Head, serve::local_objects::WithdrawnObjects, upkeep::catalogue_check::SeenCatalogues,
};
use base::{ErrorKind, Millis, ObjectId, Result};
use net::{blocking, shutdown::Token};
use std::sync::Arc;
use tracing::warn;
use wire::control::{MaintenanceDone, NextRemovals, ObjectsRemoved, RunMaintenance};

/// How long the head may hold back its answer while there is nothing to delete. The answer tells the state of the catalogue, too,
/// which the partition remembers.
const ASK_EVERY: Millis = Millis::from_seconds(10);

impl Janitor {
    /// Deletes what nothing refers to.
    pub(super) async fn stay_clean(&self, token: &Token) {
        let mut memory = SeenCatalogues::new(self.head.clone(), Arc::clone(&self.partition));
        loop {
            if self.trouble().is_some() {
                pause(token, PAUSE).await;
                continue;
            }
            match self.clean(&mut memory).await {
                Ok(true) => {}
                Ok(false) => pause(token, PAUSE).await,
                // It registers in a moment.
                Err(failure) if failure.kind == ErrorKind::NotFound => pause(token, PAUSE).await,
                Err(failure) => {
                    warn!(partition = self.name(), %failure, "maintenance of a partition failed; retrying");
                    pause(token, PAUSE).await;
                }
            }
        }
    }

    /// Waits for objects to delete, deletes them, and says what room that made. False if some could not be deleted yet.
    async fn clean(&self, memory: &mut SeenCatalogues) -> Result<bool> {
        memory.compare().await?;
        let name = self.name();
        let removals = self.head.call_waiting(NextRemovals { partition: name.clone() }, ASK_EVERY).await?;
        if !memory.believes(&removals).await? {
            return Ok(true);
        }
        let wanted = removals.objects.len();
        let removed = remove(&self.partition, &self.withdrawn, removals.objects).await?;
        let is_complete = removed.len() == wanted;
        if !removed.is_empty() {
            self.space.note_freed();
            self.head.call(ObjectsRemoved { partition: name, objects: removed }).await?;
            let (space, trouble) = self.look().await?;
            self.report(space, trouble).await?;
        }
        Ok(is_complete)
    }
}

/// Lets the head look after its pools until it is time to stop.
pub async fn maintain(head: Head, token: Token) {
    while !token.is_stopped() {
        match head.call(RunMaintenance {}).await {
            // Other calls come in between.
            Ok(MaintenanceDone { is_more: true }) => tokio::task::yield_now().await,
            Ok(MaintenanceDone { is_more: false }) => pause(&token, PAUSE).await,
            Err(failure) => {
                // A head that was replaced ends by itself, and says so.
                if failure.kind != ErrorKind::Unavailable {
                    warn!(%failure, "maintenance of the pools failed; retrying");
                }
                pause(&token, PAUSE).await;
            }
        }
    }
}

/// Deletes what can be deleted; an object that is still being written is tried again later.
async fn remove(
    partition: &Arc<Partition>,
    withdrawn: &Arc<WithdrawnObjects>,
    objects: Vec<ObjectId>,
) -> Result<Vec<ObjectId>> {
    let (partition, withdrawn) = (Arc::clone(partition), Arc::clone(withdrawn));
    blocking(move || {
        // First, so that a writer that begins after the removal finds it, also after a restart.
        let missing: Vec<_> = objects.iter().copied().filter(|object| !partition.holds(*object)).collect();
        for object in &missing {
            withdrawn.add(*object);
        }
        partition.note_withdrawn(&missing)?;
        Ok(partition.remove_all(&objects))
    })
    .await
}
