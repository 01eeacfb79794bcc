//! Ends the processes that a dead shepherd left behind.

use super::{LOOK_PAUSE, Run};
use crate::{
    cgroup::{Cgroup, GroupLimits},
    identity::Kind,
    room::Shared,
    run_dir::RunOrder,
    shepherd::{self, job_mount::LOG},
    tree,
};
use base::Result;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tracing::error;

/// How long the processes of a dead shepherd may resist.
const SWEEP_PATIENCE: Duration = Duration::from_secs(10);

/// How long they may before the server of their mount is ended, too, and how long that may commit what they have written.
const MOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until the mount of a job that is over has been committed; ends its server if that takes too long.
fn end_mount(run: &Run) {
    let since = Instant::now();
    loop {
        let servers = tree::printing_to(&run.dir.file(LOG));
        if servers.is_empty() {
            return;
        }
        if since.elapsed() > MOUNT_PATIENCE {
            error!(job = %run.id().job, "the mount of a dead shepherd does not end; killing it");
            for server in servers {
                let _ = tree::send(server, Signal::KILL);
            }
            return;
        }
        std::thread::sleep(LOOK_PAUSE.0);
    }
}

/// Ends the processes that a dead shepherd left behind.
pub(super) fn sweep(shared: &Shared, run: &Run) -> Result<()> {
    // Without its directory, or with one of a job's making, what we would do today.
    let order = run.dir.run_order().ok().flatten().filter(|_| run.is_there());
    let parents = order.as_ref().map_or_else(|| shared.config.cgroup_parents(), RunOrder::cgroup_parents);
    let group = Cgroup::make(parents, &shepherd::cgroup_name(&run.dir), &GroupLimits::default());
    // A slot user has this job and nothing else.
    let slot = run.identity()?.filter(|identity| identity.kind == Kind::Slot).map(|identity| identity.uid);
    let since = Instant::now();
    while since.elapsed() < SWEEP_PATIENCE {
        let mut rest = tree::of_run(&run.dir.file(""), &run.dir.scratch());
        if let Some(group) = &group {
            group.kill();
            rest.extend(group.processes().into_iter().filter_map(tree::process));
        }
        rest.extend(slot.into_iter().flat_map(tree::of_user));
        rest.retain(tree::is_living);
        if rest.is_empty() {
            end_mount(run);
            return Ok(());
        }
        if since.elapsed() > MOUNT_PATIENCE {
            // What waits for it cannot be ended else.
            rest.extend(tree::printing_to(&run.dir.file(LOG)));
        }
        for process in rest {
            let _ = tree::send(process, Signal::KILL);
        }
        std::thread::sleep(LOOK_PAUSE.0);
    }
    error!(job = %run.id().job, "cannot kill the processes of a dead shepherd; check this host");
    Ok(())
}
