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
//!     stages.jsonl             what the stages between shepherd and job are told, and what they tell
//!     stdout, stderr           of the job
//!     cancel                   asks the shepherd to end the job
//!     exit.json                how the job ended; counts when its shepherd has ended
//!     ended.json               what the head is told; there when the outputs are stored
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

use crate::{
    durable::{self, Lock},
    identity::Identity,
    remove,
    sandbox::Confinement,
};
use base::{ErrorKind, Failure, JobId, Millis, Result, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tracing::{error, warn};
use wire::control::{JobEnded, JobExit, JobOrder, JobRun, Usage};

/// Files with authorities that a job is given: a facility has one or a few.
const CERTIFICATES_MAX: usize = 1000;
/// Of the room and the shepherd.
const CONTROL: &str = "control";

/// Longest end of a file that is read as text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Part of what is kept of a long output that is its beginning: what a program says first tells most about why it failed.
const BEGINNING_SHARE: u64 = 4;

/// The directory of all runs, held by one room.
#[derive(Debug)]
pub struct RunStore {
    directory: PathBuf,
    _lock: Lock,
}

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
    /// Where the files of the room are; in a run of an older release the same as `path`.
    control: PathBuf,
    run: JobRun,
}

/// How far a run is.
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
    /// The head is to be told.
    Ended,
}

/// What a shepherd runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Longest run.
    pub wall: Millis,
    /// From the polite to the final signal.
    pub grace: Millis,
    /// Bytes of memory; 0 for no limit.
    pub memory_bytes: u64,
    /// Where a control group may be made.
    pub cgroup: Option<PathBuf>,
    /// How far the job is kept from everything else; not in runs of older releases.
    #[serde(default)]
    pub confinement: Option<Confinement>,
}

/// Who runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Process id of the shepherd.
    pub pid: i32,
    /// Its start time in clock ticks since boot: tells it from a later process of the same id.
    pub start_ticks: u64,
    /// When.
    pub at: Timestamp,
    /// Whether a control group holds the memory limit for the whole tree.
    pub holds_memory: bool,
}

/// How a job ended; the only thing that can say it went well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitRecord {
    /// How the process ended.
    pub exit: JobExit,
    /// What the tree used.
    pub usage: Usage,
    /// Limits that were asked for but could not be held.
    pub not_enforced: Vec<String>,
    /// Processes that even the final signal did not end.
    pub left_behind: Vec<i32>,
    /// The shepherd that wrote it, by process id and start time; not in records of older releases.
    #[serde(default)]
    pub by: Option<(i32, u64)>,
}

impl RunStore {
    /// Takes the directory, made if it is missing.
    ///
    /// Fails with [`ErrorKind::Busy`] if another room has it.
    pub fn open(directory: &Path) -> Result<Self> {
        let failed = |cause: &io::Error| {
            Failure::io(format!("open the worker directory {}", directory.display()), cause)
        };
        let lock = || -> io::Result<Option<Lock>> {
            for name in ["runs", "trash"] {
                fs::create_dir_all(directory.join(name))?;
                // What jobs read, write and print is for their owners, not for everybody on this host.
                fs::set_permissions(directory.join(name), Permissions::from_mode(0o700))?;
            }
            Lock::try_take(&directory.join("lock"))
        };
        let lock = lock().map_err(|cause| failed(&cause))?.ok_or_else(|| {
            Failure::busy(format!("worker directory {} is in use by another process", directory.display()))
                .hint("stop the other daemon first")
        })?;
        // Shepherds change their directory: whatever we tell them must be absolute.
        let directory = directory.canonicalize().map_err(|cause| failed(&cause))?;
        let store = Self { directory, _lock: lock };
        store.empty_trash();
        Ok(store)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn runs(&self) -> PathBuf {
        self.directory.join("runs")
    }

    /// The directory of `run`, whether it is there or not.
    #[must_use]
    pub fn run(&self, run: JobRun) -> RunDir {
        RunDir::of(self.runs().join(format!("{}.{}", run.job, run.attempt)), run)
    }

    /// All runs that were accepted and not acknowledged, with their orders.
    ///
    /// What cannot be read is left for a person and not named, so that the head counts it as lost.
    pub fn all(&self) -> Result<Vec<(RunDir, JobOrder)>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", base::tail(&self.runs())), &cause);
        let mut found = Vec::new();
        for entry in fs::read_dir(self.runs()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(run) = name.to_str().and_then(parse_run) else {
                warn!(?name, "not a run directory; ignored");
                continue;
            };
            match modernise(self.run(run)).and_then(|directory| Ok((directory.order()?, directory))) {
                Ok((Some(order), directory)) => found.push((directory, order)),
                // The order was never accepted: the head sends it again.
                Ok((None, directory)) => self.remove(&directory)?,
                Err(failure) => {
                    error!(job = %run.job, attempt = run.attempt, %failure, "cannot read a run's directory; it \
                        is left as it is");
                }
            }
        }
        Ok(found)
    }

