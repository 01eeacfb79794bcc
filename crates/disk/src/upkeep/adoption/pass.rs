//! A pass through a tree: counts it, makes its directories, hands its files over in batches.

use super::{
    Adopter,
    batch::{Batch, gather},
};
use crate::{
    object::{
        adopt::modified,
        walk::{Found, Step, Walk},
    },
    upkeep::users::Users,
};
use base::{Failure, FilePath, Result, units::counted};
use net::{blocking, shutdown::Token};
use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Instant,
};
use wire::control::{AdoptionOrder, AdoptionPlace, Amount, BeginAdopted, FoundEntry, LeftAlone, NodeKind};

/// A pass through a tree.
pub(super) struct AdoptionPass<'a> {
    pub(super) adopter: &'a Adopter,
    pub(super) order: &'a AdoptionOrder,
    pub(super) users: Users,
    pub(super) total: Option<Amount>,
    pub(super) seen: Amount,
    pub(super) unowned: u64,
    pub(super) left: Vec<LeftAlone>,
    pub(super) told: Instant,
    /// Bytes read of files that are not through yet.
    pub(super) reading: Arc<AtomicU64>,
    /// The head wants no more.
    pub(super) is_halted: Arc<AtomicBool>,
}

/// How an adoption pass ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PassEnd {
    Done,
    /// Somebody stopped it, or the daemon stops.
    Stopped,
}

impl AdoptionPass<'_> {
    /// Counts, then adopts.
    pub(super) async fn go_through(&mut self, mut walk: Walk, root: std::fs::Metadata) -> Result<PassEnd> {
        let (counted, _) = self.adopter.walk(self.order).await?;
        let token = self.adopter.token.clone();
        let Some(total) = blocking(move || Ok(count(counted, &token))).await? else {
            return Ok(PassEnd::Stopped);
        };
        self.total = Some(total);
        let entry = self.entry(&self.order.path.clone(), NodeKind::Directory, &root);
        match self.ask(vec![entry]).await?.pop() {
            Some(AdoptionPlace::Directory) => {}
            Some(AdoptionPlace::Refused(failure)) => {
                self.leave(Path::new(""), failure);
                return Ok(PassEnd::Done);
            }
            _ => return Ok(PassEnd::Stopped),
        }
        let mut batch = Batch::default();
        loop {
            let (next, step);
            (walk, next, step) = blocking(move || Ok(gather(walk, batch))).await?;
            batch = next;
            let is_over = step.is_none() && !batch.is_full();
            // The files of a directory are through before it can be empty.
            let is_due = step.is_none() || self.order.is_moving && matches!(step, Some(Step::Over(_)));
            if is_due && self.adopt(std::mem::take(&mut batch).files).await? == PassEnd::Stopped {
                return Ok(PassEnd::Stopped);
            }
            match step {
                Some(Step::Directory(found)) => match self.enter(&found).await? {
                    Some(true) => {}
                    Some(false) => walk.skip(),
                    None => return Ok(PassEnd::Stopped),
                },
                Some(Step::Over(found)) if self.order.is_moving => self.remove_if_empty(found).await?,
                Some(Step::Odd(path, failure)) => self.leave(&path, failure),
                Some(Step::Over(_) | Step::File(_)) => {}
                None if is_over => return Ok(PassEnd::Done),
                None => {}
            }
            if !self.tell_now_and_then().await? {
                return Ok(PassEnd::Stopped);
            }
        }
    }

    async fn remove_if_empty(&mut self, found: Found) -> Result<()> {
        let path = found.path.clone();
        if let Err(failure) = blocking(move || found.remove_if_empty()).await {
            self.leave(&path, failure);
        }
        Ok(())
    }

    /// Makes a directory in the facility. Whether to go into it; `None`: it is time to stop.
    async fn enter(&mut self, found: &Found) -> Result<Option<bool>> {
        let path = match self.path(&found.path) {
            Ok(path) => path,
            Err(failure) => {
                self.leave(&found.path, failure);
                return Ok(Some(false));
            }
        };
        let entry = self.entry(&path, NodeKind::Directory, &found.metadata);
        Ok(match self.ask(vec![entry]).await?.pop() {
            None => None,
            Some(AdoptionPlace::Refused(failure)) => {
                self.leave(&found.path, failure);
                Some(false)
            }
            Some(_) => Some(true),
        })
    }

    /// Returns the path of an entry in the facility.
    pub(super) fn path(&self, below: &Path) -> Result<FilePath> {
        let mut path = self.order.path.clone();
        for part in below {
            let name = part.to_str().ok_or_else(|| {
                Failure::invalid("its name is not UTF-8").hint("rename it, and adopt it again")
            })?;
            path = path.join(name).map_err(|failure| failure.hint("rename it, and adopt it again"))?;
        }
        Ok(path)
    }

    pub(super) fn entry(
        &mut self,
        path: &FilePath,
        kind: NodeKind,
        metadata: &std::fs::Metadata,
    ) -> FoundEntry {
        let owner = self.users.user(metadata.uid());
        if owner.is_none() && kind == NodeKind::File {
            self.unowned += 1;
        }
        FoundEntry {
            path: path.clone(),
            kind,
            group: self.users.group(metadata.gid()),
            owner,
            mode: metadata.mode() & 0o7777,
            modified: modified(metadata),
        }
    }

    /// Asks where entries go; nothing: it is time to stop.
    pub(super) async fn ask(&self, entries: Vec<FoundEntry>) -> Result<Vec<AdoptionPlace>> {
        let asked = entries.len();
        let (partition, adoption) = (self.adopter.name(), self.order.adoption);
        let places = self.adopter.head.call(BeginAdopted { partition, adoption, entries }).await?.places;
        if !places.is_empty() && places.len() != asked {
            return Err(Failure::internal(format!(
                "the head has {} for {}",
                counted(places.len() as u64, "place", "places"),
                counted(asked as u64, "entry", "entries")
            )));
        }
        Ok(places)
    }
}

/// Counts all files; `None`: it is time to stop.
fn count(mut walk: Walk, token: &Token) -> Option<Amount> {
    let mut total = Amount::default();
    while let Some(step) = walk.advance() {
        if token.is_stopped() {
            return None;
        }
        if let Step::File(found) = step {
            total.files += 1;
            total.bytes += found.metadata.size();
        }
    }
    Some(total)
}
