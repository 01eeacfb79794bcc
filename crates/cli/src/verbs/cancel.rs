//! `bp cancel`: cancels jobs and tape requests.

use crate::{
    context::{Context, Run, Stop},
    names,
};
use base::{ErrorKind, Failure, FilePath, JobId, RequestId, Result};
use std::str::FromStr;
use wire::control::{CancelJobs, CancelRequests, JobSelection, Jobs};

/// The thing to cancel.
#[derive(Debug, Clone)]
enum What {
    /// A job, or the tape request of that number if there is no such job.
    Number(u64),
    Request(RequestId),
    Path(FilePath),
    /// Elements of an array.
    Elements(JobSelection),
}

impl FromStr for What {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with('/') {
            return text.parse().map(Self::Path);
        }
        if text.starts_with('r') {
            return names::request(text).map(Self::Request);
        }
        if text.contains('_') {
            return text.parse().map(Self::Elements);
        }
        text.parse().map(Self::Number).map_err(|_| {
            Failure::invalid(format!("{text:?} is not a job or a tape request"))
                .hint("use 7 for a job, r7 for a tape request, /path for your requests for a file")
        })
    }
}

/// End jobs, or withdraw tape requests
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs and whole arrays (7), elements of arrays (7_3, 7_[1-5]), tape requests as `bp queue` shows them (r7), or paths of files that you staged or archived. A number
    /// without a job means the tape request of that number
    #[arg(required = true, value_name = "ID")]
    ids: Vec<What>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.each(args.ids, |context, what| match what {
        What::Number(number) => cancel_number(context, number),
        What::Request(request) => cancel_requests(context, vec![request], Vec::new()),
        What::Elements(jobs) => cancel_jobs(context, jobs),
        What::Path(path) => cancel_requests(context, Vec::new(), vec![path]),
    })
}

/// A job of that number is meant, even if it is over: nothing else is cancelled by mistake.
fn cancel_number(context: &mut Context, number: u64) -> Run<()> {
    let job = JobId(number);
    let known = context.call(&Jobs { ids: vec![job], ..Jobs::default() });
    if known.is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
        return cancel_requests(context, vec![RequestId(number)], Vec::new()).map_err(|stop| match stop {
            Stop::Failed(failure) if failure.kind == ErrorKind::NotFound => {
                Failure::not_found(format!("there is no job and no tape request {number}"))
                    .hint("`bp jobs` and `bp queue` show them")
                    .into()
            }
            stop => stop,
        });
    }
    cancel_jobs(context, job.into()).map_err(|stop| match stop {
        Stop::Failed(failure) if failure.kind == ErrorKind::Invalid => {
            failure.hint(format!("r{number} would be a tape request")).into()
        }
        stop => stop,
    })
}

fn cancel_jobs(context: &mut Context, jobs: JobSelection) -> Run<()> {
    let mut reply = context.call(&CancelJobs { jobs: vec![jobs] })?;
    if context.output.is_json() {
        context.output.json(&reply)?;
    }
    match reply.outcomes.pop().and_then(|outcome| outcome.failure) {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

fn cancel_requests(context: &mut Context, requests: Vec<RequestId>, paths: Vec<FilePath>) -> Run<()> {
    let outcomes = context.call(&CancelRequests { requests, paths })?;
    if let Some(failure) = outcomes.files.iter().find_map(|file| file.failure.clone()) {
        return Err(failure.into());
    }
    if context.output.is_json() { context.output.json(&outcomes) } else { Ok(()) }
}
