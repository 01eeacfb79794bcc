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
    context.each(args.paths, |context, path| {
        let reply = context.call(&Mkdir { path, mode: 0o755, parents: args.parents })?;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })
}
