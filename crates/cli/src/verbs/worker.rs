//! `bp worker`: the workers that run jobs, and whether they take more.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::job_users,
};
use base::units::human_bytes;
use clap::Subcommand;
use wire::control::{DrainWorker, GetStatus, WorkerInfo};

/// List workers, and let them take no more jobs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A worker that is drained takes no more jobs; those that run there go on. `bp worker list` shows when \
        no slot is taken any more."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the workers with their load
    List,
    /// Give a worker no more jobs
    Drain {
        /// The worker
        name: String,
    },
    /// Give a worker jobs again
    Resume {
        /// The worker
        name: String,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        Verb::List => list(context),
        Verb::Drain { name } => drain(name, true, context),
        Verb::Resume { name } => drain(name, false, context),
    }
}

fn drain(worker: String, drain: bool, context: &mut Context) -> Run {
    let news = if drain {
        format!("{worker} takes no more jobs; `bp worker list` shows when no slot is taken any more")
    } else {
        format!("{worker} takes jobs again")
    };
    let done = context.call(&DrainWorker { worker, drain })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    } else {
        context.output.news(news)?;
    }
    Ok(0)
}

fn list(context: &mut Context) -> Run {
    let workers = context.call(&GetStatus {})?.workers;
    if context.output.is_json() {
        context.output.json(&workers)?;
        return Ok(0);
    }
    if workers.is_empty() {
        context.output.news("no worker has registered yet")?;
        return Ok(0);
    }
    context.output.table(&table(&workers))?;
    Ok(0)
}

pub(super) fn table(workers: &[WorkerInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("worker"),
        Column::Left("host"),
        Column::Left("state"),
        Column::Right("slots"),
        Column::Right("load"),
        Column::Right("memory"),
        Column::Right("free"),
        Column::Right("scratch free"),
        Column::Left("labels"),
        Column::Left("runs jobs of"),
    ]);
    for worker in workers {
        let load = worker.load.unwrap_or_default();
        let bytes = |bytes: u64| if worker.load.is_some() { human_bytes(bytes) } else { String::new() };
        let labels = std::iter::once(&worker.architecture).chain(&worker.labels);
        let labels: Vec<&str> = labels.map(String::as_str).filter(|label| !label.is_empty()).collect();
        table.row([
            Cell::from(worker.name.as_str()),
            worker.host.as_str().into(),
            state(worker),
            format!("{} of {}", worker.cpus_used, worker.cpus).into(),
            worker.load.map(|_| hundredths(load.running_permille)).unwrap_or_default().into(),
            human_bytes(worker.memory_bytes).into(),
            bytes(load.memory_free_bytes).into(),
            bytes(load.scratch_free_bytes).into(),
            labels.join(" ").into(),
            job_users(&worker.users).into(),
        ]);
    }
    table
}

/// What a worker does now, in one word.
pub(crate) fn state(worker: &WorkerInfo) -> Cell {
    match (worker.is_available, worker.is_draining) {
        (false, _) => Cell::toned("silent", Tone::Bad),
        (true, true) if worker.cpus_used == 0 => Cell::from("drained"),
        (true, true) => Cell::from("draining"),
        (true, false) => Cell::from("up"),
    }
}

/// `1.25` for 1250 thousandths.
fn hundredths(permille: u64) -> String {
    format!("{}.{:02}", permille / 1000, permille % 1000 / 10)
}
