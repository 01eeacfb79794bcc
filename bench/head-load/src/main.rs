//! `head-load`: what one head does in a second, without doors: creates, look-ups, opens and listings on a catalogue of any
//! engine and size. One line of JSON says how it went.

mod facility;
mod work;

use base::{Failure, Result, units::Span};
use clap::{Parser, Subcommand};
use head::store::Catalogue;
use serde::Serialize;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// What one head does in a second.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The catalogue: a file, or the URL of a PostgreSQL database
    #[arg(long)]
    catalogue: String,
    /// Measure for this long
    #[arg(long, default_value = "2s")]
    duration: Span,
    /// Clients that call at the same time
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Files that the facility was filled with
    #[arg(long, default_value_t = 10_000)]
    files: u64,
    /// Files of one directory of these
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    per_directory: u64,
    /// The partition that its files are said to be on
    #[arg(long, default_value = "disk1")]
    partition: String,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Task {
    /// Makes a facility, if there is none, and fills it with so many files
    Fill {
        /// How many
        files: u64,
    },
    /// Makes directories, one after the other
    Mkdir,
    /// Begins files: each has a name and a reserved object when it is answered
    Create,
    /// Makes whole files: begun and committed
    Write,
    /// Looks names up by calls from other threads
    Lookup,
    /// Looks names up on the head's own thread
    LookupInside,
    /// Opens files for reading
    Open,
    /// Lists one directory of all
    List,
}

/// How it went.
#[derive(Debug, Serialize)]
struct Report {
    task: String,
    clients: usize,
    operations: u64,
    seconds: f64,
    operations_per_s: f64,
    /// Of the median call and the slowest hundredth.
    p50_us: f64,
    p99_us: f64,
    start_s: f64,
    rss_mib: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(report) => {
            let line = serde_json::to_string(&report).expect("plain data always serialises");
            // Nobody may listen any more.
            let _ = writeln!(std::io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn catalogue(text: &str) -> Catalogue {
    if text.starts_with("postgres") {
        Catalogue::Database(text.to_owned())
    } else {
        Catalogue::File(PathBuf::from(text))
    }
}

fn run(arguments: &Arguments) -> Result<Report> {
    let catalogue = catalogue(&arguments.catalogue);
    if matches!(arguments.task, Task::Fill { .. }) {
        facility::create(&catalogue)?;
    }
    let (core, start_s) = facility::open(&catalogue, &arguments.partition)?;
    let measured = work::measure(core, arguments)?;
    let operations = measured.operations;
    Ok(Report {
        task: format!("{:?}", arguments.task).to_lowercase(),
        clients: arguments.clients,
        operations,
        seconds: measured.seconds,
        operations_per_s: operations as f64 / measured.seconds,
        p50_us: measured.quantile_us(0.5),
        p99_us: measured.quantile_us(0.99),
        start_s,
        rss_mib: rss_mib()?,
    })
}

/// Memory of this process.
fn rss_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|cause| Failure::io("read /proc/self/status", &cause))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse().ok());
    Ok(kib.unwrap_or(0.0) / 1024.0)
}
