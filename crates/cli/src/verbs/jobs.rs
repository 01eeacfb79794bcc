//! `bp jobs`: shows jobs, or waits for them.

use super::wait::Timeout;
use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    waiting,
    words::{job_state, span, time},
};
use base::{Failure, Millis, Timestamp};
use std::time::SystemTime;
use wire::control::{
    ArrayElements, AwaitJobs, JobExit, JobFilter, JobInfo, JobList, JobSelection, JobState, Jobs,
};

/// A failure is shown for so long.
const RECENT: Millis = Millis::from_seconds(24 * 3600);
/// So many failures are shown, the newest.
const FAILURES_MAX: usize = 5;

/// Show jobs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also show jobs that have ended
    #[arg(long, short)]
    all: bool,
    /// Return when these jobs have ended; without ids, all jobs that have not ended yet
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: Timeout,
    /// Only jobs in these states: held, queued, running, archiving, done, failed, cancelled
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = state)]
    state: Vec<JobState>,
    /// Only jobs in these queues
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',')]
    queue: Vec<String>,
    /// Only jobs of these users
    #[arg(long, value_name = "USER,…", value_delimiter = ',')]
    of: Vec<String>,
    /// Only jobs with this name
    #[arg(long)]
    name: Vec<String>,
    /// Show each element of an array; else an array is one line
    #[arg(long)]
    elements: bool,
    /// Show at most so many
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Only these jobs, arrays or elements of arrays (12, 12_3, 12_[1-5])
    #[arg(value_name = "ID")]
    ids: Vec<JobSelection>,
}

/// Reads the word of a state.
fn state(text: &str) -> Result<JobState, Failure> {
    let json = serde_json::Value::String(text.to_owned());
    serde_json::from_value(json).map_err(|_| {
        Failure::invalid(format!("{text:?} is not a state of a job"))
            .hint("held, queued, running, archiving, done, failed or cancelled")
    })
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let is_named = !args.ids.is_empty();
    if args.wait && is_named {
        return wait(context, &AwaitJobs { select: args.ids, ..AwaitJobs::default() }, &args.timeout);
    }
    let filter = JobFilter {
        states: args.state,
        queues: args.queue,
        owners: args.of,
        names: args.name,
        ..JobFilter::default()
    };
    let is_filtered = !filter.is_empty();
    let is_over = filter.states.iter().any(|state| state.is_over());
    let active_only = args.wait || (!args.all && !is_named && !is_over);
    let list = context.call(&Jobs {
        select: args.ids,
        active_only,
        filter,
        elements: args.elements,
        limit: args.limit,
        ..Jobs::default()
    })?;
    if args.wait {
        if list.jobs.is_empty() {
            return Ok(0);
        }
        // By its number an array is waited for as a whole.
        let (elements, whole): (Vec<_>, Vec<_>) = list.jobs.iter().partition(|job| job.elements.is_none());
        let ids = elements.into_iter().map(|job| job.id).collect();
        let select = whole.into_iter().map(|job| job.id.into()).collect();
        return wait(context, &AwaitJobs { ids, select }, &args.timeout);
    }
    show(context, &list, is_named)?;
    if list.is_cut && !context.output.is_json() {
        context.output.news("there are more; --limit shows more of them, --state and others choose")?;
    }
    if active_only && !is_filtered && !context.output.is_json() {
        show_failures(context)?;
    }
    Ok(0)
}

/// Shows jobs that failed lately, beside those that are not over: nobody looks for what they do not know of.
fn show_failures(context: &mut Context) -> Run<()> {
    let now = Timestamp::from_system(SystemTime::now());
    let list = context.call(&Jobs::default())?;
    let is_recent = |job: &JobInfo| job.ended.is_some_and(|ended| now - ended <= RECENT);
    let is_failure = |job: &JobInfo| job.state == JobState::Failed && is_recent(job);
    let failed: Vec<_> = list.jobs.into_iter().filter(is_failure).take(FAILURES_MAX).collect();
    if !failed.is_empty() {
        context.output.titled("Failed in the last day", &table(&failed, now))?;
        context.output.news("`bp log ID` shows what a job printed, `bp jobs --all` shows all")?;
    }
    Ok(())
}

fn show(context: &mut Context, list: &JobList, is_named: bool) -> Run {
    if context.output.is_json() {
        context.output.json(list)?;
        return Ok(0);
    }
    let table = table(&list.jobs, Timestamp::from_system(SystemTime::now()));
    if table.is_empty() {
        context.output.news("no jobs")?;
    } else {
        context.output.table(&table)?;
    }
    for job in list.jobs.iter().filter(|job| is_named && !job.not_enforced.is_empty()) {
        context.output.news(format!("job {}: not enforced: {}", job.id, job.not_enforced.join(", ")))?;
    }
    Ok(0)
}

/// Waits until the jobs are over. The exit code is that of the first job that did not end well.
pub(crate) fn wait(context: &mut Context, call: &AwaitJobs, timeout: &Timeout) -> Run {
    let reply = waiting::jobs(context, call, timeout.timeout.0)?;
    if context.output.is_json() {
        context.output.json(&reply)?;
    }
    let bad = reply.jobs.iter().filter(|job| job.state != JobState::Done);
    let mut code = 0;
    for job in bad {
        context.output.failure(&failure(job).hint(format!("`bp log {}` shows what it printed", job.id)));
        code = if code == 0 { exit_code(job) } else { code };
    }
    Ok(code)
}

/// How a job ended that did not end well.
pub(super) fn failure(job: &JobInfo) -> Failure {
    let how = job.exit.as_ref().map(ToString::to_string).or_else(|| job.reason.clone()).unwrap_or_default();
    Failure::unavailable(format!("job {} {}: {how}", job.id, job.state.as_str()))
}

/// The job's own code if it has one that is not 0, as a shell would say it; else 1.
pub(super) fn exit_code(job: &JobInfo) -> u8 {
    job.exit.as_ref().and_then(JobExit::shell_code).filter(|code| *code > 0).unwrap_or(1)
}

/// Jobs as a table.
pub(crate) fn table(jobs: &[JobInfo], now: Timestamp) -> Table {
    let mut table = Table::new([
        Column::Right("id"),
        Column::Left("state"),
        Column::Text("name"),
        Column::Left("owner"),
        Column::Left("queue"),
        Column::Left("worker"),
        Column::Left("runs as"),
        Column::Left("submitted"),
        Column::Right("ran"),
        Column::Left("exit"),
        Column::Text("why"),
    ]);
    for job in jobs {
        if job.reason.is_some() {
            table.next_step("`bp why ID` says more of a job");
        }
        let ran = job.started.map(|started| span(job.ended.unwrap_or(now) - started));
        table.row([
            Cell::from(job.shown_id()),
            job_state(job.state),
            job.spec.name.as_str().into(),
            job.owner.as_str().into(),
            job.queue.as_str().into(),
            job.worker.clone().unwrap_or_default().into(),
            job.run_as.clone().unwrap_or_default().into(),
            time(job.submitted).into(),
            ran.unwrap_or_default().into(),
            job.exit.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            job.elements.as_ref().map(elements).or_else(|| job.reason.clone()).unwrap_or_default().into(),
        ]);
    }
    table
}

/// How the elements of an array stand: `10 elements: 3 done, 2 running, 5 queued`.
fn elements(elements: &ArrayElements) -> String {
    let states: Vec<_> = elements.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    format!("{} elements: {}", elements.count, states.join(", "))
}
