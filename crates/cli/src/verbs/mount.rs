//! `bp mount`: a directory of the facility as a file system of this host.

use crate::context::{Context, Run};
use base::{ErrorKind, Failure, FilePath, Result};
use fuse::{Mounted, Settings, Target};
use nix::sys::signal::{SigSet, Signal};
use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use wire::control::GetEntry;

/// What a mount in the background says when it is there. Else it says why not.
const MOUNTED: &str = "mounted";

/// How long a soft mount waits for the facility.
const SOFT: Duration = Duration::from_secs(30);
/// Pause between two tries to reach it.
const PAUSE: Duration = Duration::from_millis(300);

/// Mount a directory of the facility as a file system of this host
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the facility, and that of this host where it is mounted [default: / of the facility]
    #[arg(required = true, num_args = 1..=2, value_names = ["PATH", "DIRECTORY"])]
    places: Vec<OsString>,
    /// Stay in the foreground, and log to the terminal
    #[arg(long)]
    foreground: bool,
    /// Write messages to this file [default in the background: backplane/mount.log of the user's state directory]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Fail calls when the facility has not answered for 30 s; else they wait for it
    #[arg(long)]
    soft: bool,
    /// Let other users of this host use it, too: each with their own rights if you are an operator, else with yours
    #[arg(long)]
    allow_other: bool,
    /// Refuse to open files for reading that are on tape only (EAGAIN); else reading recalls them and waits
    #[arg(long)]
    no_recall: bool,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Run no programs that lie there
    #[arg(long)]
    no_exec: bool,
    /// What `mount` shows as the device [default: backplane:PATH]
    #[arg(long, value_name = "NAME", hide = true)]
    source: Option<String>,
    /// Run as the background process of another `bp mount`
    #[arg(long, hide = true)]
    in_session: bool,
}

impl Args {
    /// Which directory of the facility, and where.
    fn places(&self) -> Result<(FilePath, &Path)> {
        match &self.places[..] {
            [directory] => Ok((FilePath::root(), Path::new(directory))),
            [path, directory, ..] => {
                let text = path.to_str().ok_or_else(|| {
                    Failure::invalid(format!("{} is no path of a facility", path.display()))
                })?;
                Ok((text.parse()?, Path::new(directory)))
            }
            [] => Err(Failure::invalid("no directory is given to mount on")),
        }
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if args.in_session {
        return in_background(&args, context);
    }
    wait_for_facility(&args, context)?;
    if args.foreground {
        log_to(args.log.as_deref())?;
        let mounted = begin(&args, context)?;
        return Ok(ended(mounted));
    }
    detach(&args, context)?;
    Ok(0)
}

/// Waits until the facility answers: one that is starting, as after a power cut, is soon there. A signal ends it.
fn wait_for_facility(args: &Args, context: &mut Context) -> Run<()> {
    let (path, _) = args.places()?;
    let place = Path::new(context.place()?).to_owned();
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let failure = match context.call(&GetEntry { path: path.clone() }) {
            Err(failure) if matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout) => failure,
            outcome => return Ok(outcome.map(drop)?),
        };
        let is_none = place.is_dir() && !place.join("facility.toml").exists();
        if is_none || args.soft && begun.elapsed() > SOFT {
            return Err(failure.into());
        }
        if !is_told {
            context.output.news(format!("{failure}; waiting for it"))?;
            is_told = true;
        }
        thread::sleep(PAUSE);
        context.forget_facility();
    }
}

fn begin(args: &Args, context: &mut Context) -> Result<Mounted> {
    let (path, directory) = args.places()?;
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    // Before there are other threads: they inherit it.
    signals.thread_block().map_err(|cause| Failure::io("block signals", &cause.into()))?;
    let mounted = fuse::mount(Settings {
        control: context.control()?,
        user: context.user().to_owned(),
        path,
        target: Target::Directory(directory.to_owned()),
        options: context.xrd_options(),
        is_soft: args.soft,
        allow_other: args.allow_other,
        no_recall: args.no_recall,
        is_read_only: args.read_only,
        is_no_exec: args.no_exec,
        source: args.source.clone(),
    })?;
    let stop = mounted.stop();
    let watch = move || {
        // It fails for no signal that can be waited for.
        let _ = signals.wait();
        stop.set();
    };
    let thread = thread::Builder::new().name("mount-signals".to_owned()).spawn(watch);
    thread.map_err(|cause| Failure::io("start a thread", &cause))?;
    Ok(mounted)
}

/// The background process: says on its standard output whether it has mounted, then serves until it is unmounted.
fn in_background(args: &Args, context: &mut Context) -> Run {
    crate::daemon::leave_session()?;
    log_to(args.log.as_deref())?;
    match begin(args, context) {
        Ok(mounted) => {
            context.output.line(MOUNTED)?;
            context.output.flush()?;
            Ok(ended(mounted))
        }
        Err(failure) => {
            context.output.json(&failure)?;
            Ok(failure.kind.exit_code())
        }
    }
}

/// Serves until it is unmounted; the exit code says whether all that was written is stored.
fn ended(mounted: Mounted) -> u8 {
    if mounted.wait() { 0 } else { ErrorKind::Io.exit_code() }
}

/// Starts the background process and waits until it has mounted.
fn detach(args: &Args, context: &mut Context) -> Result<()> {
    let failed = |what: &'static str| move |cause: std::io::Error| Failure::io(what, &cause);
    let (path, directory) = args.places()?;
    let log = args.log.clone().map_or_else(default_log, Ok)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed("find bp itself"))?);
    command.arg("mount").arg("--in-session").arg("--log").arg(&log);
    command.arg("--facility").arg(context.place()?).arg("--user").arg(context.user());
    let flags = [
        ("--soft", args.soft),
        ("--allow-other", args.allow_other),
        ("--no-recall", args.no_recall),
        ("--read-only", args.read_only),
        ("--no-exec", args.no_exec),
    ];
    command.args(flags.into_iter().filter_map(|(flag, is_set)| is_set.then_some(flag)));
    if let Some(source) = &args.source {
        command.arg("--source").arg(source);
    }
    command.arg("--").arg(path.as_str()).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(open_log(&log)?);
    let mut child = command.spawn().map_err(failed("start bp in the background"))?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        // It ends with the process, if that says nothing.
        BufReader::new(output).read_line(&mut said).map_err(failed("hear of the mount"))?;
    }
    if said.trim_end() == MOUNTED {
        return Ok(());
    }
    Err(serde_json::from_str::<Failure>(&said).unwrap_or_else(|_| {
        Failure::unavailable("the mount ended early").hint(format!("read its log {}", log.display()))
    }))
}

fn default_log() -> Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::invalid("there is no place for the log: HOME is not set").hint("add --log FILE")
    })?;
    let directory = state.join("backplane");
    std::fs::create_dir_all(&directory)
        .map_err(|cause| Failure::io(format!("make {}", directory.display()), &cause))?;
    Ok(directory.join("mount.log"))
}

fn open_log(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|cause| Failure::io(format!("open the log {}", path.display()), &cause))
}

/// Has messages written to a file, or to the standard error.
fn log_to(path: Option<&Path>) -> Result<()> {
    let filter = std::env::var("BP_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|cause| Failure::invalid(format!("BP_LOG is not a log filter: {cause}")))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    match path {
        Some(path) => lines.with_writer(std::sync::Mutex::new(open_log(path)?)).init(),
        None => lines.with_writer(std::io::stderr).init(),
    }
    Ok(())
}
