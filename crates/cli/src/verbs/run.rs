//! `bp run`: runs a program as a job, as if it ran here.

use super::{jobs, log, submit, wait::Timeout};
use crate::context::{Context, Run};
use base::{
    Failure, JobId,
    units::{Size, Span},
};
use client::{Control, control::WAIT_MAX};
use nix::sys::signal::{SigSet, Signal};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use wire::control::{AwaitJobs, CancelJobs, JobExit, JobSpec, JobState, Submit};

/// Run a program as a job; show its output, exit as it does
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The program runs on a worker, in a scratch directory or, with --here, in this directory, which the \
        worker must have.\nIf bp is interrupted (Ctrl-C) it cancels the job and waits for its end; interrupted again it ends at once.\n\
        If bp is killed the job goes on: `bp log -f JOB` follows it, `bp cancel JOB` ends it."
)]
pub(crate) struct Args {
    /// Name of the job, shown by `bp jobs` [default: the program's name]
    #[arg(long)]
    name: Option<String>,
    /// CPU slots [default: of the queue, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Memory that the job may use, with a unit, e.g. 500MiB or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = submit::memory)]
    memory: Option<Size>,
    /// Longest run time, e.g. 2h [default: of the queue, else 1d]
    #[arg(long, value_name = "TIME", value_parser = submit::wall)]
    wall: Option<Span>,
    /// Run in this directory, with this environment
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    timeout: Timeout,
    /// The program to run and its arguments
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let program = args.command[0].rsplit('/').next().unwrap_or_default().to_owned();
    let (directory, environment) = if args.here { surroundings()? } else { (None, BTreeMap::new()) };
    let spec = JobSpec {
        name: args.name.unwrap_or(program),
        command: args.command,
        resources: submit::resources(args.cpus, args.memory, args.wall),
        directory,
        environment,
        ..JobSpec::default()
    };
    let signals = Interrupts::block()?;
    let job = context.call(&Submit::new(spec))?.job;
    signals.cancel(job, context.control()?)?;
    context.output.aside(&format!("job {job}"))?;
    log::follow(context, job)?;
    let code = end(context, job, args.timeout.timeout)?;
    Ok(if signals.is_interrupted() { INTERRUPTED } else { code })
}

/// How a shell says that SIGINT has ended a program.
const INTERRUPTED: u8 = 130;

/// The signals by which somebody interrupts `bp run`.
struct Interrupts {
    signals: SigSet,
    is_interrupted: Arc<AtomicBool>,
}

impl Interrupts {
    /// Keeps them back from now on: none may come between the submission and its answer, when there is no job to cancel.
    fn block() -> Result<Self, Failure> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        // Before there are other threads: they inherit it.
        signals.thread_block().map_err(|cause| Failure::io("block signals", &cause.into()))?;
        Ok(Self { signals, is_interrupted: Arc::default() })
    }

    /// The first of them cancels the job, whose end is then waited for; the next one ends this process.
    fn cancel(&self, job: JobId, control: Control) -> Result<(), Failure> {
        let (signals, is_interrupted) = (self.signals, Arc::clone(&self.is_interrupted));
        let watch = move || {
            while signals.wait().is_ok() {
                if is_interrupted.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
                // One that ends at this moment cannot be cancelled, and need not be: that is no failure of the call.
                if let Err(failure) = control.call(&CancelJobs { jobs: vec![job.into()] }) {
                    crate::output::refusal(&format!(
                        "job {job} is not cancelled: {failure}\nhint: `bp cancel {job}`\n"
                    ));
                }
            }
        };
        let thread = thread::Builder::new().name("run-signals".to_owned()).spawn(watch);
        thread.map(drop).map_err(|cause| Failure::io("start a thread", &cause))
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }
}

/// Waits for the end of a job whose output was shown, and says how it ended where its exit code does not.
fn end(context: &mut Context, job: JobId, timeout: Span) -> Run {
    let deadline = Instant::now() + Duration::from_millis(timeout.0.0.max(0).unsigned_abs());
    let info = loop {
        let mut reply = context
            .control()?
            .call_waiting(&AwaitJobs { ids: vec![job], ..AwaitJobs::default() }, WAIT_MAX)?;
        match reply.jobs.pop() {
            Some(info) if info.state.is_over() => break info,
            _ if Instant::now() > deadline => {
                return Err(Failure::timeout(format!("job {job} is not over after {timeout}")).into());
            }
            _ => {}
        }
    };
    if context.output.is_json() {
        context.output.json(&info)?;
    }
    if info.state != JobState::Done && !matches!(info.exit, Some(JobExit::Code(_))) {
        context.output.failure(&jobs::failure(&info));
    }
    Ok(if info.state == JobState::Done { 0 } else { jobs::exit_code(&info) })
}

/// This directory and the variables of this process, as far as they are text.
fn surroundings() -> Result<(Option<String>, BTreeMap<String, String>), Failure> {
    let here = std::env::current_dir().map_err(|cause| Failure::io("find this directory", &cause))?;
    let here = here.into_os_string().into_string();
    let here = here.map_err(|_| Failure::invalid("the path of this directory is no text"))?;
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        // A job has those of its own.
        (!name.is_empty() && name != "TMPDIR" && !name.starts_with("BP_")).then_some((name, value))
    });
    Ok((Some(here), variables.collect()))
}
