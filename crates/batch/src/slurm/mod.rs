//! Slurm as the engine: the runs of a worker are started by an existing Slurm cluster instead of by this host.
//!
//! **Problem.** A site that has a Slurm cluster wants one scheduler for its nodes, and our queues and data logic above it.
//!
//! **Idea.** Nothing changes but who starts the shepherd. The head gives a worker only jobs whose inputs are pinned. The worker
//! submits a held Slurm job, fetches the inputs into the run directory, and releases it. On the node Slurm runs the shepherd of that run
//! directory, which must lie on a file system that all nodes see; its exit record says how the job ended, as everywhere. Slurm's own
//! state decides only whether the shepherd can still live, and how a job ended that Slurm has ended without a record.
//!
//! The name of the Slurm job is unique to the run, so that a submission whose answer was lost is found by its name, and a job that Slurm
//! has forgotten (it acknowledges jobs before they are durable) is submitted again. A second shepherd of the same run ends at once.
//! A note in the run directory says that there may be such a job, so that nobody asks for one that was never submitted.
//!
//! Only text commands with formats that are the same from 20.11 on. The states of all jobs come from one `squeue` for all runs.

mod command;
mod state;

use crate::{identity::Identity, run_dir::RunDir};
use base::{Failure, Millis, Result};
pub use state::fuzz_slurm;
pub(crate) use state::{SlurmJob, State};
use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tracing::info;
use wire::control::{JobOrder, Usage};

/// What Slurm's wall limit is above ours, in minutes: the shepherd ends a job first, and says why.
const WALL_MARGIN_MINUTES: i64 = 5;
/// Names that Slurm takes.
const NAME_BYTES_MAX: usize = 64;

/// How a worker uses a Slurm cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmConfig {
    /// Options for each `sbatch`: a partition, an account, a quality of service.
    pub options: Vec<String>,
    /// How old the states may be that runs are decided by: one `squeue` in this time.
    pub poll: Duration,
}

/// Written into the run directory before the Slurm job of the run is submitted.
const NOTE: &str = "in_slurm";

/// What is known of our jobs, by name.
#[derive(Default)]
struct Known {
    /// When `squeue` was asked last.
    asked: Option<Instant>,
    /// What it said.
    jobs: BTreeMap<String, SlurmJob>,
    /// What was submitted since.
    submitted: BTreeMap<String, (u64, Instant)>,
    /// When it was asked in vain since, and why.
    failed: Option<(Instant, Failure)>,
}

impl Known {
    fn job(&self, name: &str) -> Option<SlurmJob> {
        let submitted = self.submitted.get(name).map(|(id, _)| SlurmJob { id: *id, state: State::Pending });
        submitted.or_else(|| self.jobs.get(name).copied())
    }

    /// Takes an answer of `squeue`, which was asked at `asked`.
    fn take(&mut self, asked: Instant, jobs: BTreeMap<String, SlurmJob>) {
        self.submitted.retain(|_, (_, at)| *at >= asked);
        (self.asked, self.jobs, self.failed) = (Some(asked), jobs, None);
    }

    /// Why `squeue` does not answer, if it was asked within `age`: while the controller is away, not every run asks for itself.
    fn failure(&self, age: Duration) -> Option<Failure> {
        let recent = self.failed.as_ref().filter(|(at, _)| at.elapsed() < age);
        recent.map(|(_, failure)| failure.clone())
    }
}

/// The cluster.
pub(crate) struct Slurm {
    config: SlurmConfig,
    /// Begins the names of our jobs, and of nobody else's.
    prefix: String,
    /// Held during a poll: whoever comes meanwhile gets its answer.
    poll: Mutex<()>,
    /// A short lock, taken after `poll`.
    known: Mutex<Known>,
}

impl Slurm {
    /// `directory` is that of the worker: two workers of one user have different ones.
    pub(crate) fn new(config: SlurmConfig, directory: &Path) -> Self {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let prefix = format!("bp-{}-", base::Crc32c::of(directory.as_os_str().as_bytes()));
        Self { config, prefix, poll: Mutex::default(), known: Mutex::default() }
    }

    /// How often a run looks.
    pub(crate) fn poll_every(&self) -> Duration {
        self.config.poll
    }

