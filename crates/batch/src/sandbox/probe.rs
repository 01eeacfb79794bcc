//! Probes, when a worker starts, which isolation the kernel and the surrounding container permit.

use super::{Confinement, Limits, Namespaces, Plan, Report, StageFile};
use crate::{
    cgroup::{Enforced, V1Parents},
    identity::Identity,
    run_dir::{OutputFiles, RunDir, RunOrder},
};
use base::{Failure, JobId, Millis, Result};
use rustix::process::{geteuid, getpid};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use wire::control::JobRun;

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) namespaces: Namespaces,
    /// Why it is not all that there is.
    pub(crate) why: Option<String>,
}

/// Runs all stages without a job, with less and less of what they are to do until they succeed.
///
/// `directory` is the worker's; `program` is started as shepherds are.
pub(crate) fn probe(program: &Path, directory: &Path, hidden: &[PathBuf]) -> Finding {
    let all = Namespaces::all(geteuid().is_root());
    let without_proc = Namespaces { proc: false, ..all };
    let without_processes = Namespaces { processes: false, ..without_proc };
    let mut why = None;
    for namespaces in [all, without_proc, without_processes, Namespaces::default()] {
        match try_out(program, directory, hidden, namespaces) {
            Ok(()) => return Finding { namespaces, why },
            Err(failure) => why = why.or(Some(failure.what)),
        }
    }
    Finding { namespaces: Namespaces::default(), why }
}

fn try_out(program: &Path, directory: &Path, hidden: &[PathBuf], namespaces: Namespaces) -> Result<()> {
    // The directory of a run that cannot be: jobs count from 1.
    let path = directory.join("0.0");
    let failed = |cause: &std::io::Error| Failure::io("try namespaces", cause);
    let _ = crate::remove::remove_tree(directory, "0.0");
    let dir = RunDir::trial(&path, JobRun { job: JobId(0), attempt: 0 });
    let [tmp, var_tmp] = dir.temporary();
    for part in [dir.file(""), dir.scratch(), dir.credentials(), tmp, var_tmp] {
        fs::create_dir_all(part).map_err(|cause| failed(&cause))?;
    }
    let plan = Plan {
        order: RunOrder {
            command: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            files: OutputFiles::default(),
            wall: Millis(0),
            grace: Millis(0),
            memory_bytes: 0,
            cgroup: None,
            cgroup_v1: V1Parents::default(),
            processors: Vec::new(),
            confinement: None,
            mount: None,
        },
        confinement: Confinement {
            identity: Identity::own(),
            namespaces,
            hidden: hidden.to_vec(),
            limits: Limits::default(),
        },
        run_dir: path.clone(),
        shepherd: getpid().as_raw_nonzero().get(),
        enforced: Enforced::default(),
        mount: None,
    };
    let file = StageFile::make(&dir, &plan)?;
    let status = Command::new(program)
        .args(["shepherd".as_ref(), path.as_os_str(), "--stage".as_ref(), "sandbox".as_ref()])
        .stdin(file.try_clone().map_err(|cause| failed(&cause))?)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|cause| failed(&cause))?;
    let outcome = file.outcome()?;
    let _ = crate::remove::remove_tree(directory, "0.0");
    match outcome {
        Some(Report::Code(0)) => Ok(()),
        Some(Report::NotStarted(failure)) => Err(failure),
        other => Err(Failure::internal(format!("try namespaces: {status}, {other:?}"))),
    }
}
