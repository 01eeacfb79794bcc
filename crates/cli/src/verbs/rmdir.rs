//! `bp rmdir`: removes empty directories.

use crate::context::{Context, Run};

use base::FilePath;
use wire::control::RemoveDirectory;

/// Remove empty directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories, empty ones
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<FilePath>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.each(args.paths, |context, path| context.done(&RemoveDirectory { path }))
}
