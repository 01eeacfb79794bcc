//! `bp shims`: makes the commands of other batch systems, as links to `bp`.

use crate::{
    context::{Context, Run},
    shims::{Family, PROGRAMS},
};
use base::Failure;
use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Make sbatch, squeue, qsub, … in a directory, as links to bp
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Put the directory first in PATH, and programs that submit to Slurm or PBS submit to the facility \
        that\nBP_FACILITY names."
)]
pub(crate) struct Args {
    /// Only the commands of this system
    #[arg(long, value_enum)]
    only: Option<Family>,
    /// Where to make them; made if it is missing
    directory: PathBuf,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.restore_umask();
    let own = std::env::current_exe().map_err(|cause| Failure::io("find bp itself", &cause))?;
    fs::create_dir_all(&args.directory)
        .map_err(|cause| Failure::io(format!("make {}", args.directory.display()), &cause))?;
    let wanted = PROGRAMS.iter().filter(|program| args.only.is_none_or(|only| only == program.family));
    let mut names = Vec::new();
    for program in wanted {
        link(&own, &args.directory.join(program.name))?;
        names.push(program.name);
    }
    context.output.news(format!("{} in {}", names.join(" "), args.directory.display()))?;
    Ok(0)
}

/// Makes a link; what stands there already is replaced if it is a link of ours, also to an older `bp`.
fn link(own: &Path, place: &Path) -> Result<(), Failure> {
    let failed = |cause: &std::io::Error| Failure::io(format!("make {}", place.display()), cause);
    match symlink(own, place) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(|cause| failed(&cause)),
    }
    let is_ours = fs::read_link(place).is_ok_and(|to| to.file_name() == own.file_name());
    if !is_ours {
        return Err(Failure::exists(format!("{} exists and is not a link to bp", place.display()))
            .hint("choose a directory of their own"));
    }
    fs::remove_file(place).map_err(|cause| failed(&cause))?;
    symlink(own, place).map_err(|cause| failed(&cause))
}
