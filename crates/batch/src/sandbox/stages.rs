//! The stages between the shepherd and the job.

use super::{Plan, Report, StageFile, execute, mounts};
use crate::{
    cgroup,
    identity::{Identity, Kind},
    processors,
    run_dir::RunDir,
    shepherd::{Stage, cgroup_name, stage_command},
};
use base::{ErrorKind, Failure, Result};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        signal::SigSet,
        stat::{Mode, umask},
    },
    unistd::{Gid, Uid, setgroups, setresgid, setresuid},
};
use rustix::{
    io::Errno,
    process::{
        DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getegid, geteuid, getpid,
        getppid, getrlimit, set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal,
        setrlimit, setsid, wait,
    },
    stdio::dup2_stdin,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};
use std::{
    convert::Infallible,
    fs::{self, File},
    process::{Child, Stdio},
};

/// Files that a job may have open unless it raises its limit itself: what programs are used to.
const JOB_FILES: u64 = 1024;
/// Bits that are taken from the modes of files that a job makes, unless it says otherwise: what programs are used to.
pub(crate) const JOB_UMASK: u32 = 0o022;
/// Exit code of a stage that could not begin the job; why stands in its report.
const NOT_EXECUTED: i32 = 126;
/// Capabilities that a kernel can have.
const CAPABILITIES: u32 = 64;

fn system(what: &str) -> impl Fn(Errno) -> Failure {
    move |cause| Failure::io(what, &cause.into())
}

fn refused(what: &str) -> impl Fn(nix::Error) -> Failure {
    move |cause| Failure::io(what, &cause.into())
}

/// Runs a stage that may fail before the job begins; the shepherd is told why.
fn reporting(run: impl FnOnce(&StageFile) -> Result<()>) -> i32 {
    let Ok(file) = StageFile::of_this_stage() else {
        return i32::from(ErrorKind::Internal.exit_code());
    };
    match run(&file) {
        Ok(()) => 0,
        Err(failure) => {
            // Without the report the shepherd still sees that no job ran.
            let _ = file.report(&Report::NotStarted(failure));
            NOT_EXECUTED
        }
    }
}

/// Ends with its parent, and cannot be traced or read by the job, even one of the same user.
fn bind_to_parent() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(system("forbid to be traced"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(system("bind to the parent"))
}

fn is_child_of(parent: i32) -> bool {
    getppid().map(|pid| pid.as_raw_nonzero().get()) == Some(parent)
}

fn next_stage(plan: &Plan, stage: Stage) -> Result<Child> {
    stage_command(&plan.run_dir, stage)
        .env_clear()
        .stdin(Stdio::inherit())
        .current_dir("/")
        .spawn()
        .map_err(|cause| Failure::io(format!("start the stage {stage} of the job"), &cause))
}

/// Leaves the host's namespaces and starts init in the new ones.
pub(crate) fn sandbox() -> i32 {
    reporting(|file| {
        let plan = file.plan()?;
        // The daemon's files are for itself; the job's own follow the usual rule, and its user must get past the mount points.
        umask(Mode::from_bits_truncate(JOB_UMASK));
        // Refused only if we lead a session already.
        let _ = setsid();
        let dir = RunDir::at(&plan.run_dir)?;
        cgroup::join(plan.order.cgroup_parents(), &cgroup_name(&dir)).map_err(|cause| {
            dir.failed("join its control groups", &cause)
                .hint("the worker must be allowed to move processes into the groups that it makes")
        })?;
        leave_namespaces(&plan)?;
        bind_to_parent()?;
        if !is_child_of(plan.shepherd) {
            return Err(Failure::unavailable("the shepherd died before the job started"));
        }
        let mut init = next_stage(&plan, Stage::Init)?;
        // How the job ended stands in the file; of init there is nothing to say.
        init.wait().map(drop).map_err(|cause| Failure::io("wait for the job", &cause))
    })
}

fn leave_namespaces(plan: &Plan) -> Result<()> {
    let namespaces = plan.confinement.namespaces;
    let mut flags = CloneFlags::empty();
    if namespaces.user {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    if namespaces.mounts {
        flags |= CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    }
    if namespaces.processes {
        flags |= CloneFlags::CLONE_NEWPID;
    }
    if flags.is_empty() {
        return Ok(());
    }
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags).map_err(refused("leave the namespaces of the host"))?;
    if namespaces.user {
        // Everybody stays who he is; nobody can be added, which who is not root may not do anyway.
        let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
        write("setgroups", "deny".to_owned())
            .and_then(|()| write("uid_map", format!("{uid} {uid} 1")))
            .and_then(|()| write("gid_map", format!("{gid} {gid} 1")))
            .map_err(|cause| Failure::io("set up the user namespace", &cause))?;
        keep_capabilities()?;
    }
    Ok(())
}

/// Hands the rights in the new user namespace on to init, which arranges the mounts: who is not called root there would lose them
/// with the program that comes next. The stage `job` gives all of them up.
fn keep_capabilities() -> Result<()> {
    let failed = system("keep the capabilities in the user namespace");
    let CapabilitySets { permitted, effective, .. } = capabilities(None).map_err(&failed)?;
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable: permitted })
        .map_err(&failed)?;
    for number in 0..CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if permitted.contains(capability) {
            configure_capability_in_ambient_set(capability, true).map_err(&failed)?;
        }
    }
    Ok(())
}

