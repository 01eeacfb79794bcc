//! Files that are adopted together: read by a few readers, told to the head, parted from their old names.

use super::{
    AdoptionPass, PassEnd, REPORT_EVERY,
    reader::{Begun, FileOutcome, Outcome, Reader, Task},
};
use crate::{
    object::{
        adopt::{UnlinkOutcome, modified},
        walk::{Found, Step, Walk},
    },
    upkeep::scan::Pace,
};
use base::{Failure, ObjectId, Result};
use net::blocking;
use std::{
    collections::VecDeque,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, atomic::Ordering},
};
use tracing::warn;
use wire::{
    control::{
        AdoptedContent, AdoptedFile, AdoptionPlace, EndAdopted, FoundEntry, NodeKind, ScanPace,
        WithdrawAdopted,
    },
    media::object::Holder,
};

/// Files that are adopted together; as many names are shown as being written.
const BATCH_LEN: usize = 64;
/// Bytes after which no further file is added to a batch.
const BATCH_BYTES: u64 = 1 << 30;
/// Files that are read at a time: more would only move the heads of the disk about.
const READERS: u64 = 2;
/// The same for small ones, which wait for the disk to sync them: those that wait together are synced together.
const READERS_OF_SMALL: u64 = 16;
/// Mean size of the files of a batch up to which they are small.
const SMALL_BYTES: u64 = 256 << 10;
/// Most files that are looked at in a second.
const FILES_PER_S: u64 = 10_000;

/// Files that are adopted together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) files: Vec<Found>,
    pub(super) bytes: u64,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.files.len() >= BATCH_LEN || self.bytes >= BATCH_BYTES
    }
}

/// Adds files to a batch until it is full or something else comes; yields that.
pub(super) fn gather(mut walk: Walk, mut batch: Batch) -> (Walk, Batch, Option<Step>) {
    while !batch.is_full() {
        match walk.advance() {
            Some(Step::File(found)) => {
                batch.bytes += found.metadata.size();
                batch.files.push(found);
            }
            other => return (walk, batch, other),
        }
    }
    (walk, batch, None)
}

/// Whose a file is, for its description. Nobody, if its owner is no user of this host: then it belongs to the owner of the facility.
fn holder(entry: &FoundEntry) -> Holder {
    let owner = entry.owner.clone().unwrap_or_default();
    Holder { group: entry.group.clone().unwrap_or_else(|| owner.clone()), owner, mode: entry.mode }
}

