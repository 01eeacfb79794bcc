//! Readers of an adoption: each makes files objects, or recognises those that were adopted before.

use crate::{
    Partition,
    object::{
        adopt::{ObjectMatch, UnlinkOutcome, modified},
        walk::Found,
    },
    serve::local_objects::Writing,
    upkeep::scan::Pace,
};
use base::{Clock, Failure, FileId, FilePath, ObjectId, Result, Timestamp};
use net::shutdown::Token;
use std::{
    collections::VecDeque,
    os::unix::fs::MetadataExt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use wire::{
    control::AdoptionPlace,
    media::object::{Holder, Label, ObjectInfo},
};

/// A file of a batch, and what the head says of it.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) found: Found,
    pub(super) path: FilePath,
    pub(super) holder: Holder,
    pub(super) place: AdoptionPlace,
}

/// What a reader did with a file.
pub(super) struct Outcome {
    pub(super) task: Task,
    pub(super) result: Result<FileOutcome>,
}

/// What the catalogue has under the name of a file.
struct AdoptedBefore {
    object: ObjectId,
    size: u64,
    modified: Timestamp,
}

/// The outcome for a file.
pub(super) enum FileOutcome {
    /// It is durable as an object.
    Object(ObjectInfo),
    /// It was adopted before, and is as it should be.
    Known,
    /// It is time to stop.
    Stopped,
}

/// Objects that are being made: the head is told that somebody is about it, until this is dropped.
pub(super) struct Begun {
    pub(super) writing: Writing,
    pub(super) partition: String,
    objects: Vec<ObjectId>,
}

impl Begun {
    pub(super) fn new(writing: &Writing, partition: &str, tasks: &VecDeque<Task>) -> Self {
        let object = |task: &Task| match task.place {
            AdoptionPlace::Make { object, .. } => Some(object),
            _ => None,
        };
        let objects: Vec<_> = tasks.iter().filter_map(object).collect();
        for object in &objects {
            writing.begin(partition, *object);
        }
        Self { writing: writing.clone(), partition: partition.to_owned(), objects }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        for object in &self.objects {
            self.writing.end(&self.partition, *object);
        }
    }
}

/// Reads files one after the other, at a pace.
pub(super) struct Reader {
    pub(super) partition: Arc<Partition>,
    pub(super) now: Clock,
    pub(super) token: Token,
    pub(super) pace: Pace,
    pub(super) is_moving: bool,
    pub(super) reading: Arc<AtomicU64>,
    pub(super) is_halted: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn is_stopped(&self) -> bool {
        self.token.is_stopped() || self.is_halted.load(Ordering::Relaxed)
    }

    pub(super) fn work(&self, tasks: &Mutex<VecDeque<Task>>) -> Vec<Outcome> {
        let mut pace = self.pace.clone();
        let mut outcomes = Vec::new();
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(task) = task else { return outcomes };
            pace.begin();
            let result = self.one(&task, &mut pace);
            // What was read of it counts with the file from now on.
            outcomes.push(Outcome { task, result });
        }
    }

    fn one(&self, task: &Task, pace: &mut Pace) -> Result<FileOutcome> {
        let paced = |bytes| {
            self.reading.fetch_add(bytes, Ordering::Relaxed);
            pace.rest_unless(1, bytes, || self.is_stopped())
        };
        match task.place {
            AdoptionPlace::Make { object, file } => self.make(task, (object, file), paced),
            AdoptionPlace::Known { object, size, modified } => {
                self.check(task, &AdoptedBefore { object, size, modified }, paced)
            }
            AdoptionPlace::Directory | AdoptionPlace::Refused(_) => Ok(FileOutcome::Known),
        }
    }

    fn make(
        &self,
        task: &Task,
        (object, file): (ObjectId, FileId),
        paced: impl FnMut(u64) -> bool,
    ) -> Result<FileOutcome> {
        if self.is_stopped() {
            return Ok(FileOutcome::Stopped);
        }
        let (path, holder) = (task.path.clone(), task.holder.clone());
        let label = Label { file, path, generation: object.0, holder, piece: None };
        let made = self.partition.adopt(&task.found, object, &label, (self.now)(), paced)?;
        Ok(made.map_or(FileOutcome::Stopped, FileOutcome::Object))
    }

    /// Looks whether a name that is taken is this very file, adopted before.
    fn check(
        &self,
        task: &Task,
        known: &AdoptedBefore,
        paced: impl FnMut(u64) -> bool,
    ) -> Result<FileOutcome> {
        let (partition, found) = (&self.partition, &task.found);
        let other = || {
            Failure::exists(format!("{} exists, and is another file", task.path))
                .hint("keep the right one, and rename or remove the other")
        };
        let is_as_adopted =
            (found.metadata.size(), modified(&found.metadata)) == (known.size, known.modified);
        match partition.likeness(known.object, found)? {
            ObjectMatch::Same if !is_as_adopted => {
                return Err(Failure::corrupt(format!(
                    "it was changed at its original path after it was adopted: {} is damaged",
                    task.path
                ))
                .hint(format!(
                    "`bp scan start {} --checksum` shows all such files",
                    partition.identity().partition
                )));
            }
            ObjectMatch::Same => {}
            ObjectMatch::Twin if self.is_moving => match partition.has_content(known.object, found, paced)? {
                None => return Ok(FileOutcome::Stopped),
                Some(true) => {}
                Some(false) => return Err(other()),
            },
            ObjectMatch::Twin => return Ok(FileOutcome::Known),
            ObjectMatch::Other => return Err(other()),
        }
        match partition.part(known.object, found, self.is_moving)? {
            UnlinkOutcome::Well => Ok(FileOutcome::Known),
            UnlinkOutcome::Damaged => Err(Failure::corrupt(format!(
                "it was changed at its original path: {} is damaged",
                task.path
            ))),
        }
    }
}
