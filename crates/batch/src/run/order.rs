//! Makes the order of the shepherd, and refuses orders that no worker can carry out.

use super::{
    Run,
    environment::environment,
    file_name::{check_path, output_path},
};
use crate::{
    cgroup::V1Parents,
    identity::Identity,
    room::Shared,
    run_dir::{MountOrder, OutputFiles, RunOrder, check_name},
    sandbox::{Confinement, Namespaces},
};
use base::{Failure, Millis, Result};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use wire::control::JobOrder;

/// From the polite to the final signal: time to write a checkpoint, not to finish.
const GRACE: Millis = Millis::from_seconds(10);

/// Refuses an order that no worker can carry out.
pub(super) fn check_order(order: &JobOrder) -> Result<()> {
    let JobOrder { spec, inputs, .. } = order;
    if spec.inputs.len() != inputs.len() {
        let (wanted, got) = (spec.inputs.len(), inputs.len());
        return Err(Failure::invalid(format!("the order has {got} sources for {wanted} inputs")));
    }
    let mut names = BTreeSet::new();
    for input in &spec.inputs {
        check_name(&input.name)?;
        if !names.insert(&input.name) {
            return Err(Failure::invalid(format!("two inputs are named {:?}", input.name)));
        }
    }
    if let Some(output) = spec.outputs.iter().find(|output| !output.has_good_name()) {
        let what = format!("output {:?} is not a path below the scratch directory", output.name);
        return Err(Failure::invalid(what));
    }
    if let Some(directory) = &spec.directory {
        check_path(Path::new(directory)).map_err(|failure| failure.during("working directory"))?;
    }
    let has_program = spec.script.is_some() || spec.command.first().is_some_and(|word| !word.is_empty());
    if !has_program || spec.command.iter().any(|word| word.contains('\0')) {
        return Err(Failure::invalid("the command is empty or has a NUL character"));
    }
    Ok(())
}

/// What the shepherd runs.
pub(super) fn run_order(shared: &Shared, run: &Run, identity: &Identity) -> Result<RunOrder> {
    let spec = &run.order.spec;
    // Nodes of a cluster have control groups and processors of their own. An ordinary user may have no namespaces there, and
    // what root may do on this host it may on a node, too.
    let is_here = shared.slurm.is_none();
    let namespaces = if is_here || rustix::process::geteuid().is_root() {
        shared.users.finding().namespaces
    } else {
        Namespaces { user: false, mounts: false, processes: false, proc: false }
    };
    Ok(RunOrder {
        command: command(run),
        environment: environment(shared, run, identity)?,
        directory: spec.directory.as_ref().map(PathBuf::from),
        files: output_files(shared, run)?,
        wall: spec.resources.wall,
        grace: GRACE,
        memory_bytes: spec.resources.memory_bytes,
        cgroup: shared.config.cgroup.clone().filter(|_| is_here),
        cgroup_v1: if is_here { shared.config.cgroup_v1.clone() } else { V1Parents::default() },
        processors: if is_here {
            shared.processors.assign(run.id(), spec.resources.cpus)
        } else {
            Vec::new()
        },
        confinement: Some(Confinement {
            identity: identity.clone(),
            namespaces,
            hidden: shared.config.hidden.clone(),
            limits: shared.config.limits,
        }),
        mount: run.order.spec.mount.then(|| mount_order(shared, run)),
    })
}

/// The mount of the facility, with the rights that the token of the job has.
fn mount_order(shared: &Shared, run: &Run) -> MountOrder {
    let id = run.id();
    MountOrder {
        facility: shared.config.facility.clone(),
        owner: run.order.owner.clone(),
        token_file: run.dir.token_file(),
        ca_file: shared.config.ca_file.clone(),
        directory: mount_directory(shared, run),
        name: format!("job {}.{}", id.job, id.attempt),
    }
}

/// Where the job finds the facility.
pub(super) fn mount_directory(shared: &Shared, run: &Run) -> PathBuf {
    shared.config.mount.clone().unwrap_or_else(|| run.dir.mount())
}

/// Program and arguments: of a script its file in the run directory.
fn command(run: &Run) -> Vec<String> {
    let spec = &run.order.spec;
    let script = spec.script.as_ref().map(|_| run.dir.script().display().to_string());
    script.into_iter().chain(spec.command.iter().cloned()).collect()
}

/// The files on this host that the job prints to.
fn output_files(shared: &Shared, run: &Run) -> Result<OutputFiles> {
    let spec = &run.order.spec;
    let path = |pattern: &Option<String>| {
        let pattern = pattern.as_deref().filter(|pattern| !pattern.is_empty());
        pattern.map(|pattern| output_path(pattern, &run.order, &shared.config.name)).transpose()
    };
    let stdout = path(&spec.stdout)?;
    // Both in one, in order, unless it says otherwise.
    let stderr = path(&spec.stderr)?.or_else(|| stdout.clone());
    Ok(OutputFiles { stdout, stderr, truncate: spec.truncate })
}