/// Arranges the mounts, starts the job, and waits for its end.
pub(crate) fn init() -> i32 {
    reporting(|file| {
        let plan = file.plan()?;
        bind_to_parent()?;
        if plan.confinement.namespaces.mounts {
            mounts::arrange(&plan)?;
        }
        if !plan.confinement.namespaces.processes {
            set_child_subreaper(Some(getpid())).map_err(system("become subreaper"))?;
        }
        let job = next_stage(&plan, Stage::Job)?;
        let main = Pid::from_raw(job.id().cast_signed())
            .ok_or_else(|| Failure::internal("a process without an id was started"))?;
        let status = reap_until(main)?;
        file.report(&match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Report::Code(code),
            (None, Some(signal)) => Report::Signal(signal),
            (None, None) => return Err(Failure::internal("the job ended neither by itself nor by a signal")),
        })
    })
}

/// Takes the status of every process that loses its parent, until that of the job is there.
fn reap_until(main: Pid) -> Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return Ok(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(system("wait for the job")(cause)),
        }
    }
}

/// Becomes the job; returns only if that is not possible.
pub(crate) fn become_job() -> i32 {
    reporting(|file| {
        let plan = file.plan()?;
        let is_trial = plan.order.command.is_empty();
        prepare(&plan)?;
        if is_trial {
            return Ok(());
        }
        let Err(failure) = execute(&plan);
        Err(failure)
    })
}

/// Sets limits and gives up every right that the job is not to have.
fn prepare(plan: &Plan) -> Result<()> {
    let identity = &plan.confinement.identity;
    let parent = getppid();
    let _ = setsid();
    SigSet::empty().thread_set_mask().map_err(refused("unblock signals"))?;
    set_limits(plan)?;
    if !plan.order.processors.is_empty() {
        // Fails where a processor is gone since: then the job has those that its group leaves it.
        let _ = processors::bind_to(&plan.order.processors);
    }
    drop_bounding_set();
    if identity.kind != Kind::Own {
        become_user(identity)?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // Not known to kernels before 4.3, which have no such set either.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, none).map_err(system("give up capabilities"))?;
    set_no_new_privs(true).map_err(system("forbid new privileges"))?;
    // A job without its init is lost: it must not go on using the host. The change of the user has undone it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(system("bind to init"))?;
    if getppid() != parent {
        return Err(Failure::unavailable("the shepherd died before the job started"));
    }
    Ok(())
}

/// Takes away what root would get back by executing a program. Who is not root has nothing to take away, and may not.
fn drop_bounding_set() {
    for number in 0..CAPABILITIES {
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
}

/// For good: real, effective and saved ids, so that there is no way back.
fn become_user(identity: &Identity) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    let groups: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    let what = format!("become user {}", identity.name);
    setgroups(&groups)
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        .map_err(refused(&what))?;
    let is_done = geteuid().as_raw() == identity.uid && getegid().as_raw() == identity.gid;
    if is_done { Ok(()) } else { Err(Failure::internal(what)) }
}

fn set_limits(plan: &Plan) -> Result<()> {
    let both = |bytes: u64| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if plan.order.memory_bytes > 0 && !plan.enforced.memory {
        // Data, not address space: what is reserved and never touched does no harm.
        setrlimit(Resource::Data, both(plan.order.memory_bytes)).map_err(system("limit memory"))?;
    }
    let limits = plan.confinement.limits;
    limit_to(Resource::Fsize, limits.scratch_bytes, "limit the size of files")?;
    if !plan.enforced.processes {
        limit_to(Resource::Nproc, limits.processes, "limit processes")?;
    }
    // The daemon has raised its own; programs that use `select` break with numbers beyond this.
    let files = getrlimit(Resource::Nofile);
    let soft = files.maximum.map_or(JOB_FILES, |maximum| maximum.min(JOB_FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..files }).map_err(system("limit open files"))
}

/// Sets a limit, or the one that holds already if that is less: nobody but root may raise it.
fn limit_to(resource: Resource, wish: u64, what: &str) -> Result<()> {
    let bound = getrlimit(resource).maximum.map_or(wish, |maximum| maximum.min(wish));
    setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) }).map_err(system(what))
}

/// Enters the working directory with the rights of the job's user.
fn enter_directory(plan: &Plan) -> Result<()> {
    let Some(directory) = &plan.order.directory else {
        let scratch = RunDir::at(&plan.run_dir)?.scratch();
        return std::env::set_current_dir(&scratch)
            .map_err(|cause| Failure::io("enter the scratch directory", &cause));
    };
    std::env::set_current_dir(directory).map_err(|cause| {
        let user = &plan.confinement.identity.name;
        Failure::io(format!("enter the working directory {} as user {user}", directory.display()), &cause)
            .hint("it must exist on the worker's host, and the job's user must be allowed to enter it")
    })
}

fn execute(plan: &Plan) -> Result<Infallible> {
    enter_directory(plan)?;
    let nothing = File::open("/dev/null").map_err(|cause| Failure::io("open /dev/null", &cause))?;
    dup2_stdin(&nothing).map_err(system("give the job its standard input"))?;
    execute::execute(&plan.order.command, &plan.order.environment)
}
