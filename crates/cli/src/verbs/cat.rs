//! `bp cat`: prints files.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    transfer,
    written::{self, Written},
};

/// Print files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<Written>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = written::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, Match::Files)?;
    context.each(paths, |context, path| transfer::print(context, &path))
}
