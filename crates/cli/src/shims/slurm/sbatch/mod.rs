//! `sbatch`: submits a script.

mod dependency;
mod options;
mod script;
mod spec;

pub(crate) use dependency::{read as dependencies_read, shown as dependencies_shown};

use super::{CLUSTER, check_cluster, help};
use crate::{
    context::Run,
    shims::{
        self, Shim, directives,
        getopt::{Given, Order, parse},
        jobs,
        origin::Origin,
        site::Site,
    },
};
use base::{ErrorKind, Failure};
use options::{Batch, OPTIONS, Refusal, VARIABLES};
use spec::Script;

/// The exit code of a command line that cannot be read, as the original has it.
const BAD_COMMAND_LINE: u8 = 255;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[options] script [arguments]";
    let parsed = match help::read(shim, usage, OPTIONS, Order::OptionsFirst, arguments, BAD_COMMAND_LINE)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    let site = Site::here();
    let wrap = parsed.last("wrap");
    let script = match script::found(wrap, &parsed.operands) {
        Ok(script) => script,
        Err(refusal) => return refuse_lines(shim, &refusal),
    };
    let batch = match told(&site, &script, &parsed.options) {
        Ok(batch) => batch,
        Err(refusal) => return refuse_lines(shim, &refusal),
    };
    if let Err(refusal) = check_cluster(batch.cluster.as_deref()) {
        return shim.refuse(&refusal, 1);
    }
    if !batch.is_quiet {
        batch.ignored.iter().for_each(|what| shim.say(&format!("warning: {what}")));
    }
    submit(shim, &batch, script, &site)
}

fn refuse_lines(shim: &mut Shim, refusal: &str) -> Run {
    refusal.lines().for_each(|line| shim.error(line));
    Ok(1)
}

/// What directives, environment and command line say, the last of them winning.
fn told(site: &Site, script: &Script, command_line: &[Given]) -> Result<Batch, Refusal> {
    let words = directives::directives(&script.text, &["#SBATCH"])
        .map_err(|what| format!("Invalid directive found in batch script: {what}"))?;
    let directives = parse(OPTIONS, Order::Permuted, words)
        .map_err(|what| format!("Invalid directive found in batch script: {what}"))?;
    if let Some(word) = directives.operands.first() {
        return Err(format!("Invalid directive found in batch script: {word}"));
    }
    let variables: Vec<Given> = VARIABLES
        .iter()
        .filter_map(|(name, key)| Some(Given { key, value: Some(std::env::var(name).ok()?) }))
        .collect();
    let mut batch = Batch::default();
    for options in [&directives.options[..], &variables, command_line] {
        batch.apply(options, &site.calendar, site.now)?;
    }
    Ok(batch)
}

fn submit(shim: &mut Shim, batch: &Batch, script: Script, site: &Site) -> Run {
    let call = spec::submission(batch, script, &Origin::here()?, shims::unique_key());
    if batch.is_test {
        return test(shim, batch, site);
    }
    let reply = match shim.call(&call) {
        Ok(reply) => reply,
        Err(failure) => return refused(shim, batch, &failure),
    };
    let on_cluster = batch.cluster.is_some();
    let line = match (batch.is_parsable, on_cluster) {
        (true, true) => format!("{};{CLUSTER}", reply.job),
        (true, false) => reply.job.to_string(),
        (false, true) => format!("Submitted batch job {} on cluster {CLUSTER}", reply.job),
        (false, false) => format!("Submitted batch job {}", reply.job),
    };
    if !batch.is_quiet || batch.is_parsable {
        shim.line(line)?;
    }
    if batch.waits { jobs::wait(shim, reply.job) } else { Ok(0) }
}

/// An unknown queue is said in the original's words, too: tools look for them.
fn refused(shim: &mut Shim, batch: &Batch, failure: &Failure) -> Run {
    if let Some(queue) = batch.partition.as_ref().filter(|_| failure.kind == ErrorKind::NotFound)
        && failure.what.contains(queue.as_str())
    {
        shim.error(&format!("invalid partition specified: {queue}"));
        return shim.failure("Batch job submission failed: Invalid partition name specified: ", failure);
    }
    shim.failure("Batch job submission failed: ", failure)
}

/// `--test-only`: says what would be submitted. When it would start is not known before it is.
fn test(shim: &mut Shim, batch: &Batch, site: &Site) -> Run {
    let partition = batch.partition.as_deref().unwrap_or("the default partition");
    let cpus = batch.cpus().unwrap_or(1);
    shim.say(&format!(
        "Job 0 to start at {} using {cpus} processors on nodes (any) in partition {partition}",
        site.time(batch.begin.unwrap_or(site.now))
    ));
    Ok(0)
}
