//! `bp evict`: drops disk replicas of files that are on tape.

use super::wait::{self, Timeout};
use crate::{
    context::{Context, Run},
    glob::{self, Depth},
    path_arg::{self, PathArg},
};
use wire::control::Evict;

/// Delete disk replicas of files that are safe on tape
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    let outcomes = wait::in_parts(context, &paths, |paths| Evict { paths, releases: false })?;
    wait::asked(context, outcomes, None, &Timeout::default())
}
