//! The environment of a job: ours only where a program cannot do without.

use super::{Run, dialect, order::mount_directory};
use crate::{
    identity::{self, Identity, Kind},
    room::Shared,
};
use base::{Failure, Result};
use std::collections::BTreeMap;
use wire::control::{JobDialect, JobRun};

/// All of it.
pub(super) fn environment(
    shared: &Shared,
    run: &Run,
    identity: &Identity,
) -> Result<BTreeMap<String, String>> {
    let kind = identity.kind;
    let scratch = run.dir.scratch().display().to_string();
    let mut environment = shared.config.environment.clone();
    let home = home(run, identity).unwrap_or_else(|| scratch.clone());
    let user = if identity.kind == Kind::Slot { &run.order.owner } else { &identity.name };
    for (name, value) in [
        ("HOME", &*home),
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
    if run.order.spec.mount {
        environment.insert("BP_MOUNT".to_owned(), mount_directory(shared, run).display().to_string());
    }
    if let Some(array) = run.order.array {
        environment.insert("BP_ARRAY_ID".to_owned(), array.element.array.to_string());
        environment.insert("BP_ARRAY_INDEX".to_owned(), array.element.index.to_string());
    }
    let node_file = run.dir.node_file().display().to_string();
    let Identity { uid, gid, .. } = *identity;
    let host = dialect::RunHost { node: &shared.config.name, user, uid, gid, node_file: &node_file };
    dialect::set_variables(&mut environment, &run.order, &host);
    Ok(environment)
}

/// The home directory of the job's user, which jobs of other systems expect; `None`: the scratch directory.
fn home(run: &Run, identity: &Identity) -> Option<String> {
    if run.order.spec.dialect == JobDialect::None || identity.kind == Kind::Slot {
        return None;
    }
    identity::home(identity.uid)
}

/// Where the job keeps what it needs for a while: `/tmp` is its own, unless the kernel does not let us mount one for it.
fn temporary(shared: &Shared, run: &Run) -> String {
    let [tmp, _] = run.dir.temporary();
    if shared.users.finding().namespaces.mounts { "/tmp".to_owned() } else { tmp.display().to_string() }
}
