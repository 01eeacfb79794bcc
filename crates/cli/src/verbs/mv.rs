//! `bp mv`: renames files and directories.

use crate::context::{Context, Run};
use base::{ErrorKind, Failure, FilePath, Result};
use wire::control::{NodeKind, Rename, Stat};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to rename, then the new name or the directory to move it into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<FilePath>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut sources = args.paths;
    let target = sources.pop().ok_or_else(|| Failure::invalid("mv needs two paths"))?;
    let into = is_directory(context, &target)?;
    if sources.len() > 1 && !into {
        return Err(Failure::new(
            ErrorKind::NotDirectory,
            format!("{target} is no directory to move files into"),
        )
        .into());
    }
    context.each(sources, |context, from| {
        let to = if into { target.join(from.name())? } else { target.clone() };
        let reply = context.call(&Rename { from, to, is_new: false })?;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })
}

/// Whether `path` is a directory that exists.
pub(crate) fn is_directory(context: &mut Context, path: &FilePath) -> Result<bool> {
    match context.call(&Stat { path: path.clone() }) {
        Ok(info) => Ok(info.entry.kind == NodeKind::Directory),
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}