    /// Whom the runs here belong to, also those that cannot be read otherwise.
    pub(crate) fn identities(&self) -> Result<Vec<Identity>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", self.runs().display()), &cause);
        let mut found = Vec::new();
        for entry in fs::read_dir(self.runs()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(run) = name.to_str().and_then(parse_run) {
                match self.run(run).identity() {
                    Ok(identity) => found.extend(identity),
                    // A slot user of it that still runs anything is noticed before it is used again.
                    Err(failure) => error!(job = %run.job, %failure, "cannot determine the user of a run"),
                }
            }
        }
        Ok(found)
    }

    /// Makes the directory of an order; on return the order is durable.
    pub fn accept(&self, order: &JobOrder) -> Result<RunDir> {
        let directory = self.run(order.run);
        let make = || -> io::Result<()> {
            for part in [&directory.control, &directory.scratch()] {
                DirBuilder::new().recursive(true).mode(0o700).create(part)?;
            }
            durable::sync_directory(&self.runs())
        };
        make().map_err(|cause| directory.failed("make the directory", &cause))?;
        durable::write_json(&directory.file("order.json"), order)?;
        Ok(directory)
    }

    /// Forgets a run. The rename makes it one step: a half-deleted directory would look like a lost run.
    pub fn remove(&self, run: &RunDir) -> Result<()> {
        let name = format!("{}.{}", run.run.job, run.run.attempt);
        let trash = self.directory.join("trash").join(&name);
        self.delete(&name);
        let rename = || -> io::Result<()> {
            match fs::rename(&run.path, &trash) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
                done => done?,
            }
            durable::sync_directory(&self.runs())
        };
        rename().map_err(|cause| run.failed("forget", &cause))?;
        self.delete(&name);
        Ok(())
    }

    fn empty_trash(&self) {
        let Ok(entries) = fs::read_dir(self.directory.join("trash")) else {
            return;
        };
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str() {
                self.delete(name);
            }
        }
    }

    /// Deletes what is in the trash; what stays is tried again at the next start.
    fn delete(&self, name: &str) {
        if let Err(cause) = remove::remove_tree(&self.directory.join("trash"), name) {
            warn!(name, %cause, "cannot delete the directory of an old run");
        }
    }
}

/// Brings a run that an older release left and that has not begun to the layout of today: it is staged anew.
///
/// With the lock in hand no shepherd of that release begins, and without its `run.json` none does later.
fn modernise(old: RunDir) -> Result<RunDir> {
    if !old.is_of_older_release() || !matches!(old.phase(), Phase::Ordered | Phase::Staged) {
        return Ok(old);
    }
    let Some(_alive) = old.try_lock()? else {
        return Ok(old);
    };
    let Some(order) = old.order()? else {
        return Ok(old);
    };
    let new = RunDir { control: old.path.join(CONTROL), ..old.clone() };
    let make = || -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&new.control)?;
        match fs::remove_file(old.file("run.json")) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        if old.is_cancelled() {
            File::create(new.file("cancel"))?;
        }
        durable::sync_directory(&old.path)
    };
    make().map_err(|cause| old.failed("bring to the layout of today", &cause))?;
    // Last: until its order is there the old layout counts.
    durable::write_json(&new.file("order.json"), &order)?;
    Ok(new)
}

