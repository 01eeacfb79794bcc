//! Where the data of files are, as SRM and the WLCG Tape REST API call it.

use super::{hopeless, stages::visible, trouble};
use crate::{Apply, Context, Core, pool, store::Node};
use base::{Failure, FilePath, Result, Vid};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{
    FileLocality, FileState, GetLocalities, LOCALITIES_MAX, Localities, Locality, RequestKind, RequestState,
    VolumeState,
};

/// What can be done with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// Its files are lost.
    Broken,
    /// Not now: out of use, in no library, or no drive works there.
    Hindered,
    /// It is read when a drive is free.
    Readable,
}

impl Apply for GetLocalities {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Localities> {
        let volumes = volumes(core, context)?;
        // The API forbids to refuse a longer list: it is answered in part.
        let paths = self.paths.into_iter().take(LOCALITIES_MAX);
        let files = paths.map(|path| match locality(core, context, &path, &volumes) {
            Ok((locality, failure)) => FileLocality { path, locality: Some(locality), failure },
            Err(failure) => FileLocality { path, locality: None, failure: Some(failure) },
        });
        Ok(Localities { files: files.collect() })
    }
}

/// What can be done with each volume.
fn volumes(core: &Core, context: &Context) -> Result<BTreeMap<Vid, Access>> {
    let drives = core.store.drives()?.into_iter().filter(|row| trouble(core, row, context.now).is_none());
    let libraries: BTreeSet<String> = drives.map(|row| row.library).collect();
    let places = core.store.volume_places()?.into_iter();
    Ok(places
        .map(|(vid, state, library)| {
            let access = match state {
                VolumeState::Broken => Access::Broken,
                state if state.is_readable() && libraries.contains(&library) => Access::Readable,
                _ => Access::Hindered,
            };
            (vid, access)
        })
        .collect())
}

/// Where a file is, and why it will not come to tape, if somebody has asked for that in vain.
fn locality(
    core: &Core,
    context: &Context,
    path: &str,
    volumes: &BTreeMap<Vid, Access>,
) -> Result<(Locality, Option<Failure>)> {
    let (path, node) = visible(core, context, path)?;
    let failure = failed_archive(core, &node, &path)?;
    let locality = match pool::state_of(core, &node) {
        FileState::Writing => Locality::None,
        FileState::Live | FileState::Online => Locality::Disk,
        FileState::Both => match best_copy(core, &node, volumes)? {
            // What was on tape cannot be read there again.
            Access::Broken => Locality::Disk,
            Access::Hindered | Access::Readable => Locality::DiskAndTape,
        },
        FileState::Nearline => match best_copy(core, &node, volumes)? {
            // Its disk replica is only out of reach.
            Access::Broken if node.state().is_online() => Locality::Unavailable,
            Access::Broken => Locality::Lost,
            Access::Hindered => Locality::Unavailable,
            Access::Readable => Locality::Tape,
        },
        FileState::OutOfReach => Locality::Unavailable,
        FileState::Lost => Locality::Lost,
    };
    Ok((locality, failure))
}

/// What can be done with the copy of a file that is reached best.
fn best_copy(core: &Core, node: &Node, volumes: &BTreeMap<Vid, Access>) -> Result<Access> {
    let copies = core.store.copies(node.id)?;
    let access = copies.iter().filter_map(|copy| volumes.get(&copy.vid)).max();
    Ok(access.copied().unwrap_or(Access::Hindered))
}

fn failed_archive(core: &Core, node: &Node, path: &FilePath) -> Result<Option<Failure>> {
    if node.is_safe_on_tape() {
        return Ok(None);
    }
    let row = core.store.request_of(RequestKind::Archive, node.id)?;
    Ok(row.filter(|row| row.state == RequestState::Failed).map(|row| hopeless(&row, path)))
}
