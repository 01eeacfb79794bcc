//! What operators see of mounts.

use super::{load, opens::shown_path, shared_file, standing, waits};
use crate::{Apply, Context, Core, store::SharedFile};
use ::share::{ClientId, Lock, Stage};
use base::{FileId, Result};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{
    GetMounts, LockHolder, MountInfo, Mounts, OpenInfo, ShareGrantInfo, ShareWait, SharedFileInfo,
};

/// Files that are shown; those that somebody waits for come first.
const FILES_MAX: usize = 1000;

impl Apply for GetMounts {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Mounts> {
        load(core, context.now)?;
        let is_shown = |user: &str| context.who.is_operator || context.who.name == user;
        let table = core.store.mounts()?;
        let own = table.iter().filter(|(_, row)| is_shown(&row.user));
        let mounts = own.map(|(client, row)| {
            let session = standing(core, *client);
            MountInfo {
                client: *client,
                user: row.user.clone(),
                host: row.host.clone(),
                path: row.path.clone(),
                since: row.since,
                renewed: session.renewed,
                is_live: !session.is_lease_over(context.now),
            }
        });
        let mounts: Vec<_> = mounts.collect();
        let own = mounts.iter().map(|mount| mount.client).collect();
        let mut files = Vec::new();
        for (file, shared) in used(core, context)? {
            let Some(node) = core.store.node(file)? else { continue };
            let waits = waits::of_file(core, file, context.now)?;
            if is_shown(&node.owner) || uses(&shared, &waits, &own) {
                files.push(info(shown_path(core, &node)?, shared, waits));
            }
        }
        Ok(Mounts { now: context.now, mounts, files })
    }
}

/// Files that somebody waits for, then others in use.
fn used(core: &mut Core, context: &Context) -> Result<BTreeMap<FileId, SharedFile>> {
    let mut files = BTreeMap::new();
    for file in waits::files(core, context.now).into_iter().take(FILES_MAX) {
        files.insert(file, shared_file(core, file)?);
    }
    for (file, shared) in core.store.shared_files(FileId(0), FILES_MAX)? {
        let is_quiet = shared.grants.grants().is_empty()
            && shared.posix.is_empty()
            && shared.flock.is_empty()
            && shared.opens.is_empty();
        if !is_quiet && files.len() < FILES_MAX {
            files.insert(file, shared);
        }
    }
    Ok(files)
}

/// Whether one of these mounts uses a file, or waits for it.
fn uses(shared: &SharedFile, waits: &[ShareWait], mounts: &BTreeSet<ClientId>) -> bool {
    let grants = shared.grants.grants().iter().map(|grant| grant.client);
    let locks = shared.posix.locks().iter().chain(shared.flock.locks()).map(|lock| lock.client);
    let others = waits.iter().map(|wait| wait.client).chain(shared.opens.iter().map(|open| open.client));
    grants.chain(locks).chain(others).any(|client| mounts.contains(&client))
}

fn info(path: base::FilePath, shared: SharedFile, waits: Vec<ShareWait>) -> SharedFileInfo {
    let grants = shared.grants.grants().iter().map(|grant| ShareGrantInfo {
        client: grant.client,
        generation: grant.generation,
        mode: grant.mode,
        is_recalled: grant.stage != Stage::Held,
    });
    let locks = shared.posix.locks().iter().chain(shared.flock.locks());
    let holder =
        |lock: &Lock| LockHolder { client: lock.client, pid: lock.pid, mode: lock.mode, range: lock.range };
    let opens = shared.opens.iter().map(|open| OpenInfo {
        client: open.client,
        readers: open.readers,
        writers: open.writers,
    });
    let (grants, locks, opens) = (grants.collect(), locks.map(holder).collect(), opens.collect());
    SharedFileInfo { path, grants, locks, opens, waits }
}