/// `JOB.ATTEMPT` in the one spelling that we give.
fn parse_run(name: &str) -> Option<JobRun> {
    let (job, attempt) = name.split_once('.')?;
    let run = JobRun { job: JobId(job.parse().ok()?), attempt: attempt.parse().ok()? };
    (format!("{}.{}", run.job, run.attempt) == name).then_some(run)
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

    /// Working directory of the job.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// What the job may read of ours.
    pub(crate) fn credentials(&self) -> PathBuf {
        if self.is_of_older_release() { self.path.clone() } else { self.path.join("credentials") }
    }

    /// What the job sees as `/tmp` and as `/var/tmp`.
    pub(crate) fn temporary(&self) -> [PathBuf; 2] {
        [self.path.join("tmp"), self.path.join("var-tmp")]
    }

    /// Authorities of the doors, for the job.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.credentials().join("certificates")
    }

    /// Makes what the job needs beside its inputs: directories of its own, and a copy of the certificates in `authorities`.
    pub fn furnish(&self, identity: &Identity, authorities: Option<&Path>) -> Result<()> {
        let make = || -> io::Result<()> {
            let [tmp, var_tmp] = self.temporary();
            for (part, mode) in [(self.scratch(), 0o700), (tmp, 0o1777), (var_tmp, 0o1777)] {
                DirBuilder::new().recursive(true).mode(0o700).create(&part)?;
                fs::set_permissions(&part, Permissions::from_mode(mode))?;
                identity.give_directory(&part)?;
            }
            // Ours, and read-only for the job: it lies in a directory that nobody else can enter.
            for part in [self.credentials(), self.certificates()] {
                DirBuilder::new().recursive(true).create(&part)?;
                fs::set_permissions(&part, Permissions::from_mode(0o755))?;
            }
            let Some(authorities) = authorities else {
                return Ok(());
            };
            for entry in fs::read_dir(authorities)?.take(CERTIFICATES_MAX) {
                let entry = entry?;
                let target = self.certificates().join(entry.file_name());
                fs::write(&target, fs::read(entry.path())?)?;
                fs::set_permissions(&target, Permissions::from_mode(0o644))?;
            }
            Ok(())
        };
        make().map_err(|cause| self.failed("make what the job needs", &cause))
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

    /// Which directory of the file system it is; another one of the same name is not it.
    pub(crate) fn place(&self) -> Option<(u64, u64)> {
        let about = fs::symlink_metadata(&self.control).ok().filter(fs::Metadata::is_dir)?;
        Some((about.dev(), about.ino()))
    }

    /// How far it is.
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

    pub(crate) fn set_identity(&self, identity: &Identity) -> Result<()> {
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

    /// Where the job finds its token.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.credentials().join("token")
    }

    /// Replaces the token, so that nobody reads half of it; it is for the job's user alone.
    pub(crate) fn set_token(&self, token: &str, identity: &Identity) -> Result<()> {
        let new = self.credentials().join("token.new");
        let write = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(token.as_bytes())?;
            identity.give(&file)?;
            fs::rename(&new, self.token_file())
        };
        write().map_err(|cause| self.failed("write the token", &cause))
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

    /// What the head is told.
    pub fn ended(&self) -> Result<Option<JobEnded>> {
        durable::read_json(&self.file("ended.json"))
    }

    /// Decides what the head is told.
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

    /// What is kept of `stdout` or `stderr`: all of it, or beginning and end of about `bytes_max` bytes together.
    #[must_use]
    pub(crate) fn kept(&self, name: &str, bytes_max: u64) -> String {
        let read = || -> io::Result<String> {
            let file = File::open(self.file(name))?;
            let size = file.metadata()?.len();
            if size <= bytes_max {
                return piece(&file, 0, size);
            }
            let beginning = bytes_max / BEGINNING_SHARE;
            let end = bytes_max - beginning;
            let left_out = size - bytes_max;
            let (beginning, end) = (piece(&file, 0, beginning)?, piece(&file, size - end, end)?);
            Ok(format!("{beginning}\n[{left_out} bytes are left out here]\n{end}"))
        };
        match read() {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(cause) => format!("[{name} cannot be read: {cause}]"),
        }
    }

    /// The end of `stdout` or `stderr`, at most [`TEXT_BYTES_MAX`] bytes; empty if there is none.
    #[must_use]
    pub fn tail(&self, name: &str) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let file = File::open(self.file(name))?;
            let size = file.metadata()?.len();
            let mut bytes = vec![0; size.min(TEXT_BYTES_MAX as u64) as usize];
            let start = size - bytes.len() as u64;
            file.read_exact_at(&mut bytes, start)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => last_text(&bytes),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(cause) => format!("[{name} cannot be read: {cause}]"),
        }
    }
}

/// Takes what stands at one place of a file.
fn piece(file: &File, offset: u64, length: u64) -> io::Result<String> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `bytes` as text of at most [`TEXT_BYTES_MAX`] bytes: what is no text grows when it is replaced.
fn last_text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if text.len() > TEXT_BYTES_MAX {
        let mut from = text.len() - TEXT_BYTES_MAX;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text.drain(..from);
    }
    text
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
