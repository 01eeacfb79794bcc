//! Calls of users on jobs.

use super::{
    finish, pin_holder, reason,
    refusals::{Submitter, nobody_runs},
    shares::place,
    slots_text,
};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, find, refuse_reserved, require, resolve_file},
    pool,
    store::{JobFileRole, JobOwner, JobRow, Node},
    tape,
    waiters::Awaited,
};
use base::{
    ErrorKind, Failure, FilePath, JobId, Result,
    limits::{
        CPU_SLOTS_MAX, JOB_FILES_MAX, JOB_NAME_BYTES_MAX, JOB_WORD_BYTES_MAX, JOB_WORDS_BYTES_MAX,
        JOBS_WAITING_MAX,
    },
    units::{counted, human_bytes},
};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};
use wire::control::{
    AwaitJobs, AwaitedJobs, CancelJob, Done, FileState, JobInfo, JobList, JobLog, JobSpec, JobState, JobText,
    Jobs, OutputKind, Submit, Submitted, is_plain_name,
};

/// Jobs that one listing shows unless they are named.
const LIST_MAX: usize = 1000;

impl Apply for Submit {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Submitted> {
        check(&self.spec)?;
        let is_facility_owner = context.who.is_operator && context.who.name == core.facility.owner;
        check_workers(core, &self.spec)?;
        if let Some(refused) =
            nobody_runs(core, &Submitter { name: &context.who.name, is_facility_owner }, context.now)?
        {
            return Err(refused);
        }
        if core.store.active_jobs_len()? >= JOBS_WAITING_MAX {
            return Err(
                Failure::busy(format!("{JOBS_WAITING_MAX} jobs are waiting")).hint("submit again later")
            );
        }
        let inputs = inputs(core, context, &self.spec)?;
        check_outputs(core, context, &self.spec)?;
        let who = &context.who;
        let owner = JobOwner { name: &who.name, groups: &who.groups, is_facility_owner };
        let job = core.store.insert_job(&owner, &self.spec, context.now)?;
        for (index, node) in inputs.iter().enumerate() {
            core.store.put_job_file(job, JobFileRole::Input, index, node.id)?;
            // Pinned before it is online: nothing can evict it between its recall and the job's start.
            core.store.put_pin(node.id, &pin_holder(job), None)?;
            if pool::state_of(core, node) == FileState::Nearline {
                tape::request_recall(core, context, node)?;
            }
        }
        // What is out of reach is waited for, as later when it goes out of reach.
        if inputs.iter().all(|node| pool::state_of(core, node) != FileState::Nearline) {
            let mut row = known(core, job)?;
            row.state = JobState::Queued;
            core.store.save_job(&row)?;
        }
        core.touch(Topic::Jobs);
        Ok(Submitted { job })
    }
}

fn check(spec: &JobSpec) -> Result<()> {
    if spec.command.first().is_none_or(String::is_empty) {
        return Err(Failure::invalid("job has no command").hint("`bp submit … -- PROGRAM ARGUMENT…`"));
    }
    check_words(spec)?;
    if spec.command.iter().chain(spec.environment.values()).any(|text| text.contains('\0')) {
        return Err(Failure::invalid("command and environment may not contain NUL"));
    }
    if let Some(name) = spec.environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(Failure::invalid(format!("{name:?} is not a name for an environment variable")));
    }
    if spec.resources.cpus == 0 || spec.resources.wall.0 <= 0 {
        return Err(Failure::invalid("a job needs at least one CPU slot and a wall limit above zero"));
    }
    if spec.resources.cpus > CPU_SLOTS_MAX {
        return Err(Failure::invalid(format!("a job cannot have more than {CPU_SLOTS_MAX} CPU slots")));
    }
    if spec.inputs.len() + spec.outputs.len() > JOB_FILES_MAX {
        return Err(Failure::invalid(format!("job names more than {JOB_FILES_MAX} files")));
    }
    check_names(spec)?;
    check_targets(spec)
}

/// Refuses what no kernel takes, and names that make lists unreadable.
fn check_words(spec: &JobSpec) -> Result<()> {
    if spec.name.len() > JOB_NAME_BYTES_MAX || spec.name.contains(char::is_control) {
        return Err(Failure::invalid(format!(
            "the job's name has {} bytes or control characters; it may have {JOB_NAME_BYTES_MAX} bytes",
            spec.name.len()
        ))
        .hint("give it a short one: `bp submit --name NAME`"));
    }
    let variables = spec.environment.iter().map(|(name, value)| name.len() + 1 + value.len());
    let lengths = || spec.command.iter().map(String::len).chain(variables.clone());
    if let Some(long) = lengths().find(|length| *length > JOB_WORD_BYTES_MAX) {
        return Err(Failure::invalid(format!(
            "a word of the command or a variable of the environment has {long} bytes; the kernel takes \
                {JOB_WORD_BYTES_MAX}"
        ))
        .hint("put it in a file, and name that as an input"));
    }
    let all: usize = lengths().sum();
    if all > JOB_WORDS_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "command and environment have {all} bytes; a job may have {JOB_WORDS_BYTES_MAX}"
        ))
        .hint("put them in a file, and name that as an input"));
    }
    Ok(())
}

