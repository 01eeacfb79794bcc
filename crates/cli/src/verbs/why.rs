//! `bp why`: explains why a file, a job or a tape request waits.

use crate::{
    context::{Context, Run, Stop},
    names,
    words::{away_host, span},
};
use base::{ErrorKind, Failure, FilePath, JobId, RequestId, Result};
use std::str::FromStr;
use wire::control::{
    FileInfo, FileState, GetStatus, JobInfo, JobList, Jobs, NodeKind, RequestInfo, Stat, Status,
};

/// What is asked for: a path, or a number of a job or request.
#[derive(Debug, Clone)]
enum Thing {
    Path(FilePath),
    /// A job, a tape request, or both: they are numbered apart.
    Number(u64),
    Request(RequestId),
}

impl FromStr for Thing {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with('/') {
            return text.parse().map(Self::Path);
        }
        if text.starts_with('r') {
            return names::request(text).map(Self::Request);
        }
        text.parse().map(Self::Number).map_err(|_| {
            Failure::invalid(format!("{text:?} is neither a path nor a number"))
                .hint("name a path, a job of `bp jobs` or a request of `bp queue`")
        })
    }
}

/// Show why a file, a job or a tape request waits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Paths, jobs (7) and tape requests (r7)
    #[arg(required = true, value_name = "PATH|JOB|REQUEST")]
    things: Vec<Thing>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.each(args.things, |context, thing| match thing {
        Thing::Path(path) => {
            let info = context.call(&Stat { path })?;
            if context.output.is_json() {
                context.output.json(&info)
            } else {
                context.output.line(of_file(&info))
            }
        }
        Thing::Number(number) => of_number(context, number),
        Thing::Request(id) if show_request(context, id)? => Ok(()),
        Thing::Request(id) => Err(unknown(&format!("there is no tape request r{id}"))),
    })
}

/// Jobs and requests are numbered apart: both may have the number.
fn of_number(context: &mut Context, number: u64) -> Run<()> {
    let job = match context.call(&Jobs { ids: vec![JobId(number)], ..Jobs::default() }) {
        Ok(JobList { jobs, .. }) => jobs.into_iter().next(),
        Err(failure) if failure.kind == ErrorKind::NotFound => None,
        Err(failure) => return Err(failure.into()),
    };
    if let Some(job) = &job {
        if context.output.is_json() { context.output.json(job)? } else { context.output.line(of_job(job))? }
    }
    if show_request(context, RequestId(number))? || job.is_some() {
        return Ok(());
    }
    Err(unknown(&format!("there is no job and no tape request {number}")))
}

/// Shows why a tape request waits; yields whether there is one.
fn show_request(context: &mut Context, id: RequestId) -> Run<bool> {
    let status: Status = context.call(&GetStatus {})?;
    let Some(request) = status.requests.iter().find(|request| request.id == id) else { return Ok(false) };
    if context.output.is_json() {
        context.output.json(request)?;
    } else {
        context.output.line(of_request(request, &status))?;
    }
    Ok(true)
}

fn unknown(what: &str) -> Stop {
    Failure::not_found(what)
        .hint("finished tape requests are not kept; `bp why PATH` shows where the file is")
        .into()
}

fn of_file(info: &FileInfo) -> String {
    let path = &info.path;
    if info.entry.kind != NodeKind::File {
        return format!("{path} is a {}; only files wait", info.entry.kind.as_str());
    }
    if let Some(waits) = &info.waits {
        if waits.starts_with("live: ") {
            return format!("{path} is {waits}");
        }
        return format!("{path} waits: {waits}");
    }
    let vids: Vec<_> = info.copies.iter().map(|copy| copy.vid.as_str()).collect();
    let hosts = || info.away.iter().map(away_host).collect::<Vec<_>>().join(" and ");
    match info.entry.state {
        Some(FileState::Nearline) if !info.away.is_empty() => format!(
            "{path} is on tape (volume {}), and its disk replica is out of reach, on {}; opening it recalls it \
                from tape",
            vids.join(", "),
            hosts()
        ),
        Some(FileState::Nearline) => format!(
            "{path} is on tape only (volume {}), and no recall is queued; `bp stage {path}` queues one",
            vids.join(", ")
        ),
        Some(FileState::Writing) => {
            format!("{path} is being written; it can be read once its writer closes it")
        }
        Some(FileState::OutOfReach) => format!(
            "{path} is out of reach: its only copies are on {}; it can be read when that host is back",
            hosts()
        ),
        Some(FileState::Lost) => format!("{path} is lost: it has no disk replica and no tape copy"),
        _ if !info.missing_copies.is_empty() => {
            let missing = info.missing_copies.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            format!(
                "{path} is on disk; it lacks tape copies ({missing}), and `bp archive {path}` asks for them"
            )
        }
        _ => format!("{path} is on disk and can be read"),
    }
}

fn of_job(job: &JobInfo) -> String {
    let why = job.reason.clone().or_else(|| job.worker.as_ref().map(|worker| format!("on {worker}")));
    let how = job.exit.as_ref().map(|how| format!(" ({how})")).unwrap_or_default();
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("job {} is {}{how}{why}", job.id, job.state.as_str())
}

fn of_request(request: &RequestInfo, status: &Status) -> String {
    let RequestInfo { id, kind, path, reason, .. } = request;
    let waited = span(status.now - request.created);
    format!("request r{id} ({} of {path}) has waited {waited}: {reason}", kind.as_str())
}