impl AdoptionPass<'_> {
    /// Adopts some files.
    pub(super) async fn adopt(&mut self, batch: Vec<Found>) -> Result<PassEnd> {
        let mut files = Vec::with_capacity(batch.len());
        for found in batch {
            match self.path(&found.path) {
                Ok(path) => files.push((found, path)),
                Err(failure) => self.pass_by(&found, failure),
            }
        }
        if files.is_empty() {
            return Ok(PassEnd::Done);
        }
        let mut entries = Vec::with_capacity(files.len());
        for (found, path) in &files {
            entries.push(self.entry(path, NodeKind::File, &found.metadata));
        }
        let holders: Vec<_> = entries.iter().map(holder).collect();
        let places = self.ask(entries).await?;
        if places.is_empty() {
            return Ok(PassEnd::Stopped);
        }
        let mut tasks = VecDeque::with_capacity(files.len());
        for (((found, path), holder), place) in files.into_iter().zip(holders).zip(places) {
            match place {
                AdoptionPlace::Refused(failure) => self.pass_by(&found, failure),
                AdoptionPlace::Directory => {
                    self.pass_by(&found, Failure::exists(format!("{path} is a directory")));
                }
                place => tasks.push_back(Task { found, path, holder, place }),
            }
        }
        let begun = Begun::new(&self.adopter.writing, &self.adopter.name(), &tasks);
        let outcomes = self.read(tasks).await?;
        let end = self.settle(outcomes).await;
        drop(begun);
        end
    }

    /// Reads all files of a batch, some at a time, and tells the head meanwhile how far it is.
    async fn read(&mut self, tasks: VecDeque<Task>) -> Result<Vec<Outcome>> {
        let count = readers_of(&tasks);
        let bytes_per_s = self.order.bytes_per_s;
        let pace = Pace::new(ScanPace { is_checksummed: true, objects_per_s: FILES_PER_S, bytes_per_s });
        let tasks = Arc::new(Mutex::new(tasks));
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..count {
            let reader = Reader {
                partition: Arc::clone(&self.adopter.partition),
                now: Arc::clone(&self.adopter.clock),
                token: self.adopter.token.clone(),
                pace: pace.share(count),
                is_moving: self.order.is_moving,
                reading: Arc::clone(&self.reading),
                is_halted: Arc::clone(&self.is_halted),
            };
            let tasks = Arc::clone(&tasks);
            readers.spawn_blocking(move || reader.work(&tasks));
        }
        let mut outcomes = Vec::new();
        loop {
            tokio::select! {
                done = readers.join_next() => match done {
                    None => break,
                    Some(done) => outcomes.extend(
                        done.map_err(|cause| Failure::internal(format!("a reader failed unexpectedly: {cause}")))?,
                    ),
                },
                () = tokio::time::sleep(REPORT_EVERY) => {
                    // A head that cannot be reached now is told later. What is being made must not be left behind.
                    if matches!(self.tell(false, None).await, Ok(false)) {
                        self.is_halted.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        self.reading.store(0, Ordering::Relaxed);
        Ok(outcomes)
    }

    /// Tells the head what is durable, then parts it from its old name.
    async fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<PassEnd> {
        let (mut ends, mut made, mut end) = (Vec::new(), Vec::new(), PassEnd::Done);
        for Outcome { task, result } in outcomes {
            let object = match task.place {
                AdoptionPlace::Make { object, .. } => Some(object),
                _ => None,
            };
            let content = match &result {
                Ok(FileOutcome::Object(info)) => Some(AdoptedContent {
                    size: info.size,
                    checksums: info.checksums,
                    modified: modified(&task.found.metadata),
                }),
                _ => None,
            };
            if let Some(object) = object {
                ends.push(AdoptedFile { object, content });
            }
            match (result, object) {
                (Ok(FileOutcome::Object(_)), Some(object)) => made.push((task, object, ends.len() - 1)),
                (Ok(FileOutcome::Stopped), _) => end = PassEnd::Stopped,
                (Ok(_), _) => self.count(&task.found),
                (Err(failure), _) => self.pass_by(&task.found, failure),
            }
        }
        let (partition, adoption) = (self.adopter.name(), self.order.adoption);
        let refused = if ends.is_empty() {
            Vec::new()
        } else {
            self.adopter.head.insist(EndAdopted { partition, adoption, files: ends }).await?.refused
        };
        for (task, object, at) in made {
            match refused.get(at) {
                Some(None) => self.part(task, object).await?,
                Some(Some(failure)) => {
                    self.discard(object).await;
                    self.pass_by(&task.found, failure.clone());
                }
                None => return Err(Failure::internal("the head did not say what became of a file")),
            }
        }
        Ok(end)
    }

    /// What the head did not take goes again.
    async fn discard(&self, object: ObjectId) {
        let partition = Arc::clone(&self.adopter.partition);
        if let Err(failure) = blocking(move || partition.remove(object)).await {
            warn!(%object, %failure, "cannot delete an object whose adoption failed; retrying later");
        }
    }

    /// Parts a file that is ours from its old name.
    pub(super) async fn part(&mut self, task: Task, object: ObjectId) -> Result<()> {
        let (partition, is_moving) = (Arc::clone(&self.adopter.partition), self.order.is_moving);
        let found = task.found.clone();
        match blocking(move || partition.part(object, &found, is_moving)).await {
            Ok(UnlinkOutcome::Well) => self.count(&task.found),
            Ok(UnlinkOutcome::Damaged) => {
                let (partition, adoption) = (self.adopter.name(), self.order.adoption);
                self.adopter.head.insist(WithdrawAdopted { partition, adoption, object }).await?;
                self.pass_by(
                    &task.found,
                    Failure::busy("it was written while it was adopted")
                        .hint("adopt it again when no program writes to it"),
                );
            }
            Err(failure) => self.pass_by(&task.found, failure),
        }
        Ok(())
    }
}

/// How many readers a batch is worth.
fn readers_of(tasks: &VecDeque<Task>) -> u64 {
    let bytes: u64 = tasks.iter().map(|task| task.found.metadata.size()).sum();
    if bytes <= SMALL_BYTES * tasks.len() as u64 { READERS_OF_SMALL } else { READERS }
}
