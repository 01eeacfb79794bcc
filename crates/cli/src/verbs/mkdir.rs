//! `bp mkdir`: makes directories.

use crate::context::{Context, Run};

use base::FilePath;
use wire::control::Mkdir;

/// Make directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Make missing parents; existing directories are no error
    #[arg(long, short)]
    parents: bool,
    /// Directories to make
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<FilePath>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context
        .each(args.paths, |context, path| context.done(&Mkdir { path, mode: 0o755, parents: args.parents }))
}
