//! `qdel`, `qhold`, `qrls`, `qmove`, `qrerun`, `qsig`, `qmsg`: what is done to jobs that exist.

use super::{SERVER, UNKNOWN_JOB, id, read};
use crate::{
    context::Run,
    shims::{Shim, signal},
};
use base::{ErrorKind, Result};
use wire::control::{
    CancelJobs, HoldJobs, HoldKind, JobOutcomes, JobSelection, MessageJobs, MoveJobs, ReleaseJobs, RerunJobs,
    SignalJobs,
};

/// The exit code for jobs that cannot be changed so, as OpenPBS has it.
const BAD_STATE: u8 = 168;

/// Carries out a call for the jobs that words name, and says what was refused.
pub(super) fn of_jobs(
    shim: &mut Shim,
    words: &[String],
    usage: &str,
    call: impl FnOnce(&mut Shim, Vec<JobSelection>) -> Result<JobOutcomes>,
) -> Run {
    let program = shim.program;
    if words.is_empty() {
        shim.plain_error(&format!("usage: {program} {usage}"));
        return Ok(2);
    }
    let mut code = 0;
    let mut select = Vec::new();
    for word in words {
        match id::selection(word) {
            Some(one) => select.push(one),
            None => {
                shim.say(&format!("illegally formed job identifier: {word}"));
                code = 1;
            }
        }
    }
    if select.is_empty() {
        return Ok(code);
    }
    for outcome in call(shim, select)?.outcomes {
        let Some(failure) = outcome.failure else { continue };
        code = match failure.kind {
            ErrorKind::NotFound => {
                shim.say(&format!("Unknown Job Id {}.{SERVER}", outcome.jobs));
                UNKNOWN_JOB
            }
            ErrorKind::Permission => {
                shim.say(&format!("Unauthorized Request {}.{SERVER}", outcome.jobs));
                159
            }
            _ => {
                shim.say(&format!("{} {}.{SERVER}", failure.what, outcome.jobs));
                BAD_STATE
            }
        };
    }
    Ok(code)
}

/// `qdel`: ends jobs.
pub(crate) fn qdel(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "job_identifier...";
    match read(shim, usage, "W/= p/ x/ m/= h/help", arguments)? {
        Ok(parsed) => of_jobs(shim, &parsed.operands, usage, |shim, jobs| shim.call(&CancelJobs { jobs })),
        Err(code) => Ok(code),
    }
}

/// `qrerun`: ends runs, and runs the jobs again.
pub(crate) fn qrerun(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "job_identifier...";
    match read(shim, usage, "W/=", arguments)? {
        Ok(parsed) => of_jobs(shim, &parsed.operands, usage, |shim, jobs| shim.call(&RerunJobs { jobs })),
        Err(code) => Ok(code),
    }
}

/// `qhold [-h u|o|s|n]`: holds jobs.
pub(crate) fn qhold(shim: &mut Shim, arguments: Vec<String>) -> Run {
    of_holds(shim, arguments, hold)
}

/// `qrls [-h u|o|s|n]`: releases jobs.
pub(crate) fn qrls(shim: &mut Shim, arguments: Vec<String>) -> Run {
    of_holds(shim, arguments, |shim, jobs, holds| {
        each(holds, |hold| shim.call(&ReleaseJobs { jobs: jobs.to_vec(), hold: Some(hold) }))
    })
}

/// Makes a call for the jobs and holds that a command line names.
fn of_holds(
    shim: &mut Shim,
    arguments: Vec<String>,
    call: impl FnOnce(&mut Shim, &[JobSelection], &[HoldKind]) -> Result<JobOutcomes>,
) -> Run {
    let usage = "[-h hold_list] job_identifier...";
    let parsed = match read(shim, usage, "h/=", arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let Some(holds) = holds(parsed.last("h").unwrap_or("u")) else {
        let program = shim.program;
        shim.say("illegal -h value");
        shim.plain_error(&format!("usage: {program} {usage}"));
        return Ok(2);
    };
    of_jobs(shim, &parsed.operands, usage, |shim, jobs| call(shim, &jobs, &holds))
}

/// Holds jobs in each of these ways.
pub(super) fn hold(shim: &mut Shim, jobs: &[JobSelection], holds: &[HoldKind]) -> Result<JobOutcomes> {
    each(holds, |hold| shim.call(&HoldJobs { jobs: jobs.to_vec(), hold: Some(hold) }))
}

fn each(holds: &[HoldKind], mut call: impl FnMut(HoldKind) -> Result<JobOutcomes>) -> Result<JobOutcomes> {
    let mut all = JobOutcomes::default();
    for hold in holds {
        all.outcomes.extend(call(*hold)?.outcomes);
    }
    Ok(all)
}

/// Letters of holds; `n` is none.
pub(super) fn holds(text: &str) -> Option<Vec<HoldKind>> {
    let mut found = Vec::new();
    for letter in text.chars() {
        found.push(match letter {
            'u' => HoldKind::User,
            'o' => HoldKind::Operator,
            's' => HoldKind::System,
            'n' if text == "n" => return Some(Vec::new()),
            'p' | ',' => continue,
            _ => return None,
        });
    }
    found.dedup();
    (!text.is_empty()).then_some(found)
}

/// `qmove queue[@server] job…`: moves jobs to another queue.
pub(crate) fn qmove(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "destination job_identifier...";
    let parsed = match read(shim, usage, "", arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let Some((destination, words)) = parsed.operands.split_first().filter(|(_, words)| !words.is_empty())
    else {
        shim.plain_error(&format!("usage: qmove {usage}"));
        return Ok(2);
    };
    let Some(queue) = id::queue(destination).map(str::to_owned) else {
        return shim.refuse(&format!("illegally formed destination: {destination}"), 2);
    };
    of_jobs(shim, words, usage, |shim, jobs| shim.call(&MoveJobs { jobs, queue }))
}

/// `qsig [-s signal] job…`: sends a signal.
pub(crate) fn qsig(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-s signal] job_identifier...";
    let parsed = match read(shim, usage, "s/=", arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let name = parsed.last("s").unwrap_or("SIGTERM");
    let Some(signal) = signal::number(name) else {
        shim.say(&format!("unknown signal: {name}"));
        return Ok(1);
    };
    of_jobs(shim, &parsed.operands, usage, |shim, jobs| shim.call(&SignalJobs { jobs, signal }))
}

/// `qmsg [-EO] text job…`: writes a line to the output of jobs.
pub(crate) fn qmsg(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-EO] message_string job_identifier...";
    let parsed = match read(shim, usage, "E/ O/", arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let Some((text, words)) = parsed.operands.split_first().filter(|(_, words)| !words.is_empty()) else {
        shim.plain_error(&format!("usage: qmsg {usage}"));
        return Ok(2);
    };
    let mut code = 0;
    for to_stdout in [false, true] {
        if if to_stdout { parsed.has("O") } else { parsed.has("E") || !parsed.has("O") } {
            let call =
                |shim: &mut Shim, jobs| shim.call(&MessageJobs { jobs, text: text.clone(), to_stdout });
            code = code.max(of_jobs(shim, words, usage, call)?);
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_have_letters() {
        assert_eq!(holds("u"), Some(vec![HoldKind::User]));
        assert_eq!(holds("uos"), Some(vec![HoldKind::User, HoldKind::Operator, HoldKind::System]));
        assert_eq!(holds("n"), Some(Vec::new()));
        assert_eq!((holds("x"), holds(""), holds("un")), (None, None, None));
    }
}
