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
    let left = fuse::unmount(&args.directory, args.lazy)?;
    let directory = args.directory.display();
    context.output.news(match left {
        None => format!("{directory} is unmounted"),
        Some(pid) => format!(
            "{directory} is unmounted; process {pid}, which served it, has not ended: another mount namespace has the \
             directory, too, or the facility does not answer"
        ),
    })?;
    Ok(0)
}
