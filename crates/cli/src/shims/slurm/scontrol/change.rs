//! `scontrol update jobid=7 timelimit=20 partition=long`.

use super::{selected, told};
use crate::{
    context::Run,
    shims::{
        Shim,
        slurm::{memory, sbatch, site::Site, span},
    },
};
use wire::control::{AlterJobs, HoldJobs, JobChange, JobSelection, MoveJobs, PRIORITY, ReleaseJobs};

/// What is to be done to jobs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Update {
    jobs: Vec<String>,
    change: JobChange,
    queue: Option<String>,
    /// Priority 0 holds a job, another one releases it.
    held: Option<bool>,
    /// Keys that were read.
    count: usize,
}

/// Changes jobs.
pub(super) fn run(shim: &mut Shim, words: &[&str]) -> Run {
    let update = match read(words, &Site::here()) {
        Ok(update) => update,
        Err(refusal) => {
            shim.plain_error(&refusal);
            return Ok(1);
        }
    };
    let names: Vec<&str> = update.jobs.iter().map(String::as_str).collect();
    let Some(jobs) = selected(shim, &names) else { return Ok(1) };
    if update.count == 0 {
        shim.plain_error("No changes specified");
        return Ok(1);
    }
    carry_out(shim, &update, &jobs)
}

fn carry_out(shim: &mut Shim, update: &Update, jobs: &[JobSelection]) -> Run {
    let mut code = 0;
    let jobs = || jobs.to_vec();
    if update.change != JobChange::default() {
        let outcomes = shim.call(&AlterJobs { jobs: jobs(), change: update.change.clone() })?;
        code = code.max(told(shim, &outcomes));
    }
    if let Some(queue) = update.queue.clone() {
        let outcomes = shim.call(&MoveJobs { jobs: jobs(), queue })?;
        code = code.max(told(shim, &outcomes));
    }
    match update.held {
        Some(true) => {
            let outcomes = shim.call(&HoldJobs { jobs: jobs(), hold: None })?;
            code = code.max(told(shim, &outcomes));
        }
        Some(false) => {
            let outcomes = shim.call(&ReleaseJobs { jobs: jobs(), hold: None })?;
            code = code.max(told(shim, &outcomes));
        }
        None => {}
    }
    Ok(code)
}

/// Reads `key=value` words; `job 7` stands for `jobid=7`.
fn read(words: &[&str], site: &Site) -> Result<Update, String> {
    let mut update = Update::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((key, value)) => set(&mut update, key, value, site)?,
            None if matches!(word.to_ascii_lowercase().as_str(), "job" | "jobid") => {
                update.jobs.extend(words.next().map(|job| (*job).to_owned()));
            }
            None => return Err(unsupported(word)),
        }
    }
    if update.jobs.is_empty() {
        return Err("No valid entity in update command\nInput line must include \"JobId\": only jobs are updated here"
            .to_owned());
    }
    Ok(update)
}

fn unsupported(word: &str) -> String {
    format!("Update of this parameter is not supported: {word}\nRequest aborted")
}

fn set(update: &mut Update, key: &str, value: &str, site: &Site) -> Result<(), String> {
    let bad = || format!("Invalid {key} value: {value}");
    let change = &mut update.change;
    match key.to_ascii_lowercase().as_str() {
        "jobid" | "job" => {
            update.jobs.push(value.to_owned());
            return Ok(());
        }
        "timelimit" => {
            change.wall = Some(span::limit(value).ok_or_else(bad)?.wall());
        }
        "jobname" | "name" => change.name = Some(value.to_owned()),
        "priority" => {
            let priority: i64 = value.parse().map_err(|_| bad())?;
            update.held = Some(priority == 0);
        }
        "nice" => {
            let nice: i32 = if value.is_empty() { 100 } else { value.parse().map_err(|_| bad())? };
            change.priority = Some(nice.saturating_neg().clamp(*PRIORITY.start(), *PRIORITY.end()));
        }
        "numcpus" | "mincpusnode" => {
            change.cpus = Some(value.split('-').next().and_then(|cpus| cpus.parse().ok()).ok_or_else(bad)?);
        }
        "minmemorynode" => change.memory_bytes = Some(memory::bytes(value).ok_or_else(bad)?),
        "starttime" | "eligibletime" => {
            change.begin = Some(site.calendar.read(value, site.now).ok_or_else(bad)?);
        }
        "deadline" => change.deadline = Some(site.calendar.read(value, site.now).ok_or_else(bad)?),
        "dependency" => change.dependencies = Some(sbatch::dependencies_read(value)?),
        "arraytaskthrottle" => change.running_max = Some(value.parse().map_err(|_| bad())?),
        "partition" | "partitionname" => update.queue = Some(value.to_owned()),
        _ => return Err(unsupported(&format!("{key}={value}"))),
    }
    update.count += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::slurm::sample;
    use base::Millis;

    fn update(line: &str) -> Result<Update, String> {
        read(&line.split(' ').collect::<Vec<_>>(), &sample::site())
    }

    #[test]
    fn words_become_changes() {
        let read = update(
            "jobid=7 TimeLimit=20 Partition=long JobName=x Nice=3 StartTime=now+1hour ArrayTaskThrottle=4",
        )
        .unwrap();
        assert_eq!((read.jobs, read.queue.as_deref(), read.count), (vec!["7".to_owned()], Some("long"), 6));
        let expected = JobChange {
            wall: Some(Millis::from_seconds(1200)),
            name: Some("x".to_owned()),
            priority: Some(-3),
            begin: Some(sample::NOW + Millis::from_seconds(3600)),
            running_max: Some(4),
            ..JobChange::default()
        };
        assert_eq!(read.change, expected);
        assert_eq!(update("job 7 priority=0").unwrap().held, Some(true));
        assert_eq!(update("jobid=7").unwrap().count, 0);
    }

    #[test]
    fn refusals_are_those_of_scontrol() {
        assert_eq!(
            update("job 4 foo=bar").unwrap_err(),
            "Update of this parameter is not supported: foo=bar\nRequest aborted"
        );
        assert!(update("nodename=n1 state=drain").is_err());
        assert!(update("jobid=4 timelimit=x").is_err());
    }
}
