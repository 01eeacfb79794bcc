//! Fetches the inputs of a run.

use super::{
    Next, Run, in_slurm,
    order::{check_order, mount_directory, run_order},
    retry::{can_pass, with_retries},
    token::renew_token,
    transfer_context,
};
use crate::{
    identity::Identity,
    room::Shared,
    stage::{self, From},
    users,
};
use base::{ErrorKind, Failure, Result};
use std::{
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};
use tracing::info;
use wire::control::{JobDialect, JobExit, JobInput, JobSpec, Usage};

/// How long inputs are tried while a disk server is away: the job holds a CPU slot meanwhile.
const FETCH_PATIENCE: Duration = Duration::from_secs(600);

/// Whom the job runs as: decided once, and kept by whoever takes the run up.
fn identify(shared: &Shared, run: &Run) -> Result<Identity> {
    if let Some(known) = run.identity()? {
        return Ok(known);
    }
    let identity = shared.users.identify(&run.order)?;
    run.dir.set_identity(&identity).inspect_err(|_| shared.users.release(&identity))?;
    info!(job = %run.id().job, attempt = run.id().attempt, user = identity.name, "job runs as this user");
    Ok(identity)
}

pub(super) fn fetch_inputs(shared: &Shared, run: &Run) -> Result<Next> {
    let cancelled = || {
        if run.is_dropped() { Ok(Next::Step) } else { run.end(JobExit::Cancelled, Usage::default()) }
    };
    let not_started = |failure| run.end(JobExit::NotStarted(failure), Usage::default());
    if run.is_cancelled() {
        return cancelled();
    }
    if let Err(failure) = check_order(&run.order) {
        return not_started(failure);
    }
    let identity = match identify(shared, run) {
        Ok(identity) => identity,
        Err(refused) if users::is_refusal(&refused) => {
            return run.end(JobExit::Refused(refused), Usage::default());
        }
        Err(failure) => return Err(failure),
    };
    run.dir.prepare(&identity, shared.config.authorities.as_deref())?;
    if let Some(slurm) = &shared.slurm
        && let ControlFlow::Break(next) = in_slurm::submit(shared, slurm, run)?
    {
        return Ok(next);
    }
    put_files(shared, run)?;
    let order = match run_order(shared, run, &identity) {
        Ok(order) => order,
        Err(failure) => return not_started(failure),
    };
    let token = match renew_token(shared, run, &identity) {
        Ok(token) => token.token,
        Err(_) if shared.is_stopping() => return Ok(Next::Stop),
        // Without the head nobody could be told how it ended, either.
        Err(failure) if can_pass(&failure) => return Err(failure),
        Err(failure) => return not_started(failure.during("ask for the token of the job")),
    };
    match fetch_all(shared, run, &identity, &token) {
        _ if run.is_cancelled() => cancelled(),
        Some(Ok(())) => run.dir.set_staged(&order).map(|()| Next::Step),
        Some(Err(failure)) => not_started(failure),
        None => Ok(Next::Stop),
    }
}

/// Writes what the job is given beside its inputs: its script, the list of its nodes.
fn put_files(shared: &Shared, run: &Run) -> Result<()> {
    let spec = &run.order.spec;
    if let Some(script) = &spec.script {
        run.dir.put_for_job(&run.dir.script(), script, 0o755)?;
    }
    if spec.dialect == JobDialect::Pbs {
        let nodes = format!("{}\n", shared.config.name).repeat(spec.resources.cpus as usize);
        run.dir.put_for_job(&run.dir.node_file(), &nodes, 0o644)?;
    }
    Ok(())
}

/// Fetches every input; `None` if the room stops or the job is cancelled.
fn fetch_all(shared: &Shared, run: &Run, identity: &Identity, token: &str) -> Option<Result<()>> {
    let interrupted = || shared.is_stopping() || run.is_cancelled();
    let (scratch, since) = (run.dir.scratch(), Instant::now());
    for (input, source) in run.order.spec.inputs.iter().zip(&run.order.inputs) {
        let target = scratch.join(&input.name);
        if run.order.spec.mount && !is_program(&run.order.spec, input) {
            if let Err(failure) = link_input(shared, run, input, &target, identity) {
                return Some(Err(failure));
            }
            continue;
        }
        let mut is_by_name = true;
        let fetched = with_retries(shared, run, since, (FETCH_PATIENCE, can_pass), &mut || {
            // In turns: where a disk server is away another one may have the file, and the head knows.
            is_by_name = !is_by_name;
            let root = shared.door(&run.order);
            let transfer = transfer_context(shared, run, token);
            let fetch = |from| stage::fetch((source, from), (&target, identity), &transfer, &interrupted);
            if !is_by_name {
                match fetch(From::Server(&run.order.outputs, &root)) {
                    Err(failure) if is_outdated(&failure) => is_by_name = true,
                    done => return done,
                }
            }
            fetch(From::Name(&root, &input.path))
        })?;
        if let Err(failure) = fetched {
            return Some(Err(failure.during(format_args!("fetch input {}", input.path))));
        }
    }
    Some(Ok(()))
}

/// Whether an input is what the job executes: that is copied, for its file in the facility need not be executable.
fn is_program(spec: &JobSpec, input: &JobInput) -> bool {
    spec.command.first().and_then(|word| word.strip_prefix("./")) == Some(&input.name)
}

/// Has an input lead to the mount of the facility. It stays pinned to the end of the job, as one that is copied.
fn link_input(
    shared: &Shared,
    run: &Run,
    input: &JobInput,
    target: &Path,
    identity: &Identity,
) -> Result<()> {
    let source = mount_directory(shared, run).join(input.path.as_str().trim_start_matches('/'));
    let link = || {
        match std::fs::remove_file(target) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        std::os::unix::fs::symlink(&source, target)?;
        identity.give_link(target)
    };
    link().map_err(|cause| Failure::io(format!("link input {}", input.path), &cause))
}

/// Whether a disk server says that the order is too old: the object has moved since, or somebody has lost a right.
fn is_outdated(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Permission)
}
