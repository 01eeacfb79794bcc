//! Takes the end of a run: what it means for the job, and what was stored.

use super::current;
use crate::batch::{
    costs, finish,
    retry::{RERUN, failed, run_again},
};
use crate::{
    Apply, Context, Core, Principal, Topic,
    namespace::resolve_file,
    store::{JobFileRole, JobRow},
    tape,
};
use base::{
    ErrorKind, Failure, FilePath, Result,
    limits::{JOB_FILES_MAX, JOB_TEXT_BYTES_MAX},
};
use tracing::info;
use wire::control::{Done, JobEnded, JobExit, JobState, OutputKind};

impl Apply for JobEnded {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let mut job = match current(core, context, self.run) {
            Ok(job) => job,
            // Reported before; the answer was lost. Or the run was given up.
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Done {}),
            Err(failure) => return Err(failure),
        };
        if let JobExit::Refused(why) = &self.exit
            && !job.has_begun
        {
            return refused(core, context, job, why.clone());
        }
        costs::run_ended(core, &job, self.usage, context.now)?;
        let mut text = self.text;
        shorten(&mut text.stdout);
        shorten(&mut text.stderr);
        core.store.set_job_text(job.id, &text)?;
        job.usage = Some(self.usage);
        job.exit = Some(self.exit.clone());
        info!(job = %job.id, exit = ?self.exit, "job ended");
        match self.exit {
            _ if job.is_cancelled && job.reason.as_deref() == Some(RERUN) => {
                run_again(core, context, job, None)?;
            }
            JobExit::Code(0) => succeeded(core, context, job, self.stored)?,
            JobExit::Cancelled if job.spec.deadline.is_some_and(|deadline| deadline <= context.now) => {
                let why = "its deadline passed while it ran".to_owned();
                finish(core, context, job, JobState::Failed, Some(why))?;
            }
            JobExit::Cancelled => {
                finish(core, context, job, JobState::Cancelled, Some("cancelled while it ran".to_owned()))?;
            }
            exit => failed(core, context, job, explain_exit(&exit))?,
        }
        Ok(Done {})
    }
}

/// The worker does not run jobs of the owner: another one may, or this one later.
fn refused(core: &mut Core, context: &Context, mut job: JobRow, why: Failure) -> Result<Done> {
    let worker = job.worker.take().unwrap_or_default();
    info!(job = %job.id, worker, why = %why, "the worker cannot run jobs of this user; the job goes to another one");
    core.live.refusals.put(&worker, &job.owner, why, context.now);
    if job.is_cancelled {
        let cancelled = Some("cancelled before it ran".to_owned());
        return finish(core, context, job, JobState::Cancelled, cancelled).map(|()| Done {});
    }
    job.state = JobState::Queued;
    job.started = None;
    crate::batch::save(core, &job, context.now)?;
    core.touch(Topic::Jobs);
    Ok(Done {})
}

/// The process ended well and its outputs are stored: done, or archived first.
fn succeeded(core: &mut Core, context: &Context, mut job: JobRow, stored: Vec<FilePath>) -> Result<()> {
    let operator = Principal::operator(&job.owner);
    let on_behalf = Context { who: operator, now: context.now };
    let mut out_bytes: u64 = 0;
    for (index, path) in stored_outputs(&job, stored).iter().enumerate() {
        let node = match resolve_file(core, &on_behalf.who, path) {
            Ok(node) => node,
            Err(failure) => {
                let why = format!("output {path} is not there: {failure}");
                return finish(core, context, job, JobState::Failed, Some(why));
            }
        };
        core.store.put_job_file(job.id, JobFileRole::Output, index, node.id)?;
        out_bytes = out_bytes.saturating_add(node.size);
        if job.spec.archive
            && !node.is_safe_on_tape()
            && let Err(failure) = tape::request_archive(core, &on_behalf, &node)
        {
            // It is stored, and stays; only the copy that was asked for cannot be.
            let why = format!("output: {}", failure.what);
            return finish(core, context, job, JobState::Failed, Some(why));
        }
    }
    if out_bytes > 0 {
        costs::stored(core, &job, out_bytes)?;
    }
    if job.spec.archive && core.store.job_files_missing(job.id, JobFileRole::Output)? > 0 {
        job.state = JobState::Archiving;
        crate::batch::save(core, &job, context.now)?;
        // The process is over; its inputs may go.
        crate::batch::release_inputs(core, &job)?;
        core.touch(Topic::Jobs);
        return Ok(());
    }
    finish(core, context, job, JobState::Done, None)
}

/// Keeps no more of what a job printed than a worker should send.
fn shorten(text: &mut String) {
    // Replaced bytes are up to three times as long as they were, and the mark of what is left out comes to that.
    let mut end = text.len().min(3 * JOB_TEXT_BYTES_MAX + 100);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Where the outputs are: as the worker says, as far as they were ordered, else as they were ordered.
fn stored_outputs(job: &JobRow, mut stored: Vec<FilePath>) -> Vec<FilePath> {
    let outputs = &job.spec.outputs;
    if stored.is_empty() {
        let files = outputs.iter().filter(|output| output.kind() == OutputKind::File);
        return files.map(|output| output.path.clone()).collect();
    }
    stored.retain(|path| outputs.iter().any(|output| path.is_within(&output.path)));
    stored.truncate(JOB_FILES_MAX);
    stored
}

fn explain_exit(exit: &JobExit) -> String {
    match exit {
        JobExit::Code(code) => format!("exit code {code}"),
        JobExit::Signal(signal) => format!("ended by signal {signal}"),
        JobExit::WallLimit => "exceeded its wall time limit".to_owned(),
        JobExit::NotStarted(failure) => format!("could not be started: {failure}"),
        JobExit::OutputFailed(failure) => format!("output was not stored: {failure}"),
        JobExit::Limit(limit) => format!("exceeded a limit: {limit}"),
        JobExit::Refused(failure) => format!("the worker refused it: {failure}"),
        JobExit::Lost => "its shepherd died; the result is unknown".to_owned(),
        JobExit::Cancelled => "cancelled".to_owned(),
    }
}
