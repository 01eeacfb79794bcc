//! `qalter`: changes jobs that wait.

use super::{
    control::{self, of_jobs},
    date,
    qsub::depend,
    read,
    resources::Wish,
};
use crate::{
    context::Run,
    shims::{Shim, getopt::Parsed, site::Site},
};
use wire::control::{AlterJobs, JobChange, JobOutcomes, ReleaseJobs};

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-a date_time][-h hold_list][-l resource_list][-N name][-p priority][-W depend=list] job_identifier...";
    let table = "a/= A/= c/= e/= h/= j/= k/= l/= m/= M/= N/= o/= P/= p/= r/= S/= u/= W/=";
    let parsed = match read(shim, usage, table, arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let change = match change(&parsed, &Site::here()) {
        Ok(change) => change,
        Err(refusal) => {
            shim.say(&refusal);
            return Ok(2);
        }
    };
    let holds = parsed.last("h").and_then(control::holds);
    of_jobs(shim, &parsed.operands, usage, |shim, jobs| {
        let mut outcomes = JobOutcomes::default();
        if change != JobChange::default() {
            outcomes.outcomes.extend(shim.call(&AlterJobs { jobs: jobs.clone(), change })?.outcomes);
        }
        match holds.as_deref() {
            Some([]) => outcomes.outcomes.extend(shim.call(&ReleaseJobs { jobs, hold: None })?.outcomes),
            Some(holds) => outcomes.outcomes.extend(control::hold(shim, &jobs, holds)?.outcomes),
            None => {}
        }
        Ok(outcomes)
    })
}

/// What changes; what cannot be changed of a job that was submitted is refused.
fn change(parsed: &Parsed, site: &Site) -> Result<JobChange, String> {
    let mut change = JobChange::default();
    for given in &parsed.options {
        let text = given.text();
        let bad = || format!("illegal -{} value: {text}", given.key);
        match given.key {
            "a" => change.begin = Some(date::read(text, &site.calendar, site.now).ok_or_else(bad)?),
            "N" => change.name = Some(text.to_owned()),
            "p" => change.priority = Some(text.parse().map_err(|_| bad())?),
            "l" => {
                let mut wish = Wish::default();
                wish.apply(text)?;
                change.cpus = wish.cpus.or(change.cpus);
                change.memory_bytes = wish.memory_bytes.or(change.memory_bytes);
                change.wall = wish.wall.or(change.wall);
            }
            "W" => change.dependencies = Some(depend(text)?.ok_or_else(bad)?),
            "h" if control::holds(text).is_none() => return Err(bad()),
            "h" | "m" | "M" | "c" => {}
            key => return Err(format!("-{key} cannot be changed here after submission")),
        }
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{
        getopt::{Order, parse},
        sample,
    };
    use base::Millis;

    fn read(line: &str) -> Result<JobChange, String> {
        let table = "a/= A/= h/= l/= N/= p/= W/=";
        let parsed = parse(table, Order::OptionsFirst, line.split(' ').map(str::to_owned)).unwrap();
        change(&parsed, &sample::site())
    }

    #[test]
    fn options_become_changes() {
        let change = read("-N x -p -5 -l walltime=60 -l ncpus=2 -W depend=afterok:3").unwrap();
        assert_eq!((change.name.as_deref(), change.priority, change.cpus), (Some("x"), Some(-5), Some(2)));
        assert_eq!(change.wall, Some(Millis::from_seconds(60)));
        assert_eq!(change.dependencies.unwrap().len(), 1);
        for bad in ["-p x", "-a x", "-A acct", "-h x", "-W depend=x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
