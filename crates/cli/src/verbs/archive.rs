//! `bp archive`: asks for tape copies.

use super::wait::{self, Timeout};
use crate::{
    context::{Context, Run},
    glob::{self, Depth},
    path_arg::{self, PathArg},
};
use wire::control::{Archive, Want};

/// Request tape copies of files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Return when the files are on tape
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: Timeout,
    /// Also directories, with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::files(context, &paths, Depth::of(args.recursive))?;
    let outcomes = wait::in_parts(context, &paths, |paths| Archive { paths })?;
    wait::asked(context, outcomes, args.wait.then_some(Want::Archived), &args.timeout)
}
