//! `scancel`: ends jobs, or sends them a signal.

use super::{check_cluster, help, jobs, selection::selections, signal, state::State};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed},
    },
};
use base::{ErrorKind, Result};
use wire::control::{
    CancelJobs, JobFilter, JobInfo, JobOutcome, JobSelection, JobState, Jobs, SELECTIONS_MAX, SignalJobs,
};

const OPTIONS: &str = "\
    A/account= admin-comment= b/batch c/cron ctld f/full H/hurry help i/interactive M/clusters= cluster= me \
    n/name= jobname= p/partition= Q/quiet q/qos= R/reservation= s/signal= sibling= t/state= u/user= usage \
    v/verbose V/version w/nodelist= wckey=";

/// The number of SIGKILL.
const KILL: i32 = 9;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[options] [job_id[_array_id][.step_id]] ...";
    let parsed = match help::read(shim, usage, OPTIONS, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    if let Err(refusal) = check_cluster(parsed.last("clusters").or(parsed.last("cluster"))) {
        return shim.refuse(&refusal, 1);
    }
    let signal = match parsed.last("signal").map(|text| signal::number(text).ok_or(text)) {
        None => None,
        Some(Ok(number)) => Some(number),
        Some(Err(text)) => {
            shim.plain_error(&format!("Unknown job signal: {text}"));
            return Ok(1);
        }
    };
    let select = match selections(&parsed.operands.join(",")) {
        Ok(select) => select,
        Err(bad) => return shim.refuse(&format!("Invalid job id {bad}"), 1),
    };
    let select = match filter(&parsed) {
        Err(refusal) => {
            shim.plain_error(&refusal);
            return Ok(1);
        }
        Ok(None) if select.is_empty() => return shim.refuse("No job identification provided", 1),
        Ok(None) => select,
        Ok(Some(filter)) => match filtered(shim, &parsed, select, filter)? {
            Some(select) => select,
            None => return Ok(1),
        },
    };
    let outcomes = carry_out(shim, &select, signal)?;
    told(shim, &outcomes, parsed.has("verbose"), signal.is_some())
}

/// What of all jobs is meant; none if the jobs are only named.
fn filter(parsed: &Parsed) -> std::result::Result<Option<JobFilter>, String> {
    let keys = ["name", "jobname", "partition", "state", "user", "me", "account", "nodelist"];
    if !keys.iter().any(|key| parsed.has(key)) {
        return Ok(None);
    }
    let owned = |keys: &[&str]| {
        keys.iter().flat_map(|key| parsed.list(key)).map(str::to_owned).collect::<Vec<String>>()
    };
    let mut states = Vec::new();
    for word in parsed.list("state") {
        match State::read(word) {
            Some(state @ (State::Pending | State::Running | State::Suspended)) => states.extend(state.ours()),
            _ => {
                return Err(format!(
                    "Invalid job state specified: {word}\nValid job states are PENDING, RUNNING, and SUSPENDED"
                ));
            }
        }
    }
    if states.is_empty() {
        states = vec![JobState::Held, JobState::Queued, JobState::Running, JobState::Archiving];
    }
    Ok(Some(JobFilter {
        states,
        queues: owned(&["partition"]),
        names: owned(&["name", "jobname"]),
        owners: owned(&["user"]),
        since: None,
    }))
}

/// The jobs that the filter leaves; none if it names a user whom nobody knows.
fn filtered(
    shim: &mut Shim,
    parsed: &Parsed,
    select: Vec<JobSelection>,
    mut filter: JobFilter,
) -> Run<Option<Vec<JobSelection>>> {
    for user in &filter.owners {
        if user.parse::<u32>().is_err() && nix::unistd::User::from_name(user).ok().flatten().is_none() {
            shim.error(&format!("Invalid user name: {user}"));
            return Ok(None);
        }
    }
    filter.owners = jobs::owners(shim, &filter.owners);
    if parsed.has("me") || filter.owners.is_empty() {
        // Of others nobody ends jobs without naming them.
        filter.owners.push(shim.context.user().to_owned());
    }
    let call =
        Jobs { select, elements: true, brief: true, limit: Some(jobs::LIMIT), filter, ..Jobs::default() };
    let accounts = parsed.list("account");
    let nodes = super::hostlist::expanded(&parsed.list("nodelist").join(",")).unwrap_or_default();
    let is_meant = |job: &&JobInfo| {
        (accounts.is_empty() || accounts.contains(&job.spec.account.as_deref().unwrap_or_default()))
            && (nodes.is_empty() || nodes.iter().any(|node| Some(node) == job.worker.as_ref()))
    };
    Ok(Some(jobs::list(shim, call)?.iter().filter(is_meant).map(named).collect()))
}

/// Names one job. The number of an array's first element names the whole array, so an element is named by its index.
fn named(job: &JobInfo) -> JobSelection {
    match job.array {
        Some(element) => format!("{}_{}", element.array, element.index).parse().unwrap_or(job.id.into()),
        None => job.id.into(),
    }
}

fn carry_out(shim: &mut Shim, select: &[JobSelection], signal: Option<i32>) -> Result<Vec<JobOutcome>> {
    let mut outcomes = Vec::new();
    for part in select.chunks(SELECTIONS_MAX) {
        let jobs = part.to_vec();
        let reply = match signal {
            None | Some(KILL) => shim.call(&CancelJobs { jobs })?,
            Some(signal) => shim.call(&SignalJobs { jobs, signal })?,
        };
        outcomes.extend(reply.outcomes);
    }
    Ok(outcomes)
}

/// Says what was refused. That a job is unknown or over already is no failure, unless a signal was to reach it.
fn told(shim: &mut Shim, outcomes: &[JobOutcome], is_verbose: bool, is_signal: bool) -> Run {
    let mut code = 0;
    for outcome in outcomes {
        let Some(failure) = &outcome.failure else { continue };
        let is_harmless =
            !is_signal && (failure.kind == ErrorKind::NotFound || failure.kind == ErrorKind::Invalid);
        let why = match failure.kind {
            ErrorKind::NotFound => "Invalid job id specified",
            ErrorKind::Permission => "Access/permission denied",
            _ if is_harmless => "Job/step already completing or completed",
            _ => failure.what.as_str(),
        };
        if !is_harmless || is_verbose {
            shim.error(&format!("Kill job error on job id {}: {why}", outcome.jobs));
        }
        if !is_harmless {
            code = 1;
        }
    }
    Ok(code)
}
