//! Submission: what is refused at once, and the rows of a new job.

mod check;

use super::{
    calls::known,
    pin_holder, ready,
    refusals::{Submitter, nobody_runs},
    routes::route,
};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, find, refuse_reserved, require, resolve_file},
    pool,
    store::{DependencyRow, DependencyState, JobFileRole, JobOwner, NewJobs, Node},
    tape,
};
use base::{ErrorKind, Failure, FilePath, JobId, Result, limits::JOBS_WAITING_MAX};
use check::check;
use std::sync::Arc;
use wire::control::{
    ArrayRange, DependencyKind, FileState, HoldKind, JobDependency, JobSpec, JobState, MOUNT_LABEL,
    OutputKind, PRIORITY, SUBMIT_KEY_BYTES_MAX, Submit, Submitted,
};

/// Jobs that one waits for: a look at all of them takes some milliseconds.
const DEPENDENCIES_MAX: usize = 10_000;

impl Apply for Submit {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(mut self, core: &mut Core, context: &Context) -> Result<Submitted> {
        if let Some(key) = &self.key {
            check_key(key)?;
            // Its acknowledgement was lost: it was submitted.
            if let Some((job, count)) = core.store.job_of_key(&context.who.name, key)? {
                return Ok(Submitted { job, count });
            }
        }
        if let Some(array) = &self.array {
            array.check()?;
        }
        let queue = route(core, &mut self.spec)?;
        if self.spec.mount && !self.spec.constraints.iter().any(|label| label == MOUNT_LABEL) {
            self.spec.constraints.push(MOUNT_LABEL.to_owned());
        }
        check(&self.spec, self.array.is_some())?;
        check_priority(context, self.spec.priority)?;
        let count = self.array.as_ref().map_or(1, ArrayRange::count);
        require_capacity(core, context, count)?;
        let inputs = inputs(core, context, &self.spec)?;
        check_outputs(core, context, &self.spec)?;
        let dependencies = resolve(core, &self.spec.dependencies, self.array.is_some())?;
        let job = insert(core, context, &self, (&queue, dependencies.is_empty(), &inputs))?;
        put_dependencies(core, job, dependencies)?;
        let row = known(core, job)?;
        if row.state == JobState::Held {
            for ended in ready::settle_all(core, context.now, &row)? {
                ready::look_at_dependents(core, context.now, ended)?;
            }
        }
        core.touch(Topic::Jobs);
        Ok(Submitted { job, count })
    }
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > SUBMIT_KEY_BYTES_MAX || key.contains(char::is_control) {
        return Err(Failure::invalid(format!(
            "the key of a submission has {} bytes; it may have 1 to {SUBMIT_KEY_BYTES_MAX}, none of them a control \
                character",
            key.len()
        )));
    }
    Ok(())
}

/// Refuses priorities that only operators give.
pub(super) fn check_priority(context: &Context, priority: i32) -> Result<()> {
    if !PRIORITY.contains(&priority) {
        return Err(Failure::invalid(format!("priority {priority} is not between -1024 and 1023")));
    }
    if priority > 0 {
        context.who.require_operator("raise the priority of jobs above 0")?;
    }
    Ok(())
}

/// Refuses jobs that nobody would run, and more than may wait.
fn require_capacity(core: &Core, context: &Context, count: u64) -> Result<()> {
    let is_facility_owner = context.who.is_operator && context.who.name == core.facility.owner;
    let who = Submitter { name: &context.who.name, is_facility_owner };
    if let Some(refused) = nobody_runs(core, &who, context.now)? {
        return Err(refused);
    }
    if core.store.active_jobs_len()? + count > JOBS_WAITING_MAX as u64 {
        let what = format!("{JOBS_WAITING_MAX} jobs may wait, and {count} more would be too many");
        return Err(Failure::busy(what).hint("submit again later"));
    }
    Ok(())
}