    /// The name of the Slurm job of a run.
    fn name(&self, dir: &RunDir) -> String {
        format!("{}{}.{}", self.prefix, dir.id().job, dir.id().attempt)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Maps are sound after any panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Slurm job of a run, by states that are at most `age` old; `None` if Slurm knows of none.
    pub(crate) fn job(&self, dir: &RunDir, age: Duration) -> Result<Option<SlurmJob>> {
        let _one_at_a_time = self.poll.lock().unwrap_or_else(PoisonError::into_inner);
        if self.known().asked.is_none_or(|at| at.elapsed() > age) {
            if let Some(failure) = self.known().failure(age) {
                return Err(failure);
            }
            let (asked, user) = (Instant::now(), format!("--user={}", Identity::own().name));
            let words = ["--noheader", "--states=all", "--format=%A|%T|%j", &*user];
            let text = command::run("squeue", &words, None)
                .inspect_err(|failure| self.known().failed = Some((Instant::now(), failure.clone())))?;
            self.known().take(asked, state::parse_squeue(&text, &self.prefix));
        }
        Ok(self.known().job(&self.name(dir)))
    }

    /// Whether a job of a run may have been submitted.
    pub(crate) fn may_have(dir: &RunDir) -> bool {
        dir.file(NOTE).exists()
    }

    /// What is known of the job of a run is wrong: Slurm is asked before it is used again.
    pub(crate) fn doubt(&self, dir: &RunDir) {
        let (name, mut known) = (self.name(dir), self.known());
        known.jobs.remove(&name);
        known.submitted.remove(&name);
        known.asked = None;
    }

    /// Submits the Slurm job of a run, held, unless Slurm has it already.
    pub(crate) fn submit(&self, dir: &RunDir, order: &JobOrder, shepherd: &Path) -> Result<SlurmJob> {
        let name = self.name(dir);
        let note = dir.file(NOTE);
        let mut found = self.known().job(&name);
        if found.is_none() && Self::may_have(dir) {
            // The answer to an earlier submission was lost, or what was known of it.
            found = self.job(dir, Duration::ZERO)?;
        }
        if let Some(job) = found.filter(|job| !job.state.is_over()) {
            return Ok(job);
        }
        std::fs::write(&note, &name).map_err(|cause| dir.failed("note a submission to Slurm", &cause))?;
        let options = self.options(dir, order);
        let words: Vec<&str> = options.iter().map(String::as_str).collect();
        let answer = command::run("sbatch", &words, Some(&script(shepherd, dir.path())));
        let answer = answer.map_err(|failure| {
            if state::is_refusal(&failure.what) { Failure::invalid(failure.what) } else { failure }
        })?;
        let id = state::parse_sbatch(&answer)?;
        self.known().submitted.insert(name, (id, Instant::now()));
        info!(job = %dir.id().job, attempt = dir.id().attempt, slurm_job = id, "submitted to Slurm, held");
        Ok(SlurmJob { id, state: State::Pending })
    }

    fn options(&self, dir: &RunDir, order: &JobOrder) -> Vec<String> {
        let resources = order.spec.resources;
        let name = self.name(dir);
        debug_assert!(name.len() <= NAME_BYTES_MAX);
        let mut options: Vec<String> =
            ["--parsable", "--hold", "--no-requeue", "--nodes=1", "--ntasks=1", "--chdir=/"]
                .map(str::to_owned)
                .into();
        options.push(format!("--job-name={name}"));
        options.push(format!("--cpus-per-task={}", resources.cpus.max(1)));
        if resources.memory_bytes > 0 {
            options.push(format!("--mem={}K", resources.memory_bytes.div_ceil(1 << 10)));
        }
        options.push(format!("--time={}", minutes(resources.wall)));
        let log = dir.file("shepherd.log");
        options.push(format!("--output={}", log.display().to_string().replace('%', "%%")));
        options.push("--open-mode=append".to_owned());
        // The job has an environment of its own; nothing of the daemon's goes to the node.
        options.push("--export=PATH".to_owned());
        options.extend(self.config.options.iter().cloned());
        options
    }
}

/// Lets a held job start.
pub(crate) fn release(job: SlurmJob) -> Result<()> {
    command::run("scontrol", &["release", &job.id.to_string()], None).map(drop)
}

/// Cancels a job unless it has begun.
pub(crate) fn cancel_waiting(job: SlurmJob) -> Result<()> {
    command::run("scancel", &["--state=PENDING", &job.id.to_string()], None).map(drop)
}

/// Cancels a job.
pub(crate) fn cancel(job: SlurmJob) -> Result<()> {
    command::run("scancel", &[&job.id.to_string()], None).map(drop)
}

/// What Slurm accounted for a job, where it keeps accounts; else nothing.
pub(crate) fn usage(job: SlurmJob) -> Usage {
    let words = ["--noheader", "--parsable2", "--allocations", "--format=elapsedraw,cputimeraw", "--jobs"];
    let id = job.id.to_string();
    let words: Vec<&str> = words.into_iter().chain([&*id]).collect();
    let text = command::run("sacct", &words, None).unwrap_or_default();
    state::parse_sacct(&text)
}

/// Whole minutes of a wall limit, and the margin.
fn minutes(wall: Millis) -> i64 {
    (wall.0.max(0) + 59_999) / 60_000 + WALL_MARGIN_MINUTES
}

/// The batch script: it becomes the shepherd, so that Slurm's signals reach it.
fn script(shepherd: &Path, run_dir: &Path) -> String {
    format!("#!/bin/sh\nexec {} shepherd {} --stage inner\n", quoted(shepherd), quoted(run_dir))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Refuses options that would break what the worker relies on.
pub fn check_options(options: &[String]) -> Result<()> {
    const OURS: [&str; 14] = [
        "--job-name",
        "--parsable",
        "--array",
        "--wrap",
        "--output",
        "--requeue",
        "--hold",
        "--clusters",
        "--wait",
        "--test-only",
        "--export",
        "--export-file",
        "--uid",
        "--dependency",
    ];
    let is_ours = |option: &&String| {
        let name = option.split('=').next().unwrap_or_default();
        // Any beginning of a name may stand for it.
        name.len() < 3
            || OURS.iter().any(|ours| ours.starts_with(name))
            || !option.starts_with("--")
            || option.contains(char::is_control)
    };
    match options.iter().find(is_ours) {
        None => Ok(()),
        Some(option) => Err(Failure::invalid(format!(
            "{option:?} is no option that a worker may give to sbatch"
        ))
        .hint("name long options with their values, as --partition=batch; names, output, environment and holds are ours")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_is_known_until_squeue_was_asked_after_it() {
        let mut known = Known::default();
        let (before, submitted) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let after = submitted + Duration::from_secs(1);
        known.submitted.insert("a".to_owned(), (7, submitted));
        known.take(before, BTreeMap::new());
        assert_eq!(
            known.job("a"),
            Some(SlurmJob { id: 7, state: State::Pending }),
            "asked before it was there"
        );
        let running = SlurmJob { id: 7, state: State::Running };
        known.take(after, BTreeMap::from([("a".to_owned(), running)]));
        assert_eq!(known.job("a"), Some(running));
        known.take(after, BTreeMap::new());
        assert_eq!(known.job("a"), None, "Slurm has forgotten it");
    }

    #[test]
    fn paths_stay_one_word_in_the_script() {
        let script = script(Path::new("/opt/a b/bpd"), Path::new("/home/o'neil/runs/1.1"));
        assert_eq!(
            script,
            "#!/bin/sh\nexec '/opt/a b/bpd' shepherd '/home/o'\\''neil/runs/1.1' --stage inner\n"
        );
    }

    #[test]
    fn limits_are_above_ours() {
        assert_eq!([0, 1, 60_000, 60_001].map(|wall| minutes(Millis(wall))), [5, 6, 6, 7]);
    }

    #[test]
    fn options_that_are_ours_are_refused() {
        let check = |option: &str| check_options(&[option.to_owned()]).is_ok();
        assert!(check("--partition=batch") && check("--exclusive"));
        for option in [
            "--job-name=x",
            "--arr=1-3",
            "--wrap=true",
            "-p",
            "batch",
            "--requeue",
            "--comment=a\nb",
            "--export=ALL",
            "--",
        ] {
            assert!(!check(option), "{option}");
        }
    }
}
