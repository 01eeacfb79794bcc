//! Commands of other batch systems: `sbatch`, `squeue`, `qsub`, … as the same program under other names.
//!
//! **Problem.** Workflow tools submit by these commands and read their output, word by word. Nobody rewrites the tools.
//!
//! **Idea.** The program looks at the name it was called by. [`PROGRAMS`] lists the names. Each has a file that reads
//! the options of the original, makes a few calls of the management API, and prints what the original would print.
//! Reading and printing are pure functions, whose only access to the world is [`Shim`]. A request beyond the facility's
//! abilities is refused, or reported on standard error.
//!
//! **Start reading** with `slurm/scancel.rs`, then `slurm/sbatch/`.

pub(crate) mod directives;
mod getopt;
mod jobs;
mod moment;
mod origin;
mod posix;

#[cfg(test)]
pub(crate) mod sample;
mod signal;
mod site;
mod slurm;

use crate::{
    args::Global,
    context::{Context, Run, Stop},
    output::{self, Output},
};
use base::{ErrorKind, Failure, Result};
use std::{
    ffi::OsStr,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant, SystemTime},
};
use wire::control::Call;

/// A program that `bp` is under another name.
pub(crate) struct Program {
    /// The name.
    pub(crate) name: &'static str,
    /// Whose command it is.
    pub(crate) family: Family,
    run: fn(&mut Shim, Vec<String>) -> Run,
}

/// Whose commands they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Family {
    /// Those of Slurm.
    Slurm,
    /// Those of POSIX and PBS.
    Posix,
}

/// Every name.
pub(crate) const PROGRAMS: &[Program] = &[
    Program { name: "sbatch", family: Family::Slurm, run: slurm::sbatch::run },
    Program { name: "squeue", family: Family::Slurm, run: slurm::squeue::run },
    Program { name: "sacct", family: Family::Slurm, run: slurm::sacct::run },
    Program { name: "scancel", family: Family::Slurm, run: slurm::scancel::run },
    Program { name: "scontrol", family: Family::Slurm, run: slurm::scontrol::run },
    Program { name: "sinfo", family: Family::Slurm, run: slurm::sinfo::run },
    Program { name: "srun", family: Family::Slurm, run: slurm::srun::run },
    Program { name: "sacctmgr", family: Family::Slurm, run: slurm::accounts::sacctmgr },
    Program { name: "sshare", family: Family::Slurm, run: slurm::accounts::sshare },
    Program { name: "qsub", family: Family::Posix, run: posix::qsub::run },
    Program { name: "qstat", family: Family::Posix, run: posix::qstat::run },
    Program { name: "qdel", family: Family::Posix, run: posix::qdel },
    Program { name: "qhold", family: Family::Posix, run: posix::qhold },
    Program { name: "qrls", family: Family::Posix, run: posix::qrls },
    Program { name: "qmove", family: Family::Posix, run: posix::qmove },
    Program { name: "qalter", family: Family::Posix, run: posix::qalter },
    Program { name: "qrerun", family: Family::Posix, run: posix::qrerun },
    Program { name: "qsig", family: Family::Posix, run: posix::qsig },
    Program { name: "qmsg", family: Family::Posix, run: posix::qmsg },
    Program { name: "qselect", family: Family::Posix, run: posix::qselect },
    Program { name: "qlimit", family: Family::Posix, run: posix::qlimit },
];

/// How long a command tries to reach a facility that does not answer: a restart takes less.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(300);

/// What a command has of the world.
pub(crate) struct Shim {
    /// The name it was called by.
    pub(crate) program: &'static str,
    pub(crate) context: Context,
}

impl Shim {
    /// Makes a call, again and again while the facility cannot be reached: workflows outlive its restarts. A call that changes
    /// something must be the same when it is made twice.
    pub(crate) fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply> {
        let deadline = Instant::now() + PATIENCE;
        let mut is_told = false;
        loop {
            let failure = match self.context.call(call) {
                Err(failure) if matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Io) => failure,
                reply => return reply,
            };
            if Instant::now() >= deadline || self.context.place().is_err() {
                return Err(failure);
            }
            if !is_told {
                self.say(&format!("{failure}; trying for {} s", PATIENCE.as_secs()));
                is_told = true;
            }
            thread::sleep(PAUSE);
            self.context.forget_facility();
        }
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Run<()> {
        self.context.output.line(text)
    }

    /// Prints a text of several lines of ours.
    pub(crate) fn text(&mut self, text: &str) -> Run<()> {
        self.context.output.bytes(base::shown_lines(text).as_bytes())
    }

    /// Says something on standard error: `sbatch: …`.
    pub(crate) fn say(&mut self, text: &str) {
        self.plain_error(&format!("{}: {text}", self.program));
    }

    /// Says what is wrong: `sbatch: error: …`.
    pub(crate) fn error(&mut self, text: &str) {
        self.say(&format!("error: {text}"));
    }

    /// Says something on standard error as it is.
    pub(crate) fn plain_error(&mut self, text: &str) {
        // There is no better place to say that standard output does not work.
        let _ = self.context.output.flush();
        output::refusal(&format!("{}\n", base::shown_lines(text)));
    }

    /// Says what is wrong, and yields the exit code.
    pub(crate) fn refuse(&mut self, text: &str, code: u8) -> Run {
        self.error(text);
        Ok(code)
    }

    /// Says what the facility refused, with the next step.
    pub(crate) fn failure(&mut self, before: &str, failure: &Failure) -> Run {
        self.error(&format!("{before}{}", failure.what));
        if let Some(hint) = &failure.hint {
            self.say(&format!("hint: {hint}"));
        }
        Ok(1)
    }
}

/// A key that no other submission has: the same submission again is known by it.
pub(crate) fn unique_key() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", host_name(), std::process::id(), since.as_nanos())
}

/// The name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The program that `bp` was called as, if it is one of these.
pub(crate) fn called_as(argument: &OsStr) -> Option<&'static Program> {
    let name = Path::new(argument).file_name()?.to_str()?;
    PROGRAMS.iter().find(|program| program.name == name)
}

/// Runs a program.
pub(crate) fn main(program: &'static Program, arguments: Vec<String>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let global = Global {
        facility: variable(client::facility::ENVIRONMENT),
        json: false,
        user: variable("BP_USER"),
        quiet: false,
    };
    let context = Context::new(&global, Output::new(false, false));
    context.restore_umask();
    let mut shim = Shim { program: program.name, context };
    let ended = (program.run)(&mut shim, arguments).and_then(|code| {
        shim.context.output.flush()?;
        Ok(code)
    });
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(Stop::PipeClosed) => ExitCode::SUCCESS,
        Err(Stop::Failed(failure)) => {
            // Saying it cannot fail in another way.
            let _ = shim.failure("", &failure);
            ExitCode::FAILURE
        }
    }
}
