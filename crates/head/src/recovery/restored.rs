//! Handles a catalogue that was restored to an older state.
//!
//! Files written since the backup are on disks but not in the catalogue, and their numbers may name other files now.
//! Until an operator has looked, disk servers get no order to delete anything.

use crate::{
    Apply, Context, Core, Topic,
    executor::core::unknown_partition,
    recovery::rebuild::recover,
    store::{RestoreRow, StrayRow},
    tape::is_doubtful,
};
use base::{Failure, Millis, Result, Timestamp, units::counted};
use std::collections::BTreeMap;
use tracing::warn;
use wire::control::{
    COMPARE_OBJECTS_LEN_MAX, CatalogueMark, CatalogueState, CompareCatalogue, CompareObjects, Done,
    EventType, RecoverCatalogue, RestoredInfo, SettleCatalogue, UNKNOWN_SHOWN_MAX, UnknownObjects,
    VolumeState,
};

/// A catalogue that changes says so this often: what happened in between is not missed when it goes back.
const TICK_EVERY: Millis = Millis::from_seconds(30);

/// How far the catalogue has come since the head started, and what disk servers have said about a restored one.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    ticked: Timestamp,
    /// Changes of the store at the last tick.
    changes: u64,
    unknown: BTreeMap<String, UnknownObjects>,
}

impl Progress {
    /// The system's clock was set.
    pub(crate) fn shift(&mut self, by: Millis) {
        self.ticked = self.ticked + by;
    }

    /// What was counted as unknown when it was found was taken in, because others were found.
    fn note_joined(&mut self, stray: &StrayRow) {
        // Who has not said yet, since the head was started, what lies there, says it without this one.
        let Some(said) = self.unknown.get_mut(&stray.partition) else { return };
        said.objects = said.objects.saturating_sub(1);
        said.bytes = said.bytes.saturating_sub(stray.size);
        said.recovered += 1;
        said.shown.retain(|shown| shown.object != stray.object);
    }
}

impl Core {
    /// How far the catalogue has come.
    pub(crate) fn mark(&self) -> Result<CatalogueMark> {
        let incarnation = self.facility.incarnation;
        let (epoch, tick) = self.store.progress(incarnation)?;
        Ok(CatalogueMark { epoch, incarnation, started: self.started, tick })
    }

    /// Notes now and then that the catalogue has changed.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Result<()> {
        if now - self.progress.ticked < TICK_EVERY || self.progress.changes == self.store.changes() {
            return Ok(());
        }
        let (_, tick) = self.store.progress(self.facility.incarnation)?;
        self.store.set_tick(self.facility.incarnation, tick + 1)?;
        self.progress.ticked = now;
        self.progress.changes = self.store.changes();
        Ok(())
    }

    /// The restore that nobody has settled yet.
    pub(crate) fn unsettled(&self) -> Result<Option<RestoreRow>> {
        Ok(self.store.restores()?.into_iter().find(|row| row.settled.is_none()))
    }

    /// The same for people.
    pub(crate) fn restored(&self) -> Result<Option<RestoredInfo>> {
        let Some(row) = self.unsettled()? else { return Ok(None) };
        let partitions = self.store.partition_space()?.into_keys().map(|partition| {
            let said = self.progress.unknown.get(&partition).cloned();
            said.unwrap_or(UnknownObjects { partition, ..UnknownObjects::default() })
        });
        Ok(Some(RestoredInfo {
            epoch: row.epoch,
            noticed: row.noticed,
            taken: row.taken,
            reason: row.reason,
            is_recovering: row.is_recovering,
            partitions: partitions.collect(),
            volumes: self.store.volumes()?.iter().filter(|volume| is_doubtful(volume)).count() as u64,
        }))
    }

    /// Why the catalogue is older than what a disk server saw, if it is.
    fn is_behind(&self, seen: &CatalogueMark) -> Result<Option<String>> {
        let own = self.mark()?;
        if seen.epoch < own.epoch {
            // It went back, and that is known.
            return Ok(None);
        }
        let start = self.store.head_start(seen.incarnation)?;
        let why = match start {
            _ if seen.epoch > own.epoch => format!("restore {} is unknown here", seen.epoch),
            None => format!("start {} of the head is unknown here", seen.incarnation),
            Some((at, _)) if at != seen.started => {
                format!("start {} of the head was a different one", seen.incarnation)
            }
            Some((_, tick)) if tick < seen.tick => {
                format!("changes in start {} of the head are missing", seen.incarnation)
            }
            Some(_) => return Ok(None),
        };
        Ok(Some(why))
    }

    fn require_partition(&self, context: &Context, name: &str) -> Result<()> {
        let partition = self.store.partition(name)?.ok_or_else(|| unknown_partition(name))?;
        context.who.require_host(&partition.server.name)
    }
}

