//! `rfio-load`: asks a server of the XRootD protocol as fast as it answers, counts and discards.
//!
//! It does as little as a client can, so that the server is what is measured. One line of JSON says how it went.

mod answers;
mod engine;
mod link;
mod pattern;
mod report;
mod room;
mod session;
mod work;

use base::{
    Failure, Result,
    units::{Size, Span},
};
use clap::{Parser, Subcommand};
use std::{
    io::Write,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// Asks a server of the XRootD protocol as fast as it answers, counts and discards.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Measures
    Run(Box<Run>),
    /// Writes a file whose data can be checked
    Fill {
        /// The file
        file: PathBuf,
        /// Its size
        size: Size,
    },
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Host and port
    #[arg(long)]
    server: String,
    /// The file; {n} stands for the number of the session, {r} for a random number and {d} for the thousands of it
    #[arg(long)]
    path: String,
    /// The random number is below this
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Sessions at the same time
    #[arg(long, default_value_t = 1)]
    sessions: usize,
    /// Threads that share the sessions [default: one for each processor]
    #[arg(long)]
    threads: Option<usize>,
    /// Stop after so many requests of each session [default: the file once]
    #[arg(long)]
    count: Option<u64>,
    /// Stop asking after this time
    #[arg(long)]
    duration: Option<Span>,
    /// Requests a second of all sessions together; an answer is as late as it comes after its request was due
    /// [default: as many as are answered]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Check data: the file was written by `rfio-load fill`
    #[arg(long)]
    pattern: bool,
    /// Bytes received at once
    #[arg(long, default_value = "256KiB")]
    buffer: Size,
    #[command(subcommand)]
    mode: work::Mode,
}

/// Sessions of one process: as many as the kernel gives file descriptors and ports to a test machine.
const SESSIONS_MAX: usize = 10_000;
/// Largest receive buffer that makes sense.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Run(run) => measure(&run),
        Task::Fill { file, size } => pattern::fill(&file, size.0).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            let hint = failure.hint.as_deref().map(|hint| format!("\nhint: {hint}"));
            // Nobody is left to tell if the terminal is gone.
            let _ = writeln!(std::io::stderr(), "rfio-load: {failure}{}", hint.unwrap_or_default());
            ExitCode::from(failure.kind.exit_code())
        }
    }
}

/// Measures and prints; whether no session failed.
fn measure(run: &Run) -> Result<bool> {
    let plan = plan(run)?;
    let report = engine::run(&plan)?;
    let line = serde_json::to_string(&report).map_err(|cause| Failure::invalid(cause.to_string()))?;
    writeln!(std::io::stdout(), "{line}").map_err(|cause| Failure::io("print", &cause))?;
    Ok(report.failed == 0)
}

fn plan(run: &Run) -> Result<engine::Plan> {
    work::check(run.mode)?;
    if !(1..=SESSIONS_MAX).contains(&run.sessions) || !(4096..=BUFFER_BYTES_MAX).contains(&run.buffer.0) {
        let what = format!("{} sessions with a buffer of {}", run.sessions, run.buffer);
        return Err(Failure::invalid(what).hint("1 to 10000 sessions; 4KiB to 64MiB"));
    }
    let is_endless = matches!(
        run.mode,
        work::Mode::Rand { .. }
            | work::Mode::Readv { .. }
            | work::Mode::Open { .. }
            | work::Mode::Stat { .. }
            | work::Mode::List { .. }
    );
    if is_endless && run.count.is_none() && run.duration.is_none() {
        return Err(Failure::invalid(format!("{} without an end", run.mode.name()))
            .hint("give --count or --duration"));
    }
    if run.mode.is_write() && run.sessions > 1 && !run.path.contains("{n}") {
        return Err(Failure::invalid("all sessions write the same file").hint("put {n} into --path"));
    }
    Ok(engine::Plan {
        server: address(&run.server)?,
        path: run.path.clone(),
        files: run.files,
        mode: run.mode,
        sessions: run.sessions,
        threads: run.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        items: run.count,
        rate: run.rate,
        duration: run.duration.map(|span| Duration::from_millis(span.0.0.unsigned_abs())),
        has_pattern: run.pattern,
        buffer_bytes: run.buffer.0 as usize,
    })
}

fn address(server: &str) -> Result<SocketAddr> {
    let found = server.to_socket_addrs().map_err(|cause| Failure::io(format!("find {server}"), &cause))?;
    // Servers for tests often listen on IPv4 only.
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    found.first().copied().ok_or_else(|| Failure::not_found(format!("{server} has no address")))
}
