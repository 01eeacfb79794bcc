//! Volumes that operators add. The catalogue has them at once; they can be written once their library has them.
//!
//! The row of a volume names the library that has still to take in its cartridge. The head tells the tape server of it
//! when one of its drives asks for work. A virtual library then makes the cartridge, and registers with it.

use super::room::require_drive;
use crate::{Apply, Context, Core, Topic, hosts::require_owner, store::VolumeRow};
use base::{Failure, Result, Vid, limits::LIST_ENTRIES_MAX};
use std::collections::BTreeSet;
use tracing::warn;
use wire::control::{AddVolumes, AddedVolumes, CartridgeRefused, Done, VolumeState};

/// The library that has still to take a volume in. What an operator has said of the volume since ends that.
fn expected_in(volume: &VolumeRow) -> Option<&str> {
    Some(&*volume.expected_in).filter(|library| !library.is_empty() && volume.state == VolumeState::Blank)
}

/// Volumes that the library of a drive is to take in.
pub(super) fn expected(core: &Core, drive: &str) -> Result<Vec<Vid>> {
    let drives = core.store.drives()?;
    let Some(library) = drives.iter().find(|row| row.name == drive).map(|row| &row.library) else {
        return Ok(Vec::new());
    };
    let volumes = core.store.volumes()?.into_iter().filter(|row| expected_in(row) == Some(library));
    Ok(volumes.map(|row| row.vid).take(LIST_ENTRIES_MAX).collect())
}

/// A library has a cartridge: nobody waits for it any more.
pub(super) fn note_arrived(core: &mut Core, vid: &Vid) -> Result<()> {
    if core.store.volume(vid)?.is_some_and(|row| expected_in(&row).is_some()) {
        core.store.set_expected_in(vid, "")?;
        core.store.set_volume_state(vid, VolumeState::Blank, None)?;
    }
    Ok(())
}

impl Apply for AddVolumes {
    fn apply(self, core: &mut Core, context: &Context) -> Result<AddedVolumes> {
        context.who.require_operator("add volumes")?;
        if self.vids.is_empty() || self.vids.len() > LIST_ENTRIES_MAX {
            return Err(Failure::invalid(format!("1 to {LIST_ENTRIES_MAX} volumes are added at a time")));
        }
        let library = library(core, self.library)?;
        let all = core.store.volumes()?;
        // What its cartridges hold the library says when it has them.
        let capacity = all.iter().filter(|row| row.library == library).map(|row| row.capacity).max();
        for vid in &self.vids {
            if let Some(known) = all.iter().find(|row| row.vid == *vid) {
                refuse_known(known)?;
            }
            core.store.put_volume("", vid, capacity.unwrap_or(0))?;
            core.store.set_expected_in(vid, &library)?;
            let reason = format!("waits for its cartridge in library {library}");
            core.store.set_volume_state(vid, VolumeState::Blank, Some(&reason))?;
        }
        core.touch(Topic::Tape);
        Ok(AddedVolumes { library, vids: self.vids })
    }
}

/// The library that is meant: the one that is named, or the only one.
fn library(core: &Core, named: Option<String>) -> Result<String> {
    let libraries: BTreeSet<String> = core.store.drives()?.into_iter().map(|row| row.library).collect();
    let all = || libraries.iter().cloned().collect::<Vec<_>>().join(", ");
    match named {
        Some(named) if libraries.contains(&named) => Ok(named),
        _ if libraries.is_empty() => Err(Failure::not_found("no tape library has registered")
            .hint("start a tape server: `bp host invite --role tape`")),
        Some(named) => Err(Failure::not_found(format!("no tape library {named} has registered"))
            .hint(format!("there are: {}", all()))),
        None if libraries.len() == 1 => Ok(all()),
        None => Err(Failure::invalid("there are several tape libraries")
            .hint(format!("name one of them with --library: {}", all()))),
    }
}

/// Refuses a volume that the catalogue has, unless it only waits for a cartridge.
fn refuse_known(known: &VolumeRow) -> Result<()> {
    let is_unused = known.library.is_empty() && known.state == VolumeState::Blank && known.files == 0;
    if is_unused {
        return Ok(());
    }
    let place = match &*known.library {
        "" => "in no library".to_owned(),
        library => format!("in library {library}"),
    };
    let VolumeRow { vid, state, .. } = known;
    Err(Failure::exists(format!("volume {vid} exists already: {}, {place}", state.as_str()))
        .hint("`bp volumes` lists them; labels must be unique in a facility"))
}

impl Apply for CartridgeRefused {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        require_drive(core, context, &self.drive)?;
        let drives = core.store.drives()?;
        let drive = drives.iter().find(|row| row.name == self.drive);
        let volume = core.store.volume(&self.vid)?;
        let expected = volume.as_ref().and_then(expected_in);
        if let (Some(drive), Some(library)) = (drive, expected)
            && drive.library == library
        {
            require_owner(context, &format!("library {library}"), &drive.host)?;
            let (vid, failure) = (&self.vid, &self.failure);
            warn!(%vid, library, %failure, "cannot insert the cartridge of an added volume");
            let reason = format!(
                "not in library {library}: {failure}; after repairing that, run `bp volume add {vid}`"
            );
            core.store.set_expected_in(vid, "")?;
            core.store.set_volume_state(vid, VolumeState::Blank, Some(&reason))?;
            core.touch(Topic::Tape);
        }
        Ok(Done {})
    }
}
