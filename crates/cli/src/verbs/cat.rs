//! `bp cat`: prints files.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    path_arg::{self, PathArg},
    transfer,
};

/// Print files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, Match::Files)?;
    context.each(paths, |context, path| transfer::print(context, &path))
}
