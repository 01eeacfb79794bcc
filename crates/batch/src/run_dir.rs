//! One directory per run: what was ordered, how far it is, how it ended.
//!
//! ```text
//! DIR/lock                     one room at a time
//! DIR/runs/JOB.ATTEMPT/
//!   control/                   of the room and the shepherd; out of the job's reach
//!     order.json               what the head ordered; nothing happens before it is durable
//!     identity.json            whom the job runs as; there before anything is made for it
//!     run.json                 what the shepherd runs; there when all inputs are
//!     alive                    locked as long as the shepherd lives
//!     started.json             pid and start time of the shepherd; there before the job runs
//!     stages.jsonl             what the stages between shepherd and job need, and what they report
//!     stdout, stderr           of the job
//!     cancel                   asks the shepherd to end the job
//!     deliveries.jsonl         signals and messages for the job
//!     exit.json                how the job ended; counts when its shepherd has ended
//!     ended.json               what is reported to the head; there when the outputs are stored
//!     shepherd.log             for a person, if a shepherd had trouble
//!   scratch/                   working directory of the job, its own
//!   credentials/               for the job to read: a token that is replaced while it runs, and authorities of the doors
//!   tmp/, var-tmp/             what the job sees as /tmp and /var/tmp
//! DIR/trash/                   runs that the head acknowledged, being deleted
//! ```
//!
//! The files are the state: a room that starts finds each run where the one before left it ([`RunDir::phase`]).
//!
//! Older releases kept the files of `control/` beside `scratch/`. Such a run goes on as it began; one that has not begun is moved
//! to the layout of today.
//!
//! All runs together are the `store`; `record` has the contents of the files, `output` reads what a job printed, `prepare` makes its directories.

mod deliveries;
mod output;
mod prepare;
mod record;
mod store;

use crate::{
    durable::{self, Lock},
    identity::Identity,
};
use base::{ErrorKind, Failure, Result};
pub(crate) use deliveries::DeliveryReader;
pub(crate) use output::STREAMS;
pub use output::TEXT_BYTES_MAX;
use output::last_text;
pub use record::{ExitRecord, MountOrder, OpenedFile, OutputFiles, RunOrder, Started};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
pub use store::RunStore;
use store::parse_run;
use wire::control::{JobEnded, JobOrder, JobRun};

/// Of the room and the shepherd.
const CONTROL: &str = "control";

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
    /// Where the files of the room are; in a run of an older release the same as `path`.
    control: PathBuf,
    run: JobRun,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Inputs are to be fetched.
    Ordered,
    /// A shepherd is to be started, or is just starting.
    Staged,
    /// A shepherd ran or runs: its record decides.
    Launched,
    /// The job is over; outputs are to be stored.
    Exited,
    /// The end is to be reported to the head.
    Ended,
}

impl RunDir {
    fn of(path: PathBuf, run: JobRun) -> Self {
        let control = path.join(CONTROL);
        let is_old = path.join("order.json").exists() && !control.join("order.json").exists();
        let control = if is_old { path.clone() } else { control };
        Self { path, control, run }
    }

    /// Whether an older release has made it, which kept its own files where the job can reach them.
    #[must_use]
    pub fn is_of_older_release(&self) -> bool {
        self.path == self.control
    }

