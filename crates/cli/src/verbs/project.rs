//! `bp project`: assigns directories to projects.

use crate::{
    context::{Context, Run},
    glob,
};
use base::FilePath;
use wire::control::{GetEntry, NodeKind, ProjectName, SetProject};

/// Assign files and directories to a project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "New files in a directory belong to the directory's project. Existing files keep their \
        project, unless -r is given.\nA moved file keeps its project. `bp stat` shows the project of a file, \
        `bp account --project` the usage of each."
)]
pub(crate) struct Args {
    /// The directory, or a file
    path: FilePath,
    /// The project
    #[arg(required_unless_present = "none", conflicts_with = "none")]
    name: Option<ProjectName>,
    /// Remove it from its project
    #[arg(long)]
    none: bool,
    /// Also everything below it
    #[arg(long, short)]
    recursive: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let Args { path, name: project, recursive, .. } = args;
    set(context, &path, project.as_ref())?;
    if !recursive || context.call(&GetEntry { path: path.clone() })?.kind != NodeKind::Directory {
        return Ok(0);
    }
    // A directory is marked before what is in it: what is made meanwhile belongs to the project, too.
    let mut directories = vec![path];
    while let Some(directory) = directories.pop() {
        let mut entries = Vec::new();
        glob::list(&context.control()?, &directory, &mut |entry| entries.push((entry.name, entry.kind)))?;
        for (name, kind) in entries {
            let path = directory.join(&name)?;
            set(context, &path, project.as_ref())?;
            if kind == NodeKind::Directory {
                directories.push(path);
            }
        }
    }
    Ok(0)
}

fn set(context: &mut Context, path: &FilePath, project: Option<&ProjectName>) -> Run<()> {
    context.done(&SetProject { path: path.clone(), project: project.cloned() })
}
