//! Adoption: orders to disk servers to add existing files to the namespace in place, and their reports.
//!
//! A file that is being adopted is one that is being written: it becomes visible with its content, and a disk server that ends in
//! the middle leaves nothing. It takes no room, so none is promised.

mod server;

use crate::{
    Apply, Context, Core, Topic,
    executor::core::unknown_partition,
    namespace::{find, resolve_parent},
    store::{AdoptionRow, Partition},
};
use base::{Failure, Result};
use wire::control::{
    AdoptionInfo, AdoptionStarted, AdoptionState, Adoptions, AllLeftAlone, Amount, Done, GetAdoptions,
    GetLeftAlone, LEFT_ALONE_PAGE, PartitionState, StartAdoption, StopAdoption,
};

/// A partition of the host that asks.
fn partition_of(core: &Core, context: &Context, name: &str) -> Result<Partition> {
    let partition = core.store.partition(name)?.ok_or_else(|| unknown_partition(name))?;
    context.who.require_host(&partition.server.name)?;
    Ok(partition)
}

/// The adoption that a disk server speaks of, if it is to go on.
fn running(core: &Core, partition: &str, adoption: u64) -> Result<Option<AdoptionRow>> {
    let row = core.store.adoption(partition)?;
    Ok(row.filter(|row| row.adoption == adoption && row.state == AdoptionState::Running))
}

/// The partition that an operator means.
fn meant(core: &Core, asked: Option<&String>) -> Result<String> {
    let all = core.store.partition_space()?;
    let name = match asked {
        Some(name) => name.clone(),
        None => {
            let mut usable = all.iter().filter(|(_, row)| row.state != PartitionState::Retired);
            match (usable.next(), usable.next()) {
                (Some((only, _)), None) => only.clone(),
                _ => {
                    return Err(Failure::invalid("more than one partition could adopt it")
                        .hint("name the one on whose file system it lies with --partition; `bp pool list` shows them"));
                }
            }
        }
    };
    let row = all.get(&name).ok_or_else(|| unknown_partition(&name))?;
    if row.state != PartitionState::InUse {
        let state = row.state.as_str().replace('_', " ");
        return Err(Failure::busy(format!("partition {name} is {state} and accepts no new files"))
            .hint(format!("`bp pool use {name}` changes that")));
    }
    Ok(name)
}

impl Apply for StartAdoption {
    fn apply(self, core: &mut Core, context: &Context) -> Result<AdoptionStarted> {
        context.who.require_operator("adopt files")?;
        if self.bytes_per_s == 0 {
            return Err(Failure::invalid("the speed of an adoption must be above zero"));
        }
        if !self.directory.starts_with('/') {
            return Err(Failure::invalid(format!("{:?} is not an absolute path", self.directory)));
        }
        let partition = meant(core, self.partition.as_ref())?;
        let before = core.store.adoption(&partition)?;
        if before.as_ref().is_some_and(|before| before.state == AdoptionState::Running) {
            return Err(Failure::busy(format!("partition {partition} is adopting files already"))
                .hint(format!("wait for it, or `bp adopt stop {partition}`")));
        }
        if !self.path.is_root() {
            resolve_parent(core, &context.who, &self.path)?;
            if find(core, &context.who, &self.path)?.is_some_and(|node| !node.is_directory()) {
                return Err(Failure::exists(format!("{} exists and is not a directory", self.path))
                    .hint("use another name"));
            }
        }
        core.store.forget_left_alone(&partition)?;
        let adoption = before.map_or(1, |before| before.adoption + 1);
        let row = AdoptionRow {
            adoption,
            state: AdoptionState::Running,
            directory: self.directory,
            path: self.path,
            is_moving: self.is_moving,
            bytes_per_s: self.bytes_per_s,
            started: context.now,
            updated: context.now,
            total: None,
            seen: Amount::default(),
            adopted: Amount::default(),
            left_alone: 0,
            unowned: 0,
            trouble: None,
        };
        core.store.put_adoption(&partition, &row)?;
        core.touch(Topic::Removals);
        Ok(AdoptionStarted { partition, adoption })
    }
}

impl Apply for StopAdoption {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("stop adoptions")?;
        if let Some(name) = &self.partition
            && core.store.adoption(name)?.is_none()
        {
            return Err(Failure::not_found(format!("no adoption is running on partition {name}")));
        }
        for (partition, mut row) in core.store.adoptions()? {
            let is_meant = self.partition.as_ref().is_none_or(|name| *name == partition);
            if is_meant && row.state == AdoptionState::Running {
                row.state = AdoptionState::Stopped;
                core.store.put_adoption(&partition, &row)?;
            }
        }
        Ok(Done {})
    }
}

impl Apply for GetAdoptions {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Adoptions> {
        context.who.require_operator("see adoptions")?;
        let adoptions = core.store.adoptions()?.into_iter().map(|(partition, row)| AdoptionInfo {
            partition,
            adoption: row.adoption,
            state: row.state,
            directory: row.directory,
            path: row.path,
            is_moving: row.is_moving,
            started: row.started,
            updated: row.updated,
            total: row.total,
            seen: row.seen,
            adopted: row.adopted,
            left_alone: row.left_alone,
            unowned: row.unowned,
            trouble: row.trouble,
        });
        Ok(Adoptions { adoptions: adoptions.collect() })
    }
}

impl Apply for GetLeftAlone {
    fn apply(self, core: &mut Core, context: &Context) -> Result<AllLeftAlone> {
        context.who.require_operator("see the entries that adoptions skipped")?;
        let rows = core.store.left_alone(&self.partition, self.after, LEFT_ALONE_PAGE)?;
        let next = rows.last().map(|(number, _)| *number).filter(|_| rows.len() == LEFT_ALONE_PAGE);
        Ok(AllLeftAlone { left: rows.into_iter().map(|(_, left)| left).collect(), next })
    }
}
