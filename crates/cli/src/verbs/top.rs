//! `bp top`: what runs and what waits now, again and again.

use super::{jobs, worker};
use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words::counted,
};
use base::{Failure, Result, Timestamp, units::Span};
use serde::Serialize;
use std::{collections::BTreeMap, thread, time::Duration};
use wire::control::{GetQueues, GetStatus, JobFilter, JobInfo, JobState, Jobs, QueueInfo, WorkerInfo};

/// Pause between two looks unless somebody says another.
const EVERY: &str = "2s";
/// The head is asked no more often.
const EVERY_MIN: Duration = Duration::from_millis(200);
/// Jobs that are asked for: more fit no terminal.
const JOBS_MAX: u32 = 1000;
/// Running jobs that are shown where the output has no height.
const ROWS_MAX: usize = 20;

/// Show what runs and what waits, again and again
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal it refreshes the screen until you interrupt it; elsewhere it prints once."
)]
pub(crate) struct Args {
    /// Pause between two looks
    #[arg(long, value_name = "TIME", default_value = EVERY, value_parser = pause)]
    every: Duration,
    /// Look so often, then end [default: once, on a terminal until interrupted]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

fn pause(text: &str) -> Result<Duration> {
    let span: Span = text.parse()?;
    let every = Duration::from_millis(span.0.0.max(0).unsigned_abs());
    if every < EVERY_MIN {
        return Err(Failure::invalid(format!("{text} is too short a pause: 200ms is the shortest")));
    }
    Ok(every)
}

/// What one look has seen.
#[derive(Debug, Serialize)]
struct Seen {
    now: Timestamp,
    queues: Vec<QueueInfo>,
    workers: Vec<WorkerInfo>,
    /// The longest first.
    running: Vec<JobInfo>,
    /// More run: these are the newest.
    is_cut: bool,
}

impl Seen {
    fn look(context: &mut Context) -> Run<Self> {
        let status = context.call(&GetStatus {})?;
        let filter = JobFilter { states: vec![JobState::Running], ..JobFilter::default() };
        let ask = Jobs { filter, elements: true, brief: true, limit: Some(JOBS_MAX), ..Jobs::default() };
        let list = context.call(&ask)?;
        let (mut running, is_cut) = (list.jobs, list.is_cut);
        running.sort_by_key(|job| (job.started, job.id));
        let queues = context.call(&GetQueues {})?.queues;
        Ok(Self { now: status.now, queues, workers: status.workers, running, is_cut })
    }

    /// The first line: slots, and jobs by what they do.
    fn summary(&self) -> String {
        let sum = |of: fn(&QueueInfo) -> u64| self.queues.iter().map(of).sum::<u64>();
        let slots: u32 = self.workers.iter().map(|worker| worker.cpus).sum();
        let used: u32 = self.workers.iter().map(|worker| worker.cpus_used).sum();
        format!(
            "{used} of {}; {} running, {} queued, {} held",
            counted(slots.into(), "slot", "slots"),
            counted(sum(|queue| queue.running), "job", "jobs"),
            sum(|queue| queue.queued),
            sum(|queue| queue.held)
        )
    }

    /// Who has jobs that run, those with most slots first.
    fn owners(&self) -> Table {
        let mut owners: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for job in &self.running {
            let (jobs, slots) = owners.entry(&job.owner).or_default();
            *jobs += 1;
            *slots += u64::from(job.spec.resources.cpus);
        }
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by_key(|(owner, (_, slots))| (std::cmp::Reverse(*slots), *owner));
        let mut table = Table::new([Column::Text("owner"), Column::Right("running"), Column::Right("slots")]);
        for (owner, (jobs, slots)) in owners {
            table.row([Cell::from(owner), jobs.to_string().into(), slots.to_string().into()]);
        }
        table
    }

    fn queues(&self) -> Table {
        let columns = [Column::Right("running"), Column::Right("queued"), Column::Right("held")];
        let mut table = Table::new([Column::Text("queue")].into_iter().chain(columns).collect::<Vec<_>>());
        for queue in &self.queues {
            table.row([
                Cell::from(queue.name.as_str()),
                queue.running.to_string().into(),
                queue.queued.to_string().into(),
                queue.held.to_string().into(),
            ]);
        }
        table
    }

    fn show(&self, context: &mut Context) -> Run<()> {
        let output = &mut context.output;
        output.line(self.summary())?;
        let shown = &self.running[..self.running.len().min(ROWS_MAX)];
        let (owners, running) = if self.is_cut {
            ("Owners of the newest 1000", "Running, the longest of the newest 1000")
        } else {
            ("Owners", "Running, the longest first")
        };
        let tables = [
            ("Workers", worker::table(&self.workers)),
            ("Queues", self.queues()),
            (owners, self.owners()),
            (running, jobs::table(shown, self.now)),
        ];
        for (title, table) in tables.iter().filter(|(_, table)| !table.is_empty()) {
            output.titled(title, table)?;
        }
        Ok(())
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let is_screen = context.output.columns().is_some() && !context.output.is_json();
    let mut left = args.count.or_else(|| (!is_screen).then_some(1));
    loop {
        let seen = Seen::look(context)?;
        if context.output.is_json() {
            context.output.json(&seen)?;
        } else {
            if is_screen {
                context.output.clear_screen()?;
            }
            seen.show(context)?;
        }
        context.output.flush()?;
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(0);
        }
        thread::sleep(args.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;

    #[test]
    fn owners_with_most_slots_come_first() {
        let job = |id, owner: &str, cpus| {
            let mut job = sample::running(id);
            job.owner = owner.to_owned();
            job.spec.resources.cpus = cpus;
            job
        };
        let running = vec![job(1, "ada", 1), job(2, "bob", 4), job(3, "ada", 1)];
        let seen =
            Seen { now: Timestamp(0), queues: Vec::new(), workers: Vec::new(), running, is_cut: false };
        let text = seen.owners().render(None, false);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [["bob", "1", "4"], ["ada", "2", "2"]]);
    }

    #[test]
    fn pauses_have_a_unit_and_a_bound() {
        assert_eq!(pause("2s").unwrap(), Duration::from_secs(2));
        assert!(pause("1ms").is_err() && pause("x").is_err());
    }
}
