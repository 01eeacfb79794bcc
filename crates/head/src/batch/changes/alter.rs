//! Changes of what a job asks for.

use super::each;
use crate::{
    Apply, Context, Core, Topic,
    batch::{
        calls::{known, require_owner},
        deliveries::deliver,
        queues::known_queue,
        ready, routes,
        submit::{Resolved, check_priority, put_dependencies, resolve},
    },
    store::JobRow,
};
use base::{Failure, Result, limits::JOB_NAME_BYTES_MAX};
use wire::control::{
    AlterJobs, Delivered, JobChange, JobDependency, JobOutcomes, JobSelection, JobState, SELECTIONS_MAX,
};

impl Apply for AlterJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        if let Some(name) = &self.change.name
            && (name.len() > JOB_NAME_BYTES_MAX || name.contains(char::is_control))
        {
            return Err(Failure::invalid(format!(
                "a job's name has {JOB_NAME_BYTES_MAX} bytes at most, of one line"
            )));
        }
        if self.change.dependencies.is_some() {
            self.jobs.iter().take(SELECTIONS_MAX).try_for_each(|jobs| require_whole(core, jobs))?;
        }
        each(core, context, self.jobs, |core, context, job| alter(core, context, job, &self.change))
    }
}

/// Refuses other dependencies for a part of an array: its elements share them.
fn require_whole(core: &Core, jobs: &JobSelection) -> Result<()> {
    // What does not exist is told as the outcome of its selection.
    let array = core.store.job(jobs.job)?.and_then(|job| job.array).map(|element| element.array);
    match array.filter(|array| *array != jobs.job || !jobs.indices.is_empty()) {
        None => Ok(()),
        Some(array) => Err(Failure::invalid(format!(
            "{jobs} is a part of array {array}, whose elements wait for the same jobs"
        ))
        .hint(format!("change it for the whole array: name job {array}"))),
    }
}

fn alter(core: &mut Core, context: &Context, mut job: JobRow, change: &JobChange) -> Result<()> {
    require_owner(&job, context, "alter")?;
    let is_running = job.state == JobState::Running;
    if job.state.is_over() || job.state == JobState::Archiving {
        return Err(Failure::invalid(format!("job {} is {}", job.id, job.state.as_str())));
    }
    let only_times = JobChange { wall: None, deadline: None, running_max: None, ..change.clone() };
    if is_running && only_times != JobChange::default() {
        return Err(Failure::invalid(format!(
            "job {} runs: only its wall limit and deadline can change",
            job.id
        )));
    }
    check_resources(core, context, &job, change)?;
    if change.running_max.is_some() && job.array.is_none() {
        return Err(Failure::invalid(format!("job {} is not of an array", job.id)));
    }
    let resolved =
        change.dependencies.as_ref().map(|dependencies| older(core, dependencies, &job)).transpose()?;
    if let (Some(wall), true) = (change.wall, is_running) {
        deliver(core, &job, Delivered::Wall(wall), context.now)?;
    }
    // Nothing is refused from here on: what is refused is told as an outcome, and must have changed nothing.
    apply_to(&mut job, change);
    if let (Some(resolved), Some(dependencies)) = (resolved, &change.dependencies) {
        core.store.set_spec_dependencies(job.shared(), dependencies)?;
        core.store.delete_dependencies(job.shared())?;
        put_dependencies(core, job.shared(), resolved)?;
    }
    core.store.save_job(&job)?;
    core.touch(Topic::Jobs);
    if let Some(most) = change.running_max {
        core.store.set_running_max(job.shared(), Some(most).filter(|most| *most > 0))?;
    }
    let job = known(core, job.id)?;
    if let Some(ended) = ready::settle(core, context.now, job)? {
        ready::look_at_dependents(core, context.now, ended)?;
    }
    Ok(())
}

/// The jobs that a job is to wait for: older ones, so that no two wait for each other.
fn older(core: &Core, dependencies: &[JobDependency], job: &JobRow) -> Result<Resolved> {
    let resolved = resolve(core, dependencies, job.array.is_some())?;
    if resolved.iter().any(|(_, on, _)| on.is_some_and(|on| on >= job.shared())) {
        return Err(Failure::invalid(format!("job {} may wait for older jobs only", job.id)));
    }
    Ok(resolved)
}

fn apply_to(job: &mut JobRow, change: &JobChange) {
    let spec = &mut job.spec;
    if let Some(name) = &change.name {
        spec.name.clone_from(name);
    }
    spec.priority = change.priority.unwrap_or(spec.priority);
    spec.resources.cpus = change.cpus.unwrap_or(spec.resources.cpus);
    spec.resources.memory_bytes = change.memory_bytes.unwrap_or(spec.resources.memory_bytes);
    spec.resources.wall = change.wall.unwrap_or(spec.resources.wall);
    spec.begin = change.begin.or(spec.begin);
    spec.deadline = change.deadline.or(spec.deadline);
}

/// Refuses what would have been refused at the submission, too.
fn check_resources(core: &Core, context: &Context, job: &JobRow, change: &JobChange) -> Result<()> {
    if let Some(priority) = change.priority {
        check_priority(context, priority)?;
        if priority > job.spec.priority {
            // Also from below 0: who lowers it gives it away.
            context.who.require_operator("raise the priority of jobs")?;
        }
    }
    if change.cpus == Some(0) || change.wall.is_some_and(|wall| wall.0 <= 0) {
        return Err(Failure::invalid("a job needs at least one CPU slot and a wall limit above zero"));
    }
    let mut changed = job.clone();
    apply_to(&mut changed, change);
    // What a queue that was disabled since has accepted may change in it.
    if changed.spec.resources != job.spec.resources {
        let mut queue = known_queue(core, &job.queue)?;
        queue.is_enabled = true;
        if !context.who.is_operator {
            routes::accepts(core, &queue, &changed.spec.resources)?;
        }
    }
    Ok(())
}
