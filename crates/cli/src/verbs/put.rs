//! `bp put`: copies local files into the facility.

use super::mv::is_directory;
use crate::{
    context::{Context, Run},
    mover::CopyOptions,
    transfer,
};
use base::{ErrorKind, Failure, FilePath, Result};
use std::path::{Path, PathBuf};

/// Copy local files into the facility
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace files that exist
    #[arg(long)]
    replace: bool,
    /// Make missing directories
    #[arg(long, short)]
    parents: bool,
    /// Local files (- is standard input), then the new path or the directory for them
    #[arg(required = true, num_args = 2.., value_names = ["LOCAL", "PATH"])]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut sources = args.files;
    let target = sources.pop().ok_or_else(|| Failure::invalid("put needs a path in the facility"))?;
    let text =
        target.to_str().ok_or_else(|| Failure::invalid(format!("{} is not UTF-8", target.display())))?;
    let path: FilePath = text.parse()?;
    let into = (args.parents && text.ends_with('/')) || is_directory(context, &path)?;
    if !into && (sources.len() > 1 || text.ends_with('/')) {
        return Err(Failure::new(ErrorKind::NotDirectory, format!("{path} is not a directory"))
            .hint(format!("make it with `bp mkdir -p {path}`, or add --parents and end it with /"))
            .into());
    }
    let copy_options =
        CopyOptions { replace: args.replace, make_path: args.parents, resume: false, verify: true };
    context.each(sources, |context, source| {
        let path = if into { path.join(name(&source)?)? } else { path.clone() };
        transfer::upload(context, &source, &path, copy_options)
    })
}

fn name(source: &Path) -> Result<&str> {
    let name = source.file_name().and_then(|name| name.to_str()).filter(|name| *name != "-");
    name.ok_or_else(|| {
        Failure::invalid(format!("{} has no file name to use in the facility", source.display()))
    })
}
