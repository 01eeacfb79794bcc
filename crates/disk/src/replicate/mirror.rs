//! Mirrors and pieces of what users write: filled before the head is told, so that what it acknowledges is on several disk servers.

use crate::{
    Partition,
    port::Head,
    remote::{objects::PeerClient, threads::with_peers_for_long},
};
use base::{Failure, ObjectId, Result};
use net::blocking;
use std::{mem, sync::Arc};
use tokio::task::JoinSet;
use tracing::warn;
use wire::{
    control::{Cut, FilledPiece, Mirror, PlaceMirrors},
    media::{
        coded::{Coded, Shape},
        object::ObjectInfo,
    },
};

/// How often mirrors that failed are placed elsewhere.
const ROUNDS_MAX: usize = 3;

/// The parameters of filling mirrors.
#[derive(Clone)]
pub(crate) struct MirrorFill {
    pub(crate) head: Head,
    pub(crate) peers: PeerClient,
    pub(crate) partition: Arc<Partition>,
}

/// The durable mirrors and pieces.
#[derive(Default)]
pub(crate) struct Filled {
    pub(crate) mirrors: Vec<ObjectId>,
    pub(crate) pieces: Vec<FilledPiece>,
}

impl Filled {
    fn has(&self, object: ObjectId) -> bool {
        self.mirrors.contains(&object) || self.pieces.iter().any(|piece| piece.object == object)
    }
}

impl MirrorFill {
    /// Fills the mirrors or the pieces of an object that is durable here, all at once. Yields those that are durable; whether they
    /// are enough is for the head to say.
    pub(crate) async fn fill(&self, info: &ObjectInfo) -> Result<Filled> {
        let (mut filled, mut failed) = (Filled::default(), Vec::new());
        for _ in 0..ROUNDS_MAX {
            let call = PlaceMirrors {
                object: info.object,
                size: info.size,
                checksums: info.checksums,
                failed: mem::take(&mut failed),
            };
            let placed = self.head.insist(call).await?;
            let wanted = placed.mirrors.into_iter().filter(|mirror| !filled.has(mirror.object)).collect();
            failed = match placed.cut {
                Some(cut) => self.cut(info, cut, wanted, &mut filled.pieces).await?,
                None => self.mirror(info, wanted, &mut filled.mirrors).await?,
            };
            if failed.is_empty() {
                break;
            }
        }
        Ok(filled)
    }

    /// Fills mirrors; yields those that could not be filled.
    async fn mirror(
        &self,
        info: &ObjectInfo,
        wanted: Vec<Mirror>,
        filled: &mut Vec<ObjectId>,
    ) -> Result<Vec<ObjectId>> {
        let mut failed = Vec::new();
        for (object, outcome) in self.push(info.object, wanted).await? {
            match outcome {
                Ok(()) => filled.push(object),
                Err(failure) => {
                    warn!(object = %info.object, mirror = %object, %failure, "mirror not written");
                    failed.push(object);
                }
            }
        }
        Ok(failed)
    }

    /// Fills pieces; yields those that could not be filled.
    async fn cut(
        &self,
        info: &ObjectInfo,
        Cut { coding, cell_bytes }: Cut,
        wanted: Vec<Mirror>,
        filled: &mut Vec<FilledPiece>,
    ) -> Result<Vec<ObjectId>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let coded = Coded { file: info.file, content: info.generation, bytes: info.size };
        let shape = Shape::new(coding.data, coding.parity, cell_bytes, coded)?;
        let (partition, peers, object) = (Arc::clone(&self.partition), self.peers.clone(), info.object);
        let cut =
            with_peers_for_long(move || peers.cut(&*partition.open_object(object)?, shape, wanted)).await?;
        let mut failed = Vec::new();
        for (piece, outcome) in cut {
            match outcome {
                Ok(done) => filled.push(done),
                Err(failure) => {
                    warn!(%object, piece = piece.index, %failure, "mirror not written");
                    failed.push(piece.object);
                }
            }
        }
        Ok(failed)
    }

    async fn push(&self, object: ObjectId, mirrors: Vec<Mirror>) -> Result<Vec<(ObjectId, Result<()>)>> {
        if mirrors.is_empty() {
            return Ok(Vec::new());
        }
        let partition = Arc::clone(&self.partition);
        let reader = blocking(move || partition.open_object(object)).await?;
        let mut pushes = JoinSet::new();
        for Mirror { object, url, .. } in mirrors {
            let (peers, reader) = (self.peers.clone(), Arc::clone(&reader));
            pushes
                .spawn(async move { (object, with_peers_for_long(move || peers.push(&reader, &url)).await) });
        }
        let mut outcomes = Vec::new();
        while let Some(outcome) = pushes.join_next().await {
            outcomes.push(
                outcome
                    .map_err(|cause| Failure::internal(format!("a mirror failed unexpectedly: {cause}")))?,
            );
        }
        Ok(outcomes)
    }
}
