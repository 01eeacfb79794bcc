//! `bp`: the command line of a facility.
//!
//! **Problem.** Users, operators and scripts do fifty different things, and each must say what happened and what to do next.
//!
//! **Idea.** One file for each verb in `verbs/`, which makes one or two calls of the management API and prints the reply as a
//! table or as JSON. The verbs decide nothing: the head does.
//!
//! **Start reading** with `verbs/mod.rs`, which lists the verbs, then `verbs/ls.rs`; `args.rs` has the options of all verbs, and
//! `output.rs` is the only file that prints.

mod args;
mod context;
mod daemon;
mod glob;
mod help;
mod mount_helper;
mod mover;
mod names;
mod output;
mod path_arg;
mod plot;
mod program;
mod progress;
#[cfg(test)]
mod reference;
mod shims;
mod table;
mod transfer;
mod verbs;
mod waiting;
mod walk;
mod words;

use args::Cli;
use clap::FromArgMatches;
use context::{Context, Stop};
use output::Output;
use std::process::ExitCode;

/// Says what is wrong with the command line, or helps. Arguments are repeated there; they may be names that others chose.
fn refused(refusal: &clap::Error) -> ExitCode {
    let text = refusal.render().to_string();
    let safe = base::shown_lines(&text);
    match hint(refusal) {
        None if safe == text => refusal.exit(),
        None => output::refusal(&safe),
        // Before the line that leads to --help: it is the nearer help.
        Some(hint) => {
            let (said, help) = safe.trim_end().rsplit_once("\n\n").unwrap_or((&safe, ""));
            output::refusal(&format!("{said}\nhint: {}\n\n{help}\n", base::shown_lines(hint)));
        }
    }
    ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2))
}

/// The next step, if it was one of our own types that did not take a value.
fn hint(refusal: &clap::Error) -> Option<&str> {
    std::error::Error::source(refusal)?.downcast_ref::<base::Failure>()?.hint.as_deref()
}

/// What the command line says.
fn parse() -> Result<(Cli, verbs::Action), clap::Error> {
    let found = help::command().try_get_matches()?;
    Ok((Cli::from_arg_matches(&found)?, verbs::parse(&found)?))
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next();
    if name.as_deref().is_some_and(mount_helper::is_called) {
        return mount_helper::main(words.collect());
    }
    if let Some(program) = name.as_deref().and_then(shims::called_as) {
        return shims::main(program, words.map(|word| word.to_string_lossy().into_owned()).collect());
    }
    let (cli, action) = match parse() {
        Ok(parsed) => parsed,
        Err(refusal) => return refused(&refusal),
    };
    let mut context = Context::new(&cli.global, Output::new(cli.global.json, cli.global.quiet));
    let ended = action(&mut context).and_then(|code| context.output.flush().map(|()| code));
    match ended {
        Ok(code) => ExitCode::from(code),
        // Whoever read our output has seen enough.
        Err(Stop::PipeClosed) => ExitCode::SUCCESS,
        Err(Stop::Failed(failure)) => {
            // The failure is what the person must see; output that cannot be flushed now is lost with it.
            let _ = context.output.flush();
            context.output.failure(&failure);
            ExitCode::from(failure.kind.exit_code())
        }
    }
}
