//! Objects that the head has given up: nobody may write them any more.

use crate::Partition;
use base::{Failure, ObjectId, Result};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tracing::warn;
use wire::auth::capability::{Cap, UNFENCED};

/// Objects that were removed before anything was written: whoever was promised one must not make it any more.
#[derive(Default)]
pub struct WithdrawnObjects(Mutex<[HashSet<ObjectId>; 2]>);

impl WithdrawnObjects {
    /// What the partitions remember: a right that was given before a restart may still be used after it.
    pub(super) fn remembered(partitions: &BTreeMap<String, Arc<Partition>>) -> Self {
        let withdrawn = Self::default();
        for (partition, kept) in partitions {
            match kept.seen_withdrawn() {
                Ok(objects) => {
                    for object in objects {
                        withdrawn.add(object);
                    }
                }
                Err(failure) => {
                    warn!(partition, %failure, "cannot read the list of withdrawn objects; stale writes may succeed");
                }
            }
        }
        withdrawn
    }

    /// Remembers an object, and forgets the oldest if there are too many.
    pub fn add(&self, object: ObjectId) {
        let [new, old] = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() >= crate::WITHDRAWN_MAX {
            *old = std::mem::take(new);
        }
        new.insert(object);
    }

    /// Refuses an object that nobody waits for; asked once its writer keeps the janitor away.
    pub(crate) fn refuse(&self, object: ObjectId) -> Result<()> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sets.iter().any(|set| set.contains(&object)) {
            return Err(Failure::not_found(format!("object {object} was removed before it was written")));
        }
        Ok(())
    }
}

/// From which generation on rights to read hold: the head raises it when somebody may read less than before.
#[derive(Default)]
pub struct Fence(AtomicU64);

impl Fence {
    /// What the partitions remember. One that cannot be read lets nobody in but rooms, until the head has said it again.
    pub(super) fn remembered(partitions: &BTreeMap<String, Arc<Partition>>) -> Self {
        let fences = partitions.iter().map(|(partition, kept)| {
            kept.seen_fence().unwrap_or_else(|failure| {
                warn!(partition, %failure, "cannot read which capabilities were revoked; clients are redirected \
                    to the head");
                UNFENCED
            })
        });
        Self(AtomicU64::new(fences.max().unwrap_or(0)))
    }

    /// Takes what the head says.
    pub(crate) fn set(&self, fence: u64) {
        self.0.store(fence, Ordering::Release);
    }

    /// Refuses a right to read that may have been taken back.
    pub(super) fn check(&self, cap: &Cap) -> Result<()> {
        if !cap.access.is_read() || cap.generation >= self.0.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Failure::permission(format!(
            "capability for object {} was issued before a permission was revoked",
            cap.object
        ))
        .hint("open the file again"))
    }
}
