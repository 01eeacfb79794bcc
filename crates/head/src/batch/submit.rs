//! Submission: what is refused at once, and the rows of a new job.

mod check;

use super::{
    calls::known,
    pin_holder,
    queues::known_queue,
    refusals::{Submitter, nobody_runs},
};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, find, refuse_reserved, require, resolve_file},
    pool,
    store::{JobFileRole, JobOwner, NewJobs, Node, QueueRow},
    tape,
};
use base::{
    ErrorKind, Failure, FilePath, JobId, Millis, Result,
    limits::JOBS_WAITING_MAX,
    units::{counted, human_bytes},
};
use check::check;
use std::sync::Arc;
use wire::control::{
    ArrayRange, FileState, HoldKind, JobSpec, JobState, OutputKind, QueueSettings, Submit, Submitted,
};

/// Longest run of a job for which nobody says another.
const WALL: Millis = Millis::from_seconds(24 * 3600);

impl Apply for Submit {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(mut self, core: &mut Core, context: &Context) -> Result<Submitted> {
        let name = self.spec.queue.clone();
        let queue = match &name {
            Some(name) => known_queue(core, name)?,
            None => default_queue(core)?,
        };
        give_defaults(&mut self.spec, &queue.settings);
        check(&self.spec)?;
        if let Some(array) = &self.array {
            array.check()?;
        }
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
        let holds: &[HoldKind] = if self.spec.held { &[HoldKind::User] } else { &[] };
        let new = NewJobs {
            owner: &owner,
            spec: &self.spec,
            queue: &queue.name,
            state: JobState::Held,
            holds,
            array: self.array.as_ref(),
            key: self.key.as_deref(),
            now: context.now,
        };
        let job = core.store.insert_jobs(&new)?;
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
            for id in job.0..job.0 + self.array.as_ref().map_or(1, ArrayRange::count) {
                let mut row = known(core, JobId(id))?;
                row.state = JobState::Queued;
                core.store.save_job(&row)?;
            }
        }
        core.touch(Topic::Jobs);
        Ok(Submitted { job, count: self.array.as_ref().map_or(1, ArrayRange::count) })
    }
}

fn default_queue(core: &Core) -> Result<QueueRow> {
    let table = core.store.queues()?;
    table.queues.values().find(|row| row.is_default).cloned().ok_or_else(|| {
        Failure::not_found("the facility has no default queue").hint("name one: `bp submit --queue QUEUE`")
    })
}

/// Gives a job what it does not say: of the queue, else one slot for a day.
fn give_defaults(spec: &mut JobSpec, queue: &QueueSettings) {
    let (wish, given) = (&mut spec.resources, queue.defaults);
    if wish.cpus == 0 {
        wish.cpus = given.cpus.unwrap_or(1);
    }
    if wish.memory_bytes == 0 {
        wish.memory_bytes = given.memory_bytes.unwrap_or(0);
    }
    if wish.wall.0 == 0 {
        wish.wall = given.wall.unwrap_or_else(|| queue.ceilings.wall.unwrap_or(WALL).min(WALL));
    }
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
