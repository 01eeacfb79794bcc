//! Copies between disk servers: fetches the objects that the head wants on a partition of this host.

use crate::{
    Partition,
    port::Head,
    remote::{objects::PeerClient, threads::with_peers_for_long},
    replicate::coded::CodedFile,
    serve::{
        free_space::SpaceWait,
        local_objects::{Objects, WithdrawnObjects},
    },
};
use base::{Checksums, Clock, Failure, Millis, ObjectId, Result};
use net::shutdown::Token;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tracing::{info, warn};
use wire::{
    control::{CopyEnded, CopyOrder, Layout, NextCopies, Pieces},
    media::object::Label,
};

/// How long the head may hold back its answer; copies that end in the meantime are reported at once.
const ASK_EVERY: Millis = Millis::from_seconds(30);
/// Pause after the head could not be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Fetches for one partition.
#[derive(Clone)]
pub struct Copier {
    head: Head,
    peers: PeerClient,
    partition: Arc<Partition>,
    withdrawn: Arc<WithdrawnObjects>,
    space: SpaceWait,
    clock: Clock,
}

impl Copier {
    /// Fetches for `partition`, whose objects are served from `objects`.
    #[must_use]
    pub fn new(
        head: &Head,
        peers: &PeerClient,
        partition: &Arc<Partition>,
        objects: &Objects,
        clock: &Clock,
    ) -> Self {
        Self {
            head: head.clone(),
            peers: peers.clone(),
            partition: Arc::clone(partition),
            withdrawn: objects.withdrawn(),
            space: objects.space(),
            clock: Arc::clone(clock),
        }
    }

    /// Fetches what the head wants until it is time to stop. What is under way then is given up: the head has not
    /// counted on it.
    pub async fn keep(self, token: Token) {
        let mut copies: JoinSet<ObjectId> = JoinSet::new();
        let mut under_way: Vec<ObjectId> = Vec::new();
        loop {
            tokio::select! {
                () = token.stopped() => return,
                Some(ended) = copies.join_next(), if !copies.is_empty() => match ended {
                    Ok(object) => under_way.retain(|one| *one != object),
                    Err(cause) => {
                        warn!(%cause, "the task of a copy panicked");
                        // Nobody knows which one it was: all that still run are asked for again, and refused as busy.
                        under_way.clear();
                    }
                },
                asked = self.next(&under_way) => match asked {
                    Ok(orders) => for order in orders {
                        under_way.push(order.object);
                        copies.spawn(self.clone().copy(order));
                    },
                    Err(failure) => {
                        warn!(partition = self.name(), %failure, "cannot ask the head for replicas to copy");
                        // Stopping ends the pause; running out of time is the usual way.
                        let _ = tokio::time::timeout(PAUSE, token.stopped()).await;
                    }
                },
            }
        }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    async fn next(&self, under_way: &[ObjectId]) -> Result<Vec<CopyOrder>> {
        let call = NextCopies { partition: self.name(), under_way: under_way.to_vec() };
        Ok(self.head.call_waiting(call, ASK_EVERY).await?.orders)
    }

    async fn copy(self, order: CopyOrder) -> ObjectId {
        let (object, source) = (order.object, order.source);
        let Fetched { outcome, damaged } = self.fetch(order).await;
        let (checksums, failure) = match outcome {
            Ok(checksums) => (Some(checksums), None),
            Err(failure) => (None, Some(failure)),
        };
        match &failure {
            None => info!(%object, %source, partition = self.name(), "replica copied"),
            Some(failure) => warn!(%object, %source, partition = self.name(), %failure, "copy failed"),
        }
        if let Err(failure) =
            self.head.insist(CopyEnded { object, source, failure, checksums, damaged }).await
        {
            warn!(%object, %failure, "could not report a copy to the head; the head orders it again");
        }
        object
    }

    async fn fetch(&self, order: CopyOrder) -> Fetched {
        let mut damaged = Vec::new();
        let outcome = match order.pieces.as_ref().map(|pieces| self.gathered(pieces)).transpose() {
            Ok(file) => {
                let file = file.map(Arc::new);
                let outcome = self.make(order, file.clone()).await;
                damaged.extend(file.iter().flat_map(|file| file.damaged()));
                outcome
            }
            Err(failure) => Err(failure),
        };
        Fetched { outcome, damaged }
    }

    fn gathered(&self, pieces: &Pieces) -> Result<CodedFile> {
        let here = BTreeMap::from([(self.name(), Arc::clone(&self.partition))]);
        CodedFile::new(pieces, &here, &self.peers, None)
    }

    /// Makes one object of the columns of a live file. Yields its size and sums.
    pub(crate) async fn join(
        &self,
        object: ObjectId,
        label: Label,
        (size, layout): (u64, Layout),
    ) -> Result<(u64, Checksums)> {
        let (peers, partition, now) = (self.peers.clone(), Arc::clone(&self.partition), (self.clock)());
        let withdrawn = Arc::clone(&self.withdrawn);
        with_peers_for_long(move || {
            // An answer to the head was lost: it is here already.
            if let Ok(reader) = partition.open_object(object) {
                let info = reader.info();
                return Ok((info.size, info.checksums));
            }
            let writer = partition.create_object(object)?;
            withdrawn.refuse(object)?;
            writer.preallocate(size)?;
            peers.join(&layout, size, &writer)?;
            let made = writer.commit(&label, None, now)?;
            Ok((made.size, made.checksums))
        })
        .await
    }

    /// Makes the object: a copy, or a piece made anew from others.
    async fn make(&self, order: CopyOrder, file: Option<Arc<CodedFile>>) -> Result<Checksums> {
        let (peers, partition, now) = (self.peers.clone(), Arc::clone(&self.partition), (self.clock)());
        let (withdrawn, space) = (Arc::clone(&self.withdrawn), self.space.clone());
        with_peers_for_long(move || {
            let expected = order.checksums.map(|checksums| (order.size, checksums));
            // An answer to the head was lost: it is here already.
            if let Ok(reader) = partition.open_object(order.object) {
                let info = reader.info();
                let is_it = expected.unwrap_or((order.size, info.checksums)) == (info.size, info.checksums);
                return if is_it { Ok(info.checksums) } else { Err(other(order.object)) };
            }
            let writer = partition.create_object(order.object)?;
            withdrawn.refuse(order.object)?;
            space.reserve_blocking(&writer, order.size)?;
            writer.preallocate(order.size)?;
            match (&file, order.label.piece) {
                (Some(file), Some(piece)) => file.rebuild(piece.index, &writer)?,
                _ => peers.pull(&order.url, &writer)?,
            }
            let made = writer.commit(&order.label, expected, now)?;
            Ok(made.checksums)
        })
        .await
    }
}

/// The outcome of an order.
struct Fetched {
    outcome: Result<Checksums>,
    damaged: Vec<ObjectId>,
}

fn other(object: ObjectId) -> Failure {
    Failure::corrupt(format!("object {object} is here already with another content"))
}
