//! The worker of a host.

use ::batch::{SlurmConfig, check_options, sandbox::Limits};
use base::{
    Failure, Millis, Result,
    limits::JOB_TEXT_BYTES_MAX,
    units::{Size, Span},
};
use serde::{Deserialize, Serialize};
use std::{ops::RangeInclusive, path::Path, time::Duration};

/// Shares of the CPU slots (`bp shares`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shares {
    /// Time in which what somebody has used counts half: with a short one only what was used lately counts.
    pub half_life: Span,
}

impl Default for Shares {
    fn default() -> Self {
        Self { half_life: Span(Millis::from_seconds(7 * 86_400)) }
    }
}

/// The shortest half-life: shorter than any job, what was used would be forgotten before it counts.
const HALF_LIFE_MIN: Millis = Millis::from_seconds(60);

impl Shares {
    pub(super) fn check(&self) -> Result<()> {
        if self.half_life.0 >= HALF_LIFE_MIN {
            return Ok(());
        }
        Err(Failure::invalid("[shares] half_life is shorter than a minute").hint("use some days, as \"7d\""))
    }
}

/// Who starts the runs of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The host of the worker.
    #[default]
    Host,
    /// A Slurm cluster that this host can submit to.
    Slurm,
}

/// The worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batch {
    /// CPU slots; 0: as many as the host has processors.
    pub cpus: u32,
    /// Memory for jobs; `0B`: all memory of the host.
    pub memory: Size,
    /// What this worker has, for jobs that ask for it: words such as "gpu". The architecture of its processors and the labels of
    /// its host count, too.
    pub labels: Vec<String>,
    /// The directory of this host in which jobs find the facility that ask for it (`bp submit --mount`). It must exist; other
    /// processes do not see the mount. Empty: a directory of the job's own. Jobs find its path in `BP_MOUNT`.
    pub mount: String,
    /// Who starts jobs: "host", or "slurm": a Slurm cluster whose commands are in the `PATH` of bpd, and whose nodes see the
    /// directory of the facility. `cpus` and `memory` then say how much may be submitted at a time.
    pub engine: Engine,
    /// Options for each `sbatch`, as "--partition=batch".
    pub slurm_options: Vec<String>,
    /// How often the states of all jobs are asked for, by one `squeue`.
    pub slurm_poll: Span,
    /// Run jobs on the head's host although the head demands tokens. Jobs of users that the host does not know then run beside
    /// the facility's key and catalogue.
    pub beside_head: bool,
    /// Lowest uid as which jobs run, where bpd runs as root; lower ones belong to the system.
    pub uid_min: u32,
    /// Uids for jobs of users that the host does not know, as "60000-60099". Each running job has one of its own. Empty: this
    /// worker does not run jobs of such users.
    pub slot_uids: String,
    /// Run the jobs of all users as the user that bpd runs as, where that is not root. Each job can then read and change
    /// everything that this user can, including jobs and tokens of others.
    pub run_others_as_me: bool,
    /// Most processes and threads of a job.
    pub processes: u64,
    /// Most bytes in the scratch and temporary directories of a job, and the size of its largest file.
    pub scratch: Size,
    /// Most bytes that a job may print to standard output, and to standard error.
    pub output: Size,
    /// Bytes of standard output and of standard error that `bp log` shows later, at most 512KiB: all of it, or the beginning and
    /// the end.
    pub log: Size,
}

impl Default for Batch {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            cpus: 0,
            memory: Size(0),
            labels: Vec::new(),
            mount: String::new(),
            engine: Engine::Host,
            slurm_options: Vec::new(),
            slurm_poll: Span(Millis::from_seconds(5)),
            beside_head: false,
            uid_min: 1000,
            slot_uids: String::new(),
            run_others_as_me: false,
            processes: limits.processes,
            scratch: Size(limits.scratch_bytes),
            output: Size(limits.output_bytes),
            log: Size(256 << 10),
        }
    }
}

/// The controller of a cluster serves all its users.
const SLURM_POLL_MIN: Millis = Millis::from_seconds(1);

