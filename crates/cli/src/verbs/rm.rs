//! `bp rm`: removes files.

use crate::context::{Context, Run};
use crate::glob::{self, Match};
use base::FilePath;
use wire::control::Remove;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files; * and ? in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<FilePath>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = glob::expand(context, &args.paths, Match::Files)?;
    context.each(paths, |context, path| {
        let reply = context.call(&Remove { path })?;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })
}
