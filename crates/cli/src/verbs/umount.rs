//! `bp umount`: unmounts what `bp mount` has mounted.

use crate::context::{Context, Run};
use std::path::PathBuf;

/// Unmount what `bp mount` has mounted
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it is mounted
    directory: PathBuf,
    /// Also if programs have files open there: their name goes now, the rest when they end
    #[arg(long)]
    lazy: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    fuse::unmount(&args.directory, args.lazy)?;
    context.output.news(format!("{} is unmounted", args.directory.display()))?;
    Ok(0)
}