/// Fewest processes that a job can do with: a shell that starts a program that starts another.
const PROCESSES_MIN: u64 = 8;

/// Least that is kept of what a job prints: a message and its trace.
const LOG_BYTES_MIN: u64 = 4 << 10;

/// Slot users of one worker: each is one job that runs, and each is looked up at the start.
const SLOTS_MAX: u32 = 1000;

/// The least uid of a slot user: those below belong to the system and to people.
const SLOT_UID_MIN: u32 = 1000;

/// The uid that stands for everybody without a name, and those behind it that have a meaning.
const OVERFLOW_UIDS: RangeInclusive<u32> = 65_534..=65_535;

impl Batch {
    /// Uids for jobs of users that the host does not know.
    pub fn slots(&self) -> Result<Option<RangeInclusive<u32>>> {
        let text = self.slot_uids.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let bad = |why: &str| {
            Failure::invalid(format!("batch.slot_uids = {text:?} {why}"))
                .hint("name a range of uids that nobody on this host has: slot_uids = \"60000-60099\"")
        };
        let number = |digits: &str| digits.trim().parse::<u32>().ok();
        let ends = text.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        let (first, last) = ends.ok_or_else(|| bad("is not a range"))?;
        if first > last || last - first >= SLOTS_MAX {
            return Err(bad("is empty or too long"));
        }
        let is_special = OVERFLOW_UIDS.clone().any(|uid| (first..=last).contains(&uid)) || last == u32::MAX;
        if first < SLOT_UID_MIN || is_special {
            return Err(bad("has uids that belong to the system"));
        }
        Ok(Some(first..=last))
    }

    /// The cluster that starts the jobs.
    pub fn slurm(&self) -> Option<SlurmConfig> {
        (self.engine == Engine::Slurm).then(|| SlurmConfig {
            options: self.slurm_options.clone(),
            poll: Duration::from_millis(self.slurm_poll.0.0.unsigned_abs()),
        })
    }

    fn check_slurm(&self) -> Result<()> {
        if self.engine != Engine::Slurm {
            return Ok(());
        }
        if self.cpus == 0 {
            return Err(Failure::invalid("batch.engine = \"slurm\" without batch.cpus")
                .hint("say how many processors its jobs may hold in Slurm at a time: cpus = 200"));
        }
        if self.slurm_poll.0 < SLURM_POLL_MIN {
            return Err(
                Failure::invalid("batch.slurm_poll is shorter than a second").hint("5s is the default")
            );
        }
        check_options(&self.slurm_options)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.slots()?;
        self.check_slurm()?;
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.uid_min == 0 {
            return refuse("batch.uid_min = 0 lets jobs run as root".to_owned(), "1000 is usual");
        }
        let is_word =
            |label: &String| !label.is_empty() && !label.contains(|c: char| c == ',' || c.is_whitespace());
        if !self.labels.iter().all(is_word) {
            return refuse(format!("batch.labels = {:?}", self.labels), "labels are words without commas");
        }
        if !self.mount.is_empty() && !Path::new(&self.mount).is_absolute() {
            return refuse(format!("batch.mount = {:?}", self.mount), "give a path that begins with a slash");
        }
        if self.processes < PROCESSES_MIN {
            let what = format!("batch.processes = {} is below {PROCESSES_MIN}", self.processes);
            return refuse(what, "4096 is the default");
        }
        if self.scratch.0 < 1 << 20 || self.output.0 < 1 << 16 {
            let what = format!("batch.scratch = {} and batch.output = {}", self.scratch, self.output);
            return refuse(what, "they are 1MiB and 64KiB at least");
        }
        if !(LOG_BYTES_MIN..=JOB_TEXT_BYTES_MAX as u64).contains(&self.log.0) {
            let what = format!(
                "batch.log = {} is not between 4KiB and {}",
                self.log,
                Size(JOB_TEXT_BYTES_MAX as u64)
            );
            return refuse(what, "256KiB is the default; what must not be lost belongs into an output file");
        }
        Ok(())
    }
}