fn check_names(spec: &JobSpec) -> Result<()> {
    let mut names = HashSet::new();
    for input in &spec.inputs {
        if !is_plain_name(&input.name) {
            return Err(Failure::invalid(format!("{:?} is not a plain file name", input.name)));
        }
    }
    for output in &spec.outputs {
        if !output.has_good_name() {
            return Err(Failure::invalid(format!(
                "output {:?} is not a path below the scratch directory",
                output.name
            ))
            .hint("plain names with single slashes between them; a directory ends with one"));
        }
    }
    let inputs = spec.inputs.iter().map(|input| &input.name);
    for name in inputs.chain(spec.outputs.iter().map(|output| &output.name)) {
        if !names.insert(name) {
            return Err(Failure::invalid(format!("two files of the job have the name {name:?}"))
                .hint("rename one of them: PATH:NAME"));
        }
    }
    Ok(())
}

/// Refuses outputs of which one would take the place of another.
fn check_targets(spec: &JobSpec) -> Result<()> {
    let mut files = BTreeSet::new();
    for output in spec.outputs.iter().filter(|output| output.kind() == OutputKind::File) {
        if !files.insert(&output.path) {
            return Err(Failure::invalid(format!(
                "two outputs are stored at {}: one would be lost",
                output.path
            ))
            .hint("give each output a path of its own"));
        }
    }
    for output in &spec.outputs {
        let mut above = output.path.parent();
        while let Some(path) = above {
            if files.contains(&path) {
                return Err(Failure::invalid(format!(
                    "output {} is a file, and output {} lies below it",
                    path, output.path
                )));
            }
            above = path.parent();
        }
        if output.kind() != OutputKind::File && files.contains(&output.path) {
            return Err(Failure::invalid(format!("output {} is a file and a directory", output.path)));
        }
    }
    Ok(())
}

fn check_workers(core: &Core, spec: &JobSpec) -> Result<()> {
    let workers = core.store.workers()?;
    let wish = spec.resources;
    let fits = workers.iter().any(|worker| wish.cpus <= worker.cpus && wish.memory_bytes <= worker.memory);
    if workers.is_empty() || fits {
        return Ok(());
    }
    let cpus = workers.iter().map(|worker| worker.cpus).max().unwrap_or(0);
    let memory = workers.iter().map(|worker| worker.memory).max().unwrap_or(0);
    Err(Failure::invalid(format!(
        "no worker has {} and {} of memory",
        counted(wish.cpus.into(), "CPU slot", "CPU slots"),
        human_bytes(wish.memory_bytes)
    ))
    .hint(format!(
        "the largest has {} and {}",
        counted(cpus.into(), "slot", "slots"),
        human_bytes(memory)
    )))
}

/// All inputs, or why the job cannot ever run.
fn inputs(core: &Core, context: &Context, spec: &JobSpec) -> Result<Vec<Arc<Node>>> {
    let mut nodes = Vec::with_capacity(spec.inputs.len());
    for input in &spec.inputs {
        let node =
            resolve_file(core, &context.who, &input.path).map_err(|failure| failure.during("input"))?;
        require(core, &context.who, &node, Right::Read, &input.path)?;
        match node.state() {
            FileState::Writing => {
                return Err(Failure::locked(format!("input {} is being written", input.path))
                    .hint("submit again when its writer has closed it"));
            }
            FileState::Lost => {
                return Err(Failure::corrupt(format!(
                    "input {} has no disk replica and no tape copy",
                    input.path
                )));
            }
            _ => nodes.push(node),
        }
    }
    Ok(nodes)
}