impl Apply for CompareCatalogue {
    fn apply(self, core: &mut Core, context: &Context) -> Result<CatalogueState> {
        core.require_partition(context, &self.partition)?;
        let behind = self.seen.as_ref().map(|seen| core.is_behind(seen)).transpose()?.flatten();
        if let (Some(seen), Some(why)) = (self.seen, behind) {
            let reason = format!("the disk server of {} saw a newer state: {why}", self.partition);
            warn!(%reason, "the catalogue is older than its disks; nothing is deleted until `bp admin settle`");
            let epoch = core.mark()?.epoch.max(seen.epoch).saturating_add(1);
            // What was given up since the start may have been acknowledged before it.
            core.store.forget_removals()?;
            let is_recovering = core.unsettled()?.is_some_and(|restore| restore.is_recovering);
            let (noticed, taken, settled) = (context.now, None, None);
            core.say(context.now, EventType::CatalogueDoubted, &self.partition, reason.clone());
            core.store.add_restore(&RestoreRow { epoch, noticed, taken, reason, settled, is_recovering })?;
            core.store.doubt_volumes("the catalogue went back to an older state: may hold later files")?;
            core.touch(Topic::Tape);
        }
        let unsettled = core.unsettled()?;
        let is_recovering = unsettled.as_ref().is_some_and(|restore| restore.is_recovering);
        Ok(CatalogueState { mark: core.mark()?, is_settled: unsettled.is_none(), is_recovering })
    }
}

impl Apply for CompareObjects {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        core.require_partition(context, &self.partition)?;
        if self.objects.len() > COMPARE_OBJECTS_LEN_MAX {
            let what = format!("a list of {} objects is too long", self.objects.len());
            return Err(Failure::invalid(what).hint("send several"));
        }
        let objects: Vec<_> = self.objects.iter().map(|found| found.object).collect();
        let known = core.store.known_objects(&objects)?;
        let mut unknown: Vec<_> =
            self.objects.into_iter().filter(|found| !known.contains(&found.object)).collect();
        if self.is_first {
            let (partition, known) = (self.partition.clone(), UnknownObjects::default());
            core.progress.unknown.insert(partition.clone(), UnknownObjects { partition, ..known });
            core.store.forget_strays_on(&self.partition)?;
        }
        let all = unknown.len();
        if core.unsettled()?.is_some_and(|restore| restore.is_recovering) {
            let recovered = recover(core, &self.partition, unknown, context.now)?;
            recovered.joined.iter().for_each(|stray| core.progress.note_joined(stray));
            unknown = recovered.rest;
        }
        let said = core.progress.unknown.entry(self.partition.clone()).or_default();
        said.partition = self.partition;
        said.recovered += (all - unknown.len()) as u64;
        for found in unknown {
            said.objects += 1;
            said.bytes = said.bytes.saturating_add(found.size);
            if said.shown.len() < UNKNOWN_SHOWN_MAX {
                said.shown.push(found);
            }
        }
        said.is_complete = self.is_last;
        Ok(Done {})
    }
}

impl Apply for RecoverCatalogue {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("recover a restored catalogue")?;
        let Some(restore) = core.unsettled()? else {
            return Err(Failure::invalid("there is nothing to recover: the catalogue was not restored"));
        };
        // It counts once more, so that every disk server says again what it has.
        let (epoch, noticed) = (restore.epoch + 1, context.now);
        core.store.add_restore(&RestoreRow { epoch, noticed, is_recovering: true, ..restore })?;
        core.progress.unknown.clear();
        core.touch(Topic::Removals);
        Ok(Done {})
    }
}

impl Apply for SettleCatalogue {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("accept a restored catalogue")?;
        let Some(restored) = core.restored()? else {
            return Err(Failure::invalid("there is nothing to settle: the catalogue was not restored"));
        };
        if restored.unknown() != self.unknown {
            let found = counted(restored.unknown(), "object is", "objects are");
            let what = format!("{found} unknown, not {}", self.unknown);
            return Err(Failure::invalid(what).hint("check again with `bp admin settle`"));
        }
        let absent = restored.absent();
        if !absent.is_empty() && !self.without_absent {
            let what = format!("the disk servers of {} have not listed their objects yet", absent.join(", "));
            return Err(Failure::busy(what).hint("wait for them, or add --without-absent"));
        }
        let unread = core.store.volumes()?.into_iter().find(|volume| volume.state == VolumeState::Unread);
        if let Some(volume) = unread.filter(|_| !self.without_absent) {
            let what = format!("volume {} is still to be surveyed", volume.vid);
            return Err(Failure::busy(what)
                .hint("wait (`bp volumes`), or add --without-absent: then its files are not added"));
        }
        // Among what is to be deleted may be what was written since the backup.
        core.store.forget_removals()?;
        core.store.settle_restores(context.now)?;
        // What was taken in may have fewer replicas than it should, or more.
        core.sweep_again();
        core.touch(Topic::Removals);
        let what = format!("{} accepted the restored catalogue as it is", context.who.name);
        core.say(context.now, EventType::CatalogueSettled, "", what);
        Ok(Done {})
    }
}
