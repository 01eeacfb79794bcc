//! Makes the order of the shepherd, and refuses orders that no worker can carry out.

use super::Run;
use crate::{
    identity::{Identity, Kind},
    room::Shared,
    run_dir::{RunOrder, check_name},
    sandbox::Confinement,
};
use base::{Failure, Millis, Result};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{JobOrder, JobRun};

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
    if spec.command.first().is_none_or(String::is_empty)
        || spec.command.iter().any(|word| word.contains('\0'))
    {
        return Err(Failure::invalid("the command is empty or has a NUL character"));
    }
    Ok(())
}

/// What the shepherd runs.
pub(super) fn run_order(shared: &Shared, run: &Run, identity: &Identity) -> Result<RunOrder> {
    let spec = &run.order.spec;
    Ok(RunOrder {
        command: spec.command.clone(),
        environment: environment(shared, run, identity)?,
        wall: spec.resources.wall,
        grace: GRACE,
        memory_bytes: spec.resources.memory_bytes,
        cgroup: shared.config.cgroup.clone(),
        cgroup_v1: shared.config.cgroup_v1.clone(),
        processors: shared.processors.assign(run.id(), spec.resources.cpus),
        confinement: Some(Confinement {
            identity: identity.clone(),
            namespaces: shared.users.finding().namespaces,
            hidden: shared.config.hidden.clone(),
            limits: shared.config.limits,
        }),
    })
}

/// The whole environment of the job: ours only where a program cannot do without.
fn environment(shared: &Shared, run: &Run, identity: &Identity) -> Result<BTreeMap<String, String>> {
    let kind = identity.kind;
    let scratch = run.dir.scratch().display().to_string();
    let mut environment = shared.config.environment.clone();
    let user = if identity.kind == Kind::Slot { &run.order.owner } else { &identity.name };
    for (name, value) in [
        ("HOME", &*scratch),
        ("USER", user),
        ("LOGNAME", user),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", &*temporary(shared, run)),
    ] {
        environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    if shared.config.authorities.is_some() {
        environment.insert("X509_CERT_DIR".to_owned(), run.dir.certificates().display().to_string());
    }
    if let Ok(path) = std::env::var("PATH") {
        environment.insert("PATH".to_owned(), path);
    }
    for (name, value) in &run.order.spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Failure::invalid(format!("environment variable {name:?} cannot be set")));
        }
        environment.insert(name.clone(), value.clone());
    }
    let of_owner = shared.config.facility_of_owner.as_ref().filter(|_| kind == Kind::Own);
    let facility = of_owner.unwrap_or(&shared.config.facility);
    // Last: the job's identity is not for the user to choose.
    let JobRun { job, attempt } = run.id();
    for (name, value) in [
        ("BP_JOB_ID", job.to_string()),
        ("BP_ATTEMPT", attempt.to_string()),
        ("BP_SCRATCH", scratch),
        ("BP_CPUS", run.order.spec.resources.cpus.to_string()),
        ("BP_FACILITY", facility.clone()),
        ("BP_ROOT", shared.door(&run.order)),
        ("BEARER_TOKEN_FILE", run.dir.token_file().display().to_string()),
    ] {
        environment.insert(name.to_owned(), value);
    }
    Ok(environment)
}

/// Where the job keeps what it needs for a while: `/tmp` is its own, unless the kernel does not let us mount one for it.
fn temporary(shared: &Shared, run: &Run) -> String {
    let [tmp, _] = run.dir.temporary();
    if shared.users.finding().namespaces.mounts { "/tmp".to_owned() } else { tmp.display().to_string() }
}