/// Refuses outputs that could not be stored after hours of work.
fn check_outputs(core: &Core, context: &Context, spec: &JobSpec) -> Result<()> {
    for output in &spec.outputs {
        let path = &output.path;
        let is_file = output.kind() == OutputKind::File;
        let Some(parent) = path.parent() else {
            if is_file {
                return Err(Failure::invalid("output / is a directory"));
            }
            continue;
        };
        // What cannot be stored is said now, before a CPU has worked for it.
        let first = path.names().next().unwrap_or_default();
        refuse_reserved(&FilePath::root().join(first)?)?;
        // Missing directories are made when the output is stored.
        let directory = match find(core, &context.who, &parent) {
            Err(failure) if failure.kind != ErrorKind::NotFound => return Err(failure.during("output")),
            found => found.unwrap_or_default(),
        };
        if let Some(directory) = directory {
            if !directory.is_directory() {
                let what = format!("output {path}: {parent} is not a directory");
                return Err(Failure::new(ErrorKind::NotDirectory, what));
            }
            require(core, &context.who, &directory, Right::Write, path)?;
            match core.store.child(directory.id, path.name())? {
                Some(node) if is_file && node.is_directory() => {
                    return Err(Failure::invalid(format!("output {path} is a directory")));
                }
                Some(node) if !is_file && !node.is_directory() => {
                    let what = format!("output {} is not one file, and {path} is a file", output.name);
                    return Err(Failure::new(ErrorKind::NotDirectory, what));
                }
                Some(_) if is_file && !spec.replace => return Err(exists(path)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The refusal of an output that would replace a file.
pub(super) fn exists(path: &FilePath) -> Failure {
    Failure::exists(format!("output {path} exists"))
        .hint("name another path, remove it, or allow to replace it: `bp submit --replace`")
}

pub(super) fn known(core: &Core, id: JobId) -> Result<JobRow> {
    core.store.job(id)?.ok_or_else(|| Failure::not_found(format!("job {id} does not exist")))
}

fn infos(core: &Core, rows: Vec<JobRow>, context: &Context) -> Result<Vec<JobInfo>> {
    let (slots, is_one) = (slots_text(core, context.now)?, rows.len() == 1);
    let info = |row: JobRow| {
        let mut why = reason(core, &row, &slots, context.now)?;
        // Of many it would cost a walk through the queue for each.
        if is_one && waits_for_slots(core, &row, context)? {
            let place = place(core, &row, context.now)?;
            why = why.map(|why| format!("{why}; {place}"));
        }
        let info = row.info(why);
        Ok(if is_owner(&row, context) { info } else { without_environment(info) })
    };
    rows.into_iter().map(info).collect()
}

/// Whether a job waits for nothing but its turn.
fn waits_for_slots(core: &Core, job: &JobRow, context: &Context) -> Result<bool> {
    let is_held_back = core.live.jobs_held_back.contains(&job.id);
    Ok(job.state == JobState::Queued
        && !is_held_back
        && nobody_runs(core, &job.into(), context.now)?.is_none())
}

/// A job as others may see it: what is in its environment may be secret.
pub(crate) fn without_environment(mut info: JobInfo) -> JobInfo {
    info.spec.environment.clear();
    info
}

fn named(core: &Core, ids: &[JobId], context: &Context) -> Result<Vec<JobInfo>> {
    let rows: Result<Vec<_>> = ids.iter().map(|id| known(core, *id)).collect();
    infos(core, rows?, context)
}

impl Apply for Jobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobList> {
        if !self.ids.is_empty() {
            return Ok(JobList { jobs: named(core, &self.ids, context)? });
        }
        let rows = if self.active_only {
            let mut rows = core.store.active_jobs()?;
            rows.reverse();
            rows.truncate(LIST_MAX);
            rows
        } else {
            core.store.newest_jobs(LIST_MAX)?
        };
        Ok(JobList { jobs: infos(core, rows, context)? })
    }
}

impl Apply for AwaitJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<AwaitedJobs> {
        let jobs = named(core, &self.ids, context)?;
        for job in jobs.iter().filter(|job| !job.state.is_over()) {
            core.awaits(Awaited::Job(job.id));
        }
        Ok(AwaitedJobs { jobs })
    }
}

fn is_owner(job: &JobRow, context: &Context) -> bool {
    context.who.is_operator || context.who.name == job.owner
}

pub(super) fn require_owner(job: &JobRow, context: &Context, verb: &str) -> Result<()> {
    if is_owner(job, context) {
        return Ok(());
    }
    Err(Failure::permission(format!(
        "user {} may not {verb} job {} of {}",
        context.who.name, job.id, job.owner
    )))
}

impl Apply for CancelJob {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let mut job = known(core, self.job)?;
        require_owner(&job, context, "cancel")?;
        match job.state {
            state if state.is_over() => {
                return Err(Failure::invalid(format!("job {} is {}", job.id, state.as_str())));
            }
            JobState::Running => {
                job.is_cancelled = true;
                core.store.save_job(&job)?;
                core.touch(Topic::Jobs);
            }
            _ => {
                let by = format!("cancelled by {}", context.who.name);
                finish(core, context, job, JobState::Cancelled, Some(by))?;
            }
        }
        Ok(Done {})
    }
}

impl Apply for JobLog {
    fn apply(self, core: &mut Core, context: &Context) -> Result<JobText> {
        let job = known(core, self.job)?;
        require_owner(&job, context, "read the output of")?;
        Ok(core.store.job_text(self.job)?.unwrap_or_default())
    }
}
