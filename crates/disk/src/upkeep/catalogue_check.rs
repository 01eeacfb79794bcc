//! Detects a catalogue that is older than the objects on this disk server.

use crate::{Entry, EntryState, Partition, port::Head};
use base::{ErrorKind, Result};
use net::blocking;
use std::sync::Arc;
use tracing::{info, warn};
use wire::control::{
    BeginLive, COMPARE_OBJECTS_LEN_MAX, CatalogueMark, CompareCatalogue, CompareObjects, Described,
    FoundObject, Removals,
};

/// The catalogue states that a partition has seen.
pub(crate) struct SeenCatalogues {
    head: Head,
    partition: Arc<Partition>,
    /// What the head said when it was compared last, and is noted on the partition.
    noted: Option<CatalogueMark>,
}

impl SeenCatalogues {
    pub(crate) fn new(head: Head, partition: Arc<Partition>) -> Self {
        Self { head, partition, noted: None }
    }

    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Compares what was seen last with what the head has now, if that was not done since the head was started.
    pub(crate) async fn compare(&mut self) -> Result<()> {
        if self.noted.is_some() {
            return Ok(());
        }
        let partition = Arc::clone(&self.partition);
        let seen = blocking(move || partition.seen_catalogue()).await?;
        let state = self.head.call(CompareCatalogue { partition: self.name(), seen }).await?;
        if !state.is_settled {
            warn!(
                partition = self.name(),
                "the catalogue was restored; nothing is deleted until `bp admin settle`"
            );
            if state.is_recovering {
                self.seal_orphans().await?;
            }
            self.tell_all().await?;
        }
        self.note(state.mark).await
    }

    async fn note(&mut self, mark: CatalogueMark) -> Result<()> {
        let partition = Arc::clone(&self.partition);
        blocking(move || partition.note_catalogue(&mark)).await?;
        self.noted = Some(mark);
        Ok(())
    }

    /// Whether what the head wants to have deleted comes from the state of the catalogue that was compared.
    pub(crate) async fn believes(&mut self, removals: &Removals) -> Result<bool> {
        let start = |mark: &CatalogueMark| (mark.epoch, mark.incarnation, mark.started);
        if self.noted.as_ref().map(start) != Some(start(&removals.mark)) {
            // The head was started anew, or went back: compare again.
            self.noted = None;
            return Ok(false);
        }
        if self.noted.is_none_or(|noted| noted.tick < removals.mark.tick) {
            self.note(removals.mark).await?;
        }
        Ok(true)
    }

    /// Seals objects that change in place and that the catalogue does not know, so that they are found like others. What cannot be
    /// sealed is left as it is.
    async fn seal_orphans(&self) -> Result<()> {
        let partition = Arc::clone(&self.partition);
        for object in blocking(move || partition.live_objects()).await? {
            match self.head.call(BeginLive { object, start: None }).await {
                Ok(_) => continue,
                Err(failure) if failure.kind == ErrorKind::NotFound => {}
                Err(failure) => return Err(failure),
            }
            let partition = Arc::clone(&self.partition);
            match blocking(move || partition.seal_orphan(object)).await {
                Ok(()) => {
                    info!(partition = self.name(), %object, "sealed an object that the catalogue does not know");
                }
                Err(failure) => {
                    warn!(partition = self.name(), %object, %failure, "cannot seal an object that the catalogue does not know");
                }
            }
        }
        Ok(())
    }

    /// Tells the head what lies here, so that an operator can see what it does not know.
    async fn tell_all(&self) -> Result<()> {
        let mut entries = self.partition.list();
        let (mut is_first, mut is_last) = (true, false);
        while !is_last {
            let (objects, rest) = blocking(move || {
                let mut objects = Vec::with_capacity(COMPARE_OBJECTS_LEN_MAX);
                while objects.len() < COMPARE_OBJECTS_LEN_MAX {
                    match entries.next() {
                        Some(entry) => objects.extend(found(entry?)),
                        None => return Ok((objects, None)),
                    }
                }
                Ok((objects, Some(entries)))
            })
            .await?;
            is_last = rest.is_none();
            self.head.call(CompareObjects { partition: self.name(), is_first, is_last, objects }).await?;
            is_first = false;
            match rest {
                Some(rest) => entries = rest,
                None => break,
            }
        }
        info!(partition = self.name(), "sent the list of objects to the head");
        Ok(())
    }
}

/// What the head is told of an entry: only what is whole, or should be.
fn found(entry: Entry) -> Option<FoundObject> {
    let described = match entry.state {
        EntryState::Complete(info) => {
            let (checksums, written) = (info.checksums, info.written);
            Some(Described { label: info.label(), checksums, written })
        }
        EntryState::Damaged(_) => None,
        EntryState::Writing | EntryState::Unfinished | EntryState::Described | EntryState::Foreign => {
            return None;
        }
    };
    Some(FoundObject { object: entry.object?, size: entry.size, described })
}
