//! `scontrol`: shows and changes jobs; shows nodes, partitions and the configuration.

mod change;
mod config;
mod show;

use super::{help, jobs, nodes::Nodes, selection::selections};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed},
    },
};
use wire::control::{HoldJobs, JobOutcomes, JobSelection, MessageJobs, ReleaseJobs, RerunJobs};

const OPTIONS: &str = "\
    a/all d/details F/future federation h/help hide json? l/local M/clusters= cluster= o/oneliner Q/quiet \
    sibling u/uid= usage v/verbose V/version yaml?";

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[options] show|hold|release|requeue|update|notify|write|wait_job|ping|version ...";
    let parsed = match help::read(shim, usage, OPTIONS, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    let words: Vec<&str> = parsed.operands.iter().map(String::as_str).collect();
    let (verb, rest) = words.split_first().map_or(("", &[][..]), |(verb, rest)| (*verb, rest));
    match verb.to_ascii_lowercase().as_str() {
        "" => shim.refuse("no command is given; interactive use is not supported here", 1),
        "show" => show::run(shim, rest, &parsed),
        "hold" => of_jobs(shim, rest, |shim, jobs| shim.call(&HoldJobs { jobs, hold: None })),
        "uhold" => of_jobs(shim, rest, |shim, jobs| {
            shim.call(&HoldJobs { jobs, hold: Some(wire::control::HoldKind::User) })
        }),
        "release" => of_jobs(shim, rest, |shim, jobs| shim.call(&ReleaseJobs { jobs, hold: None })),
        "requeue" => of_jobs(shim, rest, |shim, jobs| shim.call(&RerunJobs { jobs })),
        "requeuehold" => {
            let code = of_jobs(shim, rest, |shim, jobs| shim.call(&HoldJobs { jobs, hold: None }))?;
            let again = of_jobs(shim, rest, |shim, jobs| shim.call(&RerunJobs { jobs }))?;
            Ok(code.max(again))
        }
        "update" => change::run(shim, rest),
        "notify" => notify(shim, rest),
        "write" => write(shim, rest),
        "wait_job" => wait(shim, rest),
        "ping" => ping(shim),
        "version" => shim.line(super::VERSION).map(|()| 0),
        "suspend" | "resume" | "reconfigure" | "shutdown" | "takeover" | "create" | "delete" | "reboot"
        | "top" => shim.refuse(&format!("{verb} is not supported here"), 1),
        other => {
            shim.plain_error(&format!("invalid keyword: {other}"));
            Ok(1)
        }
    }
}

/// The jobs that words name: `7,8`, `jobid=7`, `9_3`.
fn selected(shim: &mut Shim, words: &[&str]) -> Option<Vec<JobSelection>> {
    let mut select = Vec::new();
    for word in words {
        let bare = match word.split_once('=') {
            Some((key, value)) if key.eq_ignore_ascii_case("jobid") || key.eq_ignore_ascii_case("job") => {
                value
            }
            _ => word,
        };
        match selections(bare) {
            Ok(found) => select.extend(found),
            Err(bad) => {
                shim.plain_error(&format!("Invalid job id specified: {bad}"));
                return None;
            }
        }
    }
    Some(select)
}

fn of_jobs(
    shim: &mut Shim,
    words: &[&str],
    call: impl FnOnce(&mut Shim, Vec<JobSelection>) -> base::Result<JobOutcomes>,
) -> Run {
    let Some(select) = selected(shim, words) else { return Ok(1) };
    if select.is_empty() {
        shim.plain_error("too few arguments for keyword: a job is missing");
        return Ok(1);
    }
    let outcomes = call(shim, select)?;
    Ok(told(shim, &outcomes))
}

/// Says what was refused.
fn told(shim: &mut Shim, outcomes: &JobOutcomes) -> u8 {
    let mut code = 0;
    for outcome in &outcomes.outcomes {
        if let Some(failure) = &outcome.failure {
            let why = match failure.kind {
                base::ErrorKind::NotFound => "Invalid job id specified".to_owned(),
                base::ErrorKind::Permission => "Access/permission denied".to_owned(),
                _ => failure.what.clone(),
            };
            shim.plain_error(&format!("{why} for job {}", outcome.jobs));
            code = 1;
        }
    }
    code
}

/// `scontrol notify JOB TEXT…`
fn notify(shim: &mut Shim, words: &[&str]) -> Run {
    let Some((job, text)) = words.split_first().filter(|(_, text)| !text.is_empty()) else {
        shim.plain_error("too few arguments for keyword:notify");
        return Ok(1);
    };
    let text = text.join(" ");
    of_jobs(shim, &[job], |shim, jobs| shim.call(&MessageJobs { jobs, text, to_stdout: true }))
}

/// `scontrol write batch_script JOB [FILE]`
fn write(shim: &mut Shim, words: &[&str]) -> Run {
    let (Some(&"batch_script"), Some(job)) = (words.first(), words.get(1)) else {
        shim.plain_error("only batch_script can be written here");
        return Ok(1);
    };
    let Some(select) = selected(shim, &[job]) else { return Ok(1) };
    let found = jobs::whole(shim, &select)?;
    let Some(script) = found.first().and_then(|job| job.spec.script.as_deref()) else {
        shim.plain_error("job script retrieval failed: Invalid job id specified");
        return Ok(1);
    };
    let file = words.get(2).map_or_else(|| format!("slurm-{job}.sh"), |file| (*file).to_owned());
    if file == "-" {
        return shim.context.output.foreign(script).map(|()| 0);
    }
    std::fs::write(&file, script).map_err(|cause| base::Failure::io(format!("write {file}"), &cause))?;
    shim.line(format!("batch script for job {job} written to {file}")).map(|()| 0)
}

/// `scontrol wait_job JOB`: until it runs; here, until it is over or runs.
fn wait(shim: &mut Shim, words: &[&str]) -> Run {
    let Some(select) = selected(shim, words) else { return Ok(1) };
    match jobs::of(shim, &select)?.first().map(|job| job.id) {
        Some(job) => jobs::wait(shim, job),
        None => {
            shim.plain_error("Invalid job id specified");
            Ok(1)
        }
    }
}

fn ping(shim: &mut Shim) -> Run {
    let state = if Nodes::ask(shim).is_ok() { "UP" } else { "DOWN" };
    shim.line(format!("Slurmctld(primary) at {} is {state}", crate::shims::host_name()))
        .map(|()| u8::from(state == "DOWN"))
}

/// Whether one line is wanted for each thing.
fn is_oneliner(parsed: &Parsed) -> bool {
    parsed.has("oneliner")
}