    /// The directory at `path`, for a shepherd.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let run = path.file_name().and_then(|name| name.to_str()).and_then(parse_run);
        let run =
            run.ok_or_else(|| Failure::invalid(format!("{} is not a run directory", base::tail(path))))?;
        Ok(Self::of(path.to_owned(), run))
    }

    /// A directory that no order was written to.
    pub(crate) fn trial(path: &Path, run: JobRun) -> Self {
        Self { path: path.to_owned(), control: path.join(CONTROL), run }
    }

    /// Which run.
    #[must_use]
    pub fn id(&self) -> JobRun {
        self.run
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the room and the shepherd.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.control.join(name)
    }

    pub(crate) fn failed(&self, what: &str, cause: &io::Error) -> Failure {
        let JobRun { job, attempt } = self.run;
        Failure::io(format!("job {job} run {attempt}: {what}"), cause)
    }

    /// Whether it has the order that it was made for; otherwise somebody has removed or replaced it.
    #[must_use]
    pub(crate) fn is_there(&self) -> bool {
        self.file("order.json").exists()
    }

    /// Device and inode number of its control directory: they tell it from another directory of the same name.
    pub(crate) fn inode(&self) -> Option<(u64, u64)> {
        let about = fs::symlink_metadata(&self.control).ok().filter(fs::Metadata::is_dir)?;
        Some((about.dev(), about.ino()))
    }

    /// Its state.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let has = |name| self.file(name).exists();
        if has("ended.json") {
            Phase::Ended
        } else if has("exit.json") {
            Phase::Exited
        } else if has("started.json") {
            Phase::Launched
        } else if has("run.json") {
            Phase::Staged
        } else {
            Phase::Ordered
        }
    }

    /// What the head ordered.
    pub fn order(&self) -> Result<Option<JobOrder>> {
        durable::read_json(&self.file("order.json"))
    }

    /// Whom the job runs as.
    pub(crate) fn identity(&self) -> Result<Option<Identity>> {
        durable::read_json(&self.file("identity.json"))
    }

    /// Decides whom the job runs as.
    pub fn set_identity(&self, identity: &Identity) -> Result<()> {
        durable::write_json(&self.file("identity.json"), identity)
    }

    /// What the shepherd runs.
    pub fn run_order(&self) -> Result<Option<RunOrder>> {
        durable::read_json(&self.file("run.json"))
    }

    /// Says that all inputs are there.
    pub fn set_staged(&self, order: &RunOrder) -> Result<()> {
        durable::write_json(&self.file("run.json"), order)
    }

    /// Who runs it.
    pub fn started(&self) -> Result<Option<Started>> {
        durable::read_json(&self.file("started.json"))
    }

    pub(crate) fn set_started(&self, started: &Started) -> Result<()> {
        durable::write_json(&self.file("started.json"), started)
    }

    /// How the job ended.
    pub fn exit(&self) -> Result<Option<ExitRecord>> {
        durable::read_json(&self.file("exit.json"))
    }

    pub(crate) fn set_exit(&self, record: &ExitRecord) -> Result<()> {
        durable::write_json(&self.file("exit.json"), record)
    }

    /// What is reported to the head.
    pub fn ended(&self) -> Result<Option<JobEnded>> {
        durable::read_json(&self.file("ended.json"))
    }

    /// Decides what is reported to the head.
    pub fn set_ended(&self, ended: &JobEnded) -> Result<()> {
        durable::write_json(&self.file("ended.json"), ended)
    }

    /// Asks for the end of the job; durable, so that a restart does not forget it.
    pub fn cancel(&self) -> Result<()> {
        let make = || -> io::Result<()> {
            File::create(self.file("cancel"))?;
            durable::sync_directory(&self.control)
        };
        make().map_err(|cause| self.failed("cancel", &cause))
    }

    /// Whether its end was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.file("cancel").exists()
    }

    /// Takes the lock that says "the shepherd lives"; `None` while somebody has it.
    pub(crate) fn try_lock(&self) -> Result<Option<Lock>> {
        Lock::try_take(&self.file("alive")).map_err(|cause| self.failed("look for the shepherd", &cause))
    }
}

/// Refuses a name that is not a plain file name: an input or output may not leave the scratch directory.
pub fn check_name(name: &str) -> Result<()> {
    let is_plain = !name.is_empty()
        && name.len() <= base::limits::NAME_BYTES_MAX
        && !matches!(name, "." | "..")
        && !name.contains(['/', '\0']);
    if is_plain {
        return Ok(());
    }
    Err(Failure::new(ErrorKind::Invalid, format!("{name:?} is not a plain file name")))
}

/// Fuzz body: no name leaves the directory it is meant for; texts stay short and valid.
pub fn fuzz_names(data: &[u8]) {
    if let Ok(name) = std::str::from_utf8(data) {
        if check_name(name).is_ok() {
            assert_eq!(Path::new("/scratch").join(name).parent(), Some(Path::new("/scratch")));
        }
        if let Some(run) = parse_run(name) {
            assert_eq!(format!("{}.{}", run.job, run.attempt), name);
        }
    }
    assert!(last_text(data).len() <= TEXT_BYTES_MAX);
}
