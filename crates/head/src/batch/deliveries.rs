//! What is done to runs: reruns, signals, messages. Signals and messages wait in the catalogue until the worker has carried them out.

use super::{
    calls::require_owner,
    changes::each,
    release_inputs,
    retry::{RERUN, run_again},
};
use crate::{
    Apply, Context, Core, Topic, pool,
    store::{JobFileRole, JobRow},
    tape,
};
use base::{Failure, Result, Timestamp};
use wire::control::{
    Delivered, JOB_MESSAGE_BYTES_MAX, JobOutcomes, JobState, MessageJobs, RerunJobs, RunDelivery, SignalJobs,
};

/// Deliveries that wait for one worker: it fetches them at once while it is there.
const WAITING_MAX: u64 = 10_000;

/// The number of the newest delivery that this head knows of. Workers leave out what is not above the last that they carried out.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    last: u64,
}

/// Highest number that a worker may have heard.
const NUMBER_HEARD_MAX: u64 = i64::MAX.unsigned_abs() / 2;

/// What a worker has not carried out yet.
pub(super) fn after(core: &mut Core, worker: &str, delivered: u64) -> Result<Vec<RunDelivery>> {
    // It heard that from a head whose clock may have been ahead of ours. Numbers above it have to fit into the catalogue, whatever
    // it says.
    let delivered = delivered.min(NUMBER_HEARD_MAX);
    core.live.deliveries.last = core.live.deliveries.last.max(delivered);
    let mut waiting = core.store.deliveries(worker)?;
    let all = waiting.len();
    waiting.retain(|delivery| delivery.number > delivered);
    if waiting.len() < all {
        core.store.delete_deliveries(worker, delivered)?;
    }
    Ok(waiting)
}

/// Gives the worker of a running job something for it.
pub(super) fn deliver(core: &mut Core, job: &JobRow, what: Delivered, now: Timestamp) -> Result<()> {
    let worker = job.worker.as_deref().filter(|_| job.state == JobState::Running);
    let worker = worker.ok_or_else(|| {
        Failure::invalid(format!("job {} does not run: it is {}", job.id, job.state.as_str()))
    })?;
    if core.store.deliveries_len(worker)? >= WAITING_MAX {
        return Err(Failure::busy(format!("{WAITING_MAX} signals and messages wait for worker {worker}")));
    }
    // Above all numbers of the heads that ran before, also of those that were carried out and are gone.
    let last = core.live.deliveries.last.max(core.store.last_delivery()?);
    let number = (last + 1).max(now.0.unsigned_abs());
    core.live.deliveries.last = number;
    core.store.insert_delivery(worker, &RunDelivery { number, run: job.run(), what })?;
    core.touch(Topic::Jobs);
    Ok(())
}

impl Apply for SignalJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        if !(1..=64).contains(&self.signal) {
            return Err(Failure::invalid(format!("there is no signal {}", self.signal)));
        }
        each(core, context, self.jobs, |core, context, job| {
            require_owner(&job, context, "send signals to")?;
            deliver(core, &job, Delivered::Signal(self.signal), context.now)
        })
    }
}

impl Apply for MessageJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        if self.text.len() > JOB_MESSAGE_BYTES_MAX || self.text.contains('\0') {
            return Err(Failure::invalid(format!(
                "a message of {} bytes; it may have {JOB_MESSAGE_BYTES_MAX}, and no NUL",
                self.text.len()
            )));
        }
        each(core, context, self.jobs, |core, context, job| {
            require_owner(&job, context, "write to the output of")?;
            let text = self.text.clone();
            let what = if self.to_stdout { Delivered::ToStdout(text) } else { Delivered::ToStderr(text) };
            deliver(core, &job, what, context.now)
        })
    }
}

impl Apply for RerunJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        each(core, context, self.jobs, rerun)
    }
}

fn rerun(core: &mut Core, context: &Context, mut job: JobRow) -> Result<()> {
    require_owner(&job, context, "run again")?;
    if !job.spec.rerunnable {
        return Err(Failure::invalid(format!("job {} was not submitted as one that may run again", job.id))
            .hint("submit it anew; `bp submit --rerunnable` allows it"));
    }
    match job.state {
        JobState::Running => {
            job.is_cancelled = true;
            job.reason = Some(RERUN.to_owned());
            core.store.save_job(&job)?;
            core.touch(Topic::Jobs);
            Ok(())
        }
        state if state.is_over() => {
            if let Err(failure) = pin_again(core, context, &job) {
                // It stays over, and keeps nothing.
                release_inputs(core, &job)?;
                return Err(failure);
            }
            job.exit = None;
            job.usage = None;
            job.failures = 0;
            let by = format!("run again by {}", context.who.name);
            run_again(core, context, job, Some(by))
        }
        state => Err(Failure::invalid(format!("job {} has not run yet: it is {}", job.id, state.as_str()))),
    }
}

/// The inputs were let go of at its end.
fn pin_again(core: &mut Core, context: &Context, job: &JobRow) -> Result<()> {
    let files = core.store.job_files(job.shared(), JobFileRole::Input)?;
    for (input, file) in job.spec.inputs.iter().zip(files) {
        let node = core.store.node(file)?.filter(|node| !node.is_in_trash()).ok_or_else(|| {
            let what = format!("input {} of job {} was removed or replaced since", input.path, job.id);
            Failure::not_found(what).hint("submit the job anew")
        })?;
        core.store.put_pin(node.id, &super::pin_holder(job.shared()), None)?;
        if pool::state_of(core, &node) == wire::control::FileState::Nearline {
            tape::request_recall(core, context, &node)?;
        }
    }
    Ok(())
}
