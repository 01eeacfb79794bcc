//! Gives jobs to a worker that asks for some.

use super::{forgotten, note_heard, require_worker, running_on, worker_row};
use crate::batch::{
    calls::known,
    deliveries, finish,
    list::pass,
    look_at_times,
    place::Offers,
    plan::{Slots, has_labels},
    ready::look_at_dependents,
    refusals::{Submitter, refusal},
    routes::{labels_of, serves},
};
use crate::{
    Apply, Context, Core, Topic,
    executor::core::CapFor,
    namespace::path_of,
    pool::{self, source},
    store::{JobFileRole, JobRow, Member, QueueRow, Wish, WorkerRow},
    tape,
};
use base::{Failure, JobId, Result};
use tracing::info;
use wire::control::{ArrayOrder, FileState, InputSource, JobOrder, JobOrders, JobState, NextJob};

impl Apply for NextJob {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOrders> {
        let worker = worker_row(core, &self.worker)?;
        let worker = worker.filter(|row| core.live.workers.contains_key(&row.name)).ok_or_else(|| {
            Failure::unavailable(format!("worker {} is not registered", self.worker)).hint("register it")
        })?;
        require_worker(context, &worker)?;
        if let Some(before) = note_heard(core, context, &worker.name, self.load)
            && context.now - before.heard > crate::batch::SILENT_AFTER
        {
            info!(worker = worker.name, "worker is reachable again");
            core.touch(Topic::Jobs);
        }
        look_at_times(core, context.now)?;
        start_jobs(core, context, &worker)?;
        let keys = core.config.tokens.keys().serial();
        let deliver = deliveries::after(core, &self.worker, self.delivered)?;
        let mut orders = JobOrders { keys, deliver, ..JobOrders::default() };
        for job in running_on(core, &self.worker)? {
            let run = job.run();
            let is_held = self.runs.contains(&run);
            if job.is_cancelled && is_held {
                orders.kill.extend((!self.killing.contains(&run)).then_some(run));
            } else if job.is_cancelled {
                // The order never reached the worker.
                finish(core, context, job, JobState::Cancelled, Some("cancelled before it ran".to_owned()))?;
            } else if !is_held {
                match order(core, context, &job) {
                    Ok(order) => orders.start.push(order),
                    Err(_) if !job.has_begun && hold_back(core, context, &job)? => {
                        forgotten(core, context, job, String::new())?;
                    }
                    Err(failure) => {
                        finish(core, context, job, JobState::Failed, Some(failure.to_string()))?;
                    }
                }
            } else if core.live.outputs.needs_order(run, context.now) {
                orders.report.push(run);
            }
        }
        Ok(orders)
    }
}

/// Gives queued jobs to a worker, as far as its slots go.
fn start_jobs(core: &mut Core, context: &Context, worker: &WorkerRow) -> Result<()> {
    if worker.is_draining {
        return Ok(());
    }
    let mut offers = Offers::now(core, context.now)?;
    for id in chosen(core, context, worker)? {
        let mut job = known(core, id)?;
        if hold_back(core, context, &job)? || offers.has_better(core, &job, &worker.name, context.now)? {
            continue;
        }
        offers.take(&worker.name, &job);
        job.state = JobState::Running;
        job.worker = Some(worker.name.clone());
        job.has_begun = false;
        job.attempt += 1;
        job.started = Some(context.now);
        crate::batch::save(core, &job, context.now)?;
        core.touch(Topic::Jobs);
        info!(job = %id, worker = worker.name, attempt = job.attempt, "job given to worker");
        look_at_dependents(core, context.now, job)?;
    }
    Ok(())
}

/// The jobs that a worker is to start now.
fn chosen(core: &Core, context: &Context, worker: &WorkerRow) -> Result<Vec<JobId>> {
    let (active, queues) = (core.store.active()?, core.store.queues()?);
    let mut slots = Slots {
        cpus: worker.cpus,
        cpus_free: worker.cpus,
        memory: worker.memory,
        memory_free: worker.memory,
    };
    for job in active.running().filter(|job| job.worker.as_deref() == Some(&worker.name)) {
        slots.cpus_free = slots.cpus_free.saturating_sub(job.wish.cpus);
        slots.memory_free = slots.memory_free.saturating_sub(job.wish.memory);
    }
    let labels = labels_of(core, worker)?;
    let takes = |queue: &QueueRow, member: &Member, wish: &Wish| {
        let who = Submitter { name: &member.user, is_facility_owner: wish.is_of_facility_owner };
        serves(queue, &worker.name, &labels)
            && has_labels(&wish.labels, &worker.name, &labels)
            && refusal(core, worker, &who, context.now).is_none()
    };
    let pass = pass(core, &active, &queues, &core.live.jobs_held_back, context.now)?;
    Ok(pass.dispatch(slots, &takes))
}

/// Keeps a job from being started while an input cannot be read: what is on tape is recalled, else its disk server is waited for. Yields
/// whether it did.
fn hold_back(core: &mut Core, context: &Context, job: &JobRow) -> Result<bool> {
    if core.live.away.is_empty() {
        return Ok(false);
    }
    let mut is_held = false;
    for file in core.store.job_files(job.shared(), JobFileRole::Input)? {
        let Some(node) = core.store.node(file)? else { continue };
        match pool::state_of(core, &node) {
            FileState::OutOfReach => is_held = true,
            FileState::Nearline => {
                is_held = true;
                tape::request_recall(core, context, &node)?;
            }
            _ => {}
        }
    }
    if is_held {
        core.live.jobs_held_back.insert(job.id);
        // Others may have its slots.
        core.touch(Topic::Jobs);
    }
    Ok(is_held)
}

fn order(core: &Core, context: &Context, job: &JobRow) -> Result<JobOrder> {
    let mut inputs = Vec::new();
    for file in core.store.job_files(job.shared(), JobFileRole::Input)? {
        let path = path_of(core, file)?;
        let lost = || Failure::corrupt(format!("input {path} is no longer on disk"));
        let node = core.store.node(file)?.filter(|node| !node.is_in_trash()).ok_or_else(lost)?;
        let replica = source(core, &node, job.id.0, context.now)?.ok_or_else(lost)?;
        inputs.push(InputSource {
            url: core.job_url(&CapFor::to_read(&node, &replica, &path), context.now)?,
            size: node.size,
            checksums: node.checksums.ok_or_else(lost)?,
        });
    }
    let outputs = core.config.server.root_url();
    Ok(JobOrder {
        run: job.run(),
        owner: job.owner.clone(),
        is_of_facility_owner: job.is_of_facility_owner,
        spec: job.spec.clone(),
        queue: job.queue.clone(),
        array: array_order(core, job)?,
        inputs,
        outputs,
    })
}

/// What a job of an array sees of the array.
fn array_order(core: &Core, job: &JobRow) -> Result<Option<ArrayOrder>> {
    let Some(element) = job.array else { return Ok(None) };
    let array = core.store.job_array(element.array)?;
    Ok(array.map(|array| ArrayOrder {
        element,
        count: array.count,
        index_min: array.index_min,
        index_max: array.index_max,
    }))
}
