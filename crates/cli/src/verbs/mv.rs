//! `bp mv`: renames files and directories.

use crate::{
    context::{Context, Run},
    path_arg::{self, PathArg},
};
use base::{ErrorKind, Failure, FilePath, Result};
use wire::control::{NodeKind, Rename, Stat};

/// Rename files and directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace existing files, also their tape copies
    #[arg(long)]
    replace: bool,
    /// What to rename, then the new name or the directory to move it into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut texts = args.paths;
    let text = texts.pop().ok_or_else(|| Failure::invalid("mv needs two paths"))?;
    let (target, is_slashed): (FilePath, _) = (text.parse()?, text.ends_with('/'));
    let written = texts.iter().map(|text| text.parse()).collect::<Result<Vec<PathArg>>>()?;
    let sources = path_arg::paths(context, written)?;
    let into = is_directory(context, &target)?;
    // What ends in a slash is a directory: a directory may get that name, a file may not.
    let makes_file = is_slashed && !into && !all_directories(context, &sources)?;
    if (sources.len() > 1 || makes_file) && !into {
        return Err(Failure::new(
            ErrorKind::NotDirectory,
            format!("{target} is no directory to move files into"),
        )
        .into());
    }
    context.each(sources, |context, from| {
        let to = if into { target.join(from.name())? } else { target.clone() };
        let reply = context.call(&Rename { from, to: to.clone(), is_new: !args.replace, parents: false });
        let reply = reply.map_err(|failure| match failure.kind {
            ErrorKind::Exists if !args.replace => {
                failure.hint(format!("`bp mv --replace` replaces {to} and its tape copies"))
            }
            _ => failure,
        })?;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })
}

fn all_directories(context: &mut Context, paths: &[FilePath]) -> Result<bool> {
    for path in paths {
        if !is_directory(context, path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `path` is a directory that exists.
pub(crate) fn is_directory(context: &mut Context, path: &FilePath) -> Result<bool> {
    match context.call(&Stat { path: path.clone() }) {
        Ok(info) => Ok(info.entry.kind == NodeKind::Directory),
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}
