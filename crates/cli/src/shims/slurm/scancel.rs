//! `scancel`: ends jobs, or sends them a signal.

use super::{help, hostlist, jobs, selection::selections, signal, state::State};
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

/// What of all jobs is meant.
#[derive(Debug, PartialEq, Eq)]
struct Filter {
    /// What the head is asked for.
    jobs: JobFilter,
    accounts: Vec<String>,
    nodes: Vec<String>,
}

/// What of all jobs is meant; none if the jobs are only named.
fn filter(parsed: &Parsed) -> std::result::Result<Option<Filter>, String> {
    let keys = ["name", "jobname", "partition", "state", "user", "account", "nodelist"];
    if !parsed.has("me") && !keys.iter().any(|key| parsed.has(key)) {
        return Ok(None);
    }
    // A variable that is not set must not mean all jobs.
    if let Some(key) = keys.iter().find(|key| parsed.has(key) && parsed.list(key).is_empty()) {
        return Err(format!("Invalid --{key} specification: it is empty; nothing is cancelled"));
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
    let jobs = JobFilter {
        states,
        queues: owned(&["partition"]),
        names: owned(&["name", "jobname"]),
        owners: owned(&["user"]),
        since: None,
    };
    Ok(Some(Filter { jobs, accounts: owned(&["account"]), nodes: hostlist::given(parsed, "nodelist")? }))
}

/// The jobs that the filter leaves; none if it names a user whom nobody knows.
fn filtered(
    shim: &mut Shim,
    parsed: &Parsed,
    select: Vec<JobSelection>,
    Filter { jobs: mut filter, accounts, nodes }: Filter,
) -> Run<Option<Vec<JobSelection>>> {
    filter.owners = match jobs::owners(shim, &filter.owners) {
        Ok(owners) => owners,
        Err(user) => {
            shim.error(&format!("Invalid user name: {user}"));
            return Ok(None);
        }
    };
    if parsed.has("me") || filter.owners.is_empty() {
        // Of others nobody ends jobs without naming them.
        filter.owners.push(shim.context.user().to_owned());
    }
    let call =
        Jobs { select, elements: true, brief: true, limit: Some(jobs::LIMIT), filter, ..Jobs::default() };
    let is_meant = |job: &&JobInfo| jobs::is_of(job, &accounts, &nodes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::getopt::parse;

    fn read(line: &str) -> std::result::Result<Option<Filter>, String> {
        filter(&parse(OPTIONS, Order::Permuted, line.split(' ').map(str::to_owned)).unwrap())
    }

    #[test]
    fn a_filter_that_says_nothing_is_refused_and_not_taken_for_all_jobs() {
        for line in ["--name=", "-u ", "-p ,", "--state=", "--account=", "--nodelist=", "-w n[1", "-t x"] {
            assert!(read(line).is_err(), "{line}");
        }
        assert_eq!(read("7"), Ok(None));
        let found = read("-w n[1-2] -A higgs -n a,b --me").unwrap().unwrap();
        assert_eq!(found.nodes, ["n1", "n2"]);
        assert_eq!((found.accounts, found.jobs.names), (vec!["higgs".into()], vec!["a".into(), "b".into()]));
    }
}
