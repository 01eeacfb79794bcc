//! `bp down`: stops a facility.

use crate::{
    context::{Context, Run},
    daemon::{self, Stopped},
};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The facility's directory
    directory: PathBuf,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let stopped = daemon::stop(&args.directory)?;
    context.output.news(match stopped {
        Stopped::Now => format!("{} is down", args.directory.display()),
        Stopped::Before => format!("{} was not running", args.directory.display()),
    })?;
    Ok(0)
}
