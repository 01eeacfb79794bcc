//! `bp layout`: shows and sets how files lie on disk servers that are changed in place.

use crate::context::{Context, Run};
use base::{FilePath, units::Size};
use clap::Subcommand;
use wire::control::{GetLayout, LayoutInfo, LayoutRule, SetLayout};

/// Set copies and stripes of files that are changed in place
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A layout counts for files that are made through a mount below the directory from now on. It lasts while a \
        file changes; ten seconds after its last writer has closed it, the file is stored as its pool has all files."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the layout that counts, and where it was set
    Show {
        /// A file or directory
        path: FilePath,
    },
    /// Set a layout; what is not given is as the pool has it, and one column
    #[command(group = clap::ArgGroup::new("rule").required(true).multiple(true))]
    Set {
        /// A directory, or a file that is empty
        path: FilePath,
        /// Copies while the file changes
        #[arg(long, group = "rule", value_name = "N")]
        copies: Option<u8>,
        /// Disk servers over which each file is striped
        #[arg(long, group = "rule", value_name = "N")]
        width: Option<u8>,
        /// Bytes on one disk server before the next one follows, as 1MiB
        #[arg(long, group = "rule", value_name = "SIZE")]
        unit: Option<Size>,
    },
    /// Remove the layout of a path; that of a directory above it counts then
    Unset {
        /// A file or directory
        path: FilePath,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what {
        What::Show { path } => show(path, context),
        What::Set { path, copies, width, unit } => {
            let rule = LayoutRule { copies, width, unit: unit.map(|Size(bytes)| bytes) };
            set(path, Some(rule), context)
        }
        What::Unset { path } => set(path, None, context),
    }
}

fn set(path: FilePath, rule: Option<LayoutRule>, context: &mut Context) -> Run {
    let done = context.call(&SetLayout { path, rule })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    }
    Ok(0)
}

fn show(path: FilePath, context: &mut Context) -> Run {
    let info = context.call(&GetLayout { path: path.clone() })?;
    if context.output.is_json() {
        context.output.json(&info)?;
        return Ok(0);
    }
    match info {
        LayoutInfo { rule: Some(rule), from: Some(from) } if from == path => {
            context.output.line(rule.to_string())?;
        }
        LayoutInfo { rule: Some(rule), from: Some(from) } => {
            context.output.line(format!("{rule} (from {from})"))?;
        }
        _ => context.output.news("no layout is set: the pool of each file decides")?,
    }
    Ok(0)
}
