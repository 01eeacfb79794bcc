//! Mirrors of what users write: filled before the head is told, so that what it acknowledges is on several disk servers.

use crate::{far::Reach, files::blocking, link::Link};
use base::{Failure, ObjectId, Result};
use disk::Partition;
use std::{mem, sync::Arc};
use tokio::task::JoinSet;
use tracing::warn;
use wire::{
    control::{Mirror, PlaceMirrors},
    object::ObjectInfo,
};

/// How often mirrors that failed are placed elsewhere.
const ROUNDS_MAX: usize = 3;

/// What it takes to fill mirrors.
#[derive(Clone)]
pub(crate) struct Mirroring {
    pub(crate) link: Link,
    pub(crate) reach: Reach,
    pub(crate) partition: Arc<Partition>,
}

impl Mirroring {
    /// Fills the mirrors of an object that is durable here, all at once. Yields those that are durable; whether they are
    /// enough is for the head to say.
    pub(crate) async fn fill(&self, info: &ObjectInfo) -> Result<Vec<ObjectId>> {
        let (mut filled, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS_MAX {
            let call = PlaceMirrors {
                object: info.object,
                size: info.size,
                checksums: info.checksums,
                failed: mem::take(&mut failed),
            };
            let mut wanted = self.link.insist(call).await?.mirrors;
            wanted.retain(|mirror| !filled.contains(&mirror.object));
            for (object, outcome) in self.push(info.object, wanted).await? {
                match outcome {
                    Ok(()) => filled.push(object),
                    Err(failure) => {
                        warn!(object = %info.object, mirror = %object, %failure, "mirror not written");
                        failed.push(object);
                    }
                }
            }
            if failed.is_empty() {
                break;
            }
        }
        Ok(filled)
    }

    async fn push(&self, object: ObjectId, mirrors: Vec<Mirror>) -> Result<Vec<(ObjectId, Result<()>)>> {
        if mirrors.is_empty() {
            return Ok(Vec::new());
        }
        let partition = Arc::clone(&self.partition);
        let reader = blocking(move || partition.open_object(object)).await?;
        let mut pushes = JoinSet::new();
        for Mirror { object, url } in mirrors {
            let (reach, reader) = (self.reach.clone(), Arc::clone(&reader));
            pushes.spawn(async move { (object, blocking(move || reach.push(&reader, &url)).await) });
        }
        let mut outcomes = Vec::new();
        while let Some(outcome) = pushes.join_next().await {
            outcomes
                .push(outcome.map_err(|cause| Failure::internal(format!("a mirror ended badly: {cause}")))?);
        }
        Ok(outcomes)
    }
}
