//! What operators see of mounts.

use super::{load, opens::shown_path, standing};
use crate::{Apply, Context, Core};
use ::share::{Lock, Stage};
use base::{FileId, Result};
use wire::control::{GetMounts, LockHolder, MountInfo, Mounts, ShareGrantInfo, SharedFileInfo};

/// Files that are shown.
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
        let mounts = mounts.collect();
        let mut files = Vec::new();
        for (file, shared) in core.store.shared_files(FileId(0), FILES_MAX)? {
            let Some(node) = core.store.node(file)? else { continue };
            let is_quiet =
                shared.grants.grants().is_empty() && shared.posix.is_empty() && shared.flock.is_empty();
            if is_quiet || !is_shown(&node.owner) {
                continue;
            }
            let grants = shared.grants.grants().iter().map(|grant| ShareGrantInfo {
                client: grant.client,
                generation: grant.generation,
                mode: grant.mode,
                is_recalled: grant.stage != Stage::Held,
            });
            let locks = shared.posix.locks().iter().chain(shared.flock.locks());
            let holder = |lock: &Lock| LockHolder {
                client: lock.client,
                pid: lock.pid,
                mode: lock.mode,
                range: lock.range,
            };
            let (grants, locks) = (grants.collect(), locks.map(holder).collect());
            files.push(SharedFileInfo { path: shown_path(core, &node)?, grants, locks });
        }
        Ok(Mounts { mounts, files })
    }
}
