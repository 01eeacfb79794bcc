//! `qstat`: shows jobs and queues.

mod full;
mod table;

use super::{SERVER, UNKNOWN_JOB, id, read};
use crate::{
    context::Run,
    shims::{Shim, getopt::Parsed, jobs, site::Site},
};
use base::{ErrorKind, Failure};
use wire::control::{GetQueues, JobFilter, JobInfo, JobState, Jobs, QueueInfo, WaitCause};

/// The exit code for a job that is over, as OpenPBS has it.
const OVER: u8 = 35;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-f [-1]] [-a|-i|-r] [-n] [-s] [-x] [-u user_list] [job_identifier... | destination...], qstat -Q [-f] \
                 [destination...], qstat -B [-f] [server...]";
    let table = "1/ a/ B/ c/ E/ e/ f/ F/= G/ H/ i/ J/ l/ M/ n/ p/ q/ Q/ r/ R/ s/ t/ T/ u/= w/ W/= x/";
    let parsed = match read(shim, usage, table, arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let site = Site::here();
    if parsed.has("B") {
        return server(shim, &parsed);
    }
    if parsed.has("Q") || parsed.has("q") {
        return queues(shim, &parsed);
    }
    let (found, code) = match found(shim, &parsed)? {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let rows: Vec<JobInfo> = found.into_iter().filter(|job| is_wanted(job, &parsed)).collect();
    let lines = if parsed.has("f") {
        full::jobs(&rows, &site, parsed.has("1"))
    } else if ["a", "i", "r", "n", "s", "H", "u"].iter().any(|key| parsed.has(key)) {
        table::alternative(&rows, &site, parsed.has("n"), parsed.has("s"))
    } else {
        table::plain(&rows, &site)
    };
    lines.into_iter().try_for_each(|line| shim.line(line))?;
    Ok(code)
}

/// The jobs that are asked for, and the exit code; the code alone if there is nothing to show.
fn found(shim: &mut Shim, parsed: &Parsed) -> Run<Result<(Vec<JobInfo>, u8), u8>> {
    let with_over = parsed.has("x") || parsed.has("H");
    let users = parsed.list("u").into_iter().map(|user| user.split('@').next().unwrap_or(user).to_owned());
    let filter = JobFilter { owners: users.collect(), ..JobFilter::default() };
    let all = Jobs {
        active_only: !with_over,
        elements: true,
        brief: true,
        limit: Some(jobs::LIMIT),
        filter,
        ..Jobs::default()
    };
    if parsed.operands.is_empty() {
        let mut found = jobs::list(shim, all)?;
        found.sort_by_key(|job| job.id);
        return Ok(Ok((found, 0)));
    }
    let (mut rows, mut code) = (Vec::new(), 0);
    for word in &parsed.operands {
        match id::selection(word) {
            Some(select) => {
                let named =
                    if parsed.has("f") { jobs::whole(shim, &[select])? } else { jobs::of(shim, &[select])? };
                let is_over = !named.is_empty() && named.iter().all(|job| job.state.is_over());
                if named.is_empty() {
                    shim.say(&format!("Unknown Job Id {word}"));
                    code = UNKNOWN_JOB;
                } else if is_over && !with_over {
                    shim.say(&format!(
                        "{word} Job has finished, use -x or -H to obtain historical job information"
                    ));
                    code = OVER;
                }
                rows.extend(named.into_iter().filter(|job| with_over || !job.state.is_over()));
            }
            None => match id::queue(word) {
                Some(queue) => {
                    let mut call = all.clone();
                    call.filter.queues = vec![known_queue(shim, queue)?.name];
                    rows.extend(jobs::list(shim, call)?);
                }
                None => rows.extend(jobs::list(shim, all.clone())?),
            },
        }
    }
    Ok(if rows.is_empty() && code > 0 { Err(code) } else { Ok((rows, code)) })
}

fn known_queue(shim: &mut Shim, name: &str) -> base::Result<QueueInfo> {
    let queues = shim.call(&GetQueues {})?.queues;
    queues.into_iter().find(|queue| queue.name == name).ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, format!("Unknown queue {name}")).hint("`qstat -Q` shows the queues")
    })
}

fn is_wanted(job: &JobInfo, parsed: &Parsed) -> bool {
    let state = letter(job);
    (!parsed.has("i") || "QHW".contains(state)) && (!parsed.has("r") || "RE".contains(state))
}

/// The state of a job as a letter.
pub(super) fn letter(job: &JobInfo) -> char {
    match (job.state, job.waits_for) {
        (JobState::Held, Some(WaitCause::BeginTime | WaitCause::Retry)) => 'W',
        (JobState::Held, _) => 'H',
        (JobState::Queued, _) => 'Q',
        (JobState::Running, _) => 'R',
        (JobState::Archiving, _) => 'E',
        (JobState::Done | JobState::Failed | JobState::Cancelled, _) => 'F',
    }
}

fn queues(shim: &mut Shim, parsed: &Parsed) -> Run {
    let mut queues = shim.call(&GetQueues {})?.queues;
    let names: Vec<&str> = parsed.operands.iter().filter_map(|word| id::queue(word)).collect();
    if let Some(unknown) = names.iter().find(|name| queues.iter().all(|queue| queue.name != **name)) {
        shim.say(&format!("Unknown queue {unknown}"));
        return Ok(170);
    }
    queues.retain(|queue| names.is_empty() || names.contains(&queue.name.as_str()));
    let lines = if parsed.has("f") { full::queues(&queues) } else { table::queues(&queues) };
    lines.into_iter().try_for_each(|line| shim.line(line))?;
    Ok(0)
}

fn server(shim: &mut Shim, parsed: &Parsed) -> Run {
    let queues = shim.call(&GetQueues {})?.queues;
    let lines = if parsed.has("f") { full::server(&queues) } else { table::server(&queues) };
    lines.into_iter().try_for_each(|line| shim.line(line))?;
    Ok(0)
}

/// The server's host, as the commands name it.
fn server_name() -> &'static str {
    SERVER
}
