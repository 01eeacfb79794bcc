//! `qselect`: names the jobs to which all that is asked applies.

use super::{date, id, qstat::letter, read, resources};
use crate::{
    context::Run,
    shims::{Shim, getopt::Parsed, jobs, site::Site},
};
use std::cmp::Ordering;
use wire::control::{HoldKind, JobFilter, JobInfo, Jobs};

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-a [op]date_time][-A account_string][-c [op]interval][-h hold_list][-l resource_list][-N name][-p \
                 [op]priority][-q destination][-r y|n][-s states][-u user_list]";
    let parsed = match read(
        shim,
        usage,
        "a/= A/= c/= h/= J/ l/= N/= p/= q/= r/= s/= T/ t/= u/= x/ P/= H/",
        arguments,
    )? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    if let Some(key) = ["u", "q"].into_iter().find(|key| parsed.has(key) && parsed.list(key).is_empty()) {
        // What it prints is often removed: a variable that is not set must not mean all jobs.
        shim.say(&format!("illegal -{key} value"));
        return Ok(2);
    }
    let site = Site::here();
    let filter = JobFilter {
        owners: parsed
            .list("u")
            .iter()
            .map(|user| user.split('@').next().unwrap_or(user).to_owned())
            .collect(),
        names: parsed.last("N").map(str::to_owned).into_iter().collect(),
        queues: parsed.last("q").and_then(id::queue).map(str::to_owned).into_iter().collect(),
        ..JobFilter::default()
    };
    let is_active = !parsed.has("x") && !parsed.has("H");
    let call = Jobs {
        active_only: is_active,
        elements: true,
        brief: true,
        limit: Some(jobs::LIMIT),
        filter,
        ..Jobs::default()
    };
    for job in jobs::list(shim, call)? {
        match is_meant(&job, &parsed, &site) {
            Ok(true) => shim.line(id::shown(&job))?,
            Ok(false) => {}
            Err(key) => {
                shim.say(&format!("illegal -{key} value"));
                return Ok(2);
            }
        }
    }
    Ok(0)
}

/// Whether all that is asked applies to a job; the option that makes no sense.
fn is_meant(job: &JobInfo, parsed: &Parsed, site: &Site) -> Result<bool, &'static str> {
    if let Some(text) = parsed.last("a") {
        let (op, text) = operator(text);
        let time = date::read(text, &site.calendar, site.now).ok_or("a")?;
        if !job.spec.begin.is_some_and(|begin| op(begin.cmp(&time))) {
            return Ok(false);
        }
    }
    if let Some(text) = parsed.last("p") {
        let (op, text) = operator(text);
        let priority: i32 = text.parse().map_err(|_| "p")?;
        if !op(job.priority.cmp(&priority)) {
            return Ok(false);
        }
    }
    if let Some(text) = parsed.last("l") {
        for one in text.split(',') {
            if !has_resource(job, one).ok_or("l")? {
                return Ok(false);
            }
        }
    }
    let is_rerunnable = match parsed.last("r") {
        None => job.spec.rerunnable,
        Some("y") => true,
        Some("n") => false,
        Some(_) => return Err("r"),
    };
    let has_account = parsed.last("A").is_none_or(|account| job.spec.account.as_deref() == Some(account));
    let has_state = parsed.last("s").is_none_or(|states| states.contains(letter(job)));
    Ok(is_rerunnable == job.spec.rerunnable && has_account && has_state && has_holds(job, parsed)?)
}

fn has_holds(job: &JobInfo, parsed: &Parsed) -> Result<bool, &'static str> {
    let Some(text) = parsed.last("h") else { return Ok(true) };
    let mut wanted: Vec<HoldKind> = super::control::holds(text).ok_or("h")?;
    wanted.sort();
    let mut holds = job.holds.clone();
    holds.sort();
    Ok(wanted == holds)
}

/// `mem.gt.1gb`, `ncpus=2`.
fn has_resource(job: &JobInfo, text: &str) -> Option<bool> {
    let at = text.find(['.', '='])?;
    let (op, value) = operator(&text[at..]);
    let value = value.trim_start_matches('=');
    let wish = job.spec.resources;
    Some(match &text[..at] {
        "ncpus" => op(wish.cpus.cmp(&value.parse().ok()?)),
        "mem" => op(wish.memory_bytes.cmp(&resources::bytes(value)?)),
        "walltime" => op(wish.wall.cmp(&resources::span(value)?)),
        _ => return None,
    })
}

/// `.gt.5` is a comparison and what it compares with; without one, equality.
fn operator(text: &str) -> (fn(Ordering) -> bool, &str) {
    for (word, op) in [
        (".eq.", Ordering::is_eq as fn(Ordering) -> bool),
        (".ne.", Ordering::is_ne),
        (".ge.", Ordering::is_ge),
        (".gt.", Ordering::is_gt),
        (".le.", Ordering::is_le),
        (".lt.", Ordering::is_lt),
    ] {
        if let Some(rest) = text.strip_prefix(word) {
            return (op, rest);
        }
    }
    (Ordering::is_eq, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{
        getopt::{Order, parse},
        sample,
    };
    use wire::control::JobState;

    fn meant(line: &str) -> Result<bool, &'static str> {
        let parsed =
            parse("a/= A/= h/= l/= p/= r/= s/=", Order::OptionsFirst, line.split(' ').map(str::to_owned))
                .unwrap();
        let mut job =
            JobInfo { state: JobState::Held, holds: vec![HoldKind::User], priority: 5, ..sample::job(1) };
        job.spec.account = Some("higgs".to_owned());
        is_meant(&job, &parsed, &sample::site())
    }

    #[test]
    fn jobs_are_selected_by_what_they_are() {
        for (line, expected) in [
            ("-A higgs", Ok(true)),
            ("-A top", Ok(false)),
            ("-p 5", Ok(true)),
            ("-p .gt.5", Ok(false)),
            ("-p .le.5 -s HQ", Ok(true)),
            ("-s R", Ok(false)),
            ("-h u", Ok(true)),
            ("-h n", Ok(false)),
            ("-r n", Ok(true)),
            ("-r y", Ok(false)),
            ("-l ncpus=1", Ok(true)),
            ("-l walltime.gt.1:00:00", Ok(false)),
            ("-a .gt.0800", Ok(false)),
            ("-l bogus=1", Err("l")),
            ("-p x", Err("p")),
            ("-h x", Err("h")),
        ] {
            assert_eq!(meant(line), expected, "{line}");
        }
    }
}
