//! `bp down`: stops a facility.

use crate::{
    context::{Context, Run},
    daemon::{self, Stopped},
};
use base::Failure;
use std::path::PathBuf;

/// Stop a facility
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The facility's directory [default: --facility or BP_FACILITY]
    directory: Option<PathBuf>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let directory = match args.directory {
        Some(directory) => directory,
        None => PathBuf::from(context.place()?),
    };
    if directory.as_os_str().to_string_lossy().contains("://") {
        return Err(Failure::invalid(format!("{} is not a directory", directory.display()))
            .hint("stop a facility on its own host: `bp down DIR`")
            .into());
    }
    let stopped = daemon::stop(&directory)?;
    context.output.news(match stopped {
        Stopped::Now => format!("{} is down", directory.display()),
        Stopped::Before => format!("{} was not running", directory.display()),
    })?;
    Ok(0)
}
