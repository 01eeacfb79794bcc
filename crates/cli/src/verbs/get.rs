//! `bp get`: copies files out of the facility.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    mover::Manner,
    transfer,
};
use base::{ErrorKind, Failure, FilePath, Result};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace local files that exist
    #[arg(long)]
    replace: bool,
    /// Files (* and ? in the last component are wildcards), then the local name (- is
    /// standard output) or the directory for them
    #[arg(required = true, num_args = 2.., value_names = ["PATH", "LOCAL"])]
    files: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut sources = args.files;
    let target = PathBuf::from(sources.pop().ok_or_else(|| Failure::invalid("get needs a local name"))?);
    let paths = sources.iter().map(|text| text.parse()).collect::<Result<Vec<FilePath>>>()?;
    let paths = glob::expand(context, &paths, Match::Files)?;
    if target.as_os_str() == "-" {
        return context.each(paths, |context, path| transfer::print(context, &path));
    }
    let into = target.is_dir();
    if !into && (paths.len() > 1 || target.as_os_str().to_string_lossy().ends_with('/')) {
        let what = format!("{} is no directory to put files into", target.display());
        return Err(Failure::new(ErrorKind::NotDirectory, what).into());
    }
    let manner = Manner { replace: args.replace, make_path: false, resume: false, verify: true };
    context.each(paths, |context, path| {
        let local = if into { target.join(path.name()) } else { target.clone() };
        transfer::download(context, &path, &local, manner)
    })
}
