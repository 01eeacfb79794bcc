//! `bp completion`: prints a completion script.

use crate::{
    context::{Context, Run},
    help,
};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "bp", &mut script);
    context.output.bytes(&script)?;
    Ok(0)
}