/// Adds the rows, and pins the inputs.
fn insert(
    core: &mut Core,
    context: &Context,
    call: &Submit,
    (queue, is_free, inputs): (&str, bool, &[Arc<Node>]),
) -> Result<JobId> {
    let (who, spec) = (&context.who, &call.spec);
    let is_facility_owner = who.is_operator && who.name == core.facility.owner;
    let owner = JobOwner { name: &who.name, groups: &who.groups, is_facility_owner };
    let holds: &[HoldKind] = if spec.held { &[HoldKind::User] } else { &[] };
    // What is out of reach is waited for, as later when it goes out of reach.
    let is_online = inputs.iter().all(|node| pool::state_of(core, node) != FileState::Nearline);
    let has_begun = spec.begin.is_none_or(|begin| begin <= context.now);
    let is_ready = is_free && is_online && has_begun && holds.is_empty();
    let job = core.store.insert_jobs(&NewJobs {
        owner: &owner,
        spec,
        queue,
        state: if is_ready { JobState::Queued } else { JobState::Held },
        holds,
        array: call.array.as_ref(),
        key: call.key.as_deref(),
        now: context.now,
    })?;
    for (index, node) in inputs.iter().enumerate() {
        core.store.put_job_file(job, JobFileRole::Input, index, node.id)?;
        // Pinned before it is online: nothing can evict it between its recall and the job's start.
        core.store.put_pin(node.id, &pin_holder(job), None)?;
        if pool::state_of(core, node) == FileState::Nearline {
            tape::request_recall(core, context, node)?;
        }
    }
    Ok(job)
}

/// The jobs that dependencies name: of each whether it is a whole array.
pub(super) type Resolved = Vec<(DependencyKind, Option<JobId>, bool)>;

/// Looks up what a job waits for. It waits for jobs that exist only, so no two wait for each other.
pub(super) fn resolve(core: &Core, dependencies: &[JobDependency], is_array: bool) -> Result<Resolved> {
    let mut resolved = Resolved::new();
    for dependency in dependencies {
        let kind = dependency.kind;
        let Some(selection) = &dependency.job else {
            if kind != DependencyKind::Singleton {
                return Err(Failure::invalid(format!("dependency {} names no job", kind.as_str())));
            }
            resolved.push((kind, None, false));
            continue;
        };
        if kind == DependencyKind::Singleton {
            return Err(Failure::invalid("dependency singleton names a job; it takes none"));
        }
        let on = known(core, selection.job).map_err(|failure| failure.during("dependency"))?;
        let is_whole = on.array.is_some_and(|element| element.array == on.id) && selection.indices.is_empty();
        if kind == DependencyKind::AfterCorr && !(is_whole && is_array) {
            return Err(Failure::invalid("dependency aftercorr is of one array on another, as a whole"));
        }
        if is_whole {
            resolved.push((kind, Some(on.id), true));
        } else {
            let ids = super::list::selected(core, selection)?;
            resolved.extend(ids.into_iter().map(|id| (kind, Some(id), false)));
        }
        if resolved.len() > DEPENDENCIES_MAX {
            return Err(Failure::invalid(format!("a job may depend on {DEPENDENCIES_MAX} others"))
                .hint("name a whole array, which counts as one"));
        }
    }
    Ok(resolved)
}

/// Writes what a job waits for.
pub(super) fn put_dependencies(core: &Core, job: JobId, resolved: Resolved) -> Result<()> {
    for (index, (kind, on_job, is_whole)) in (0..).zip(resolved) {
        let state = DependencyState::Waiting;
        let mut row = DependencyRow { job, index, kind, on_job, is_whole, state };
        let is_decided_later = kind == DependencyKind::Singleton || kind == DependencyKind::AfterCorr;
        if !is_decided_later {
            row.state = ready::state_of(core, &known(core, job)?, &row)?;
        }
        core.store.put_dependency(&row)?;
    }
    Ok(())
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
