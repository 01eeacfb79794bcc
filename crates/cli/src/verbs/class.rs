//! `bp class`: shows and sets how many tape copies files have, and where these go.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::counted,
};
use base::FilePath;
use clap::Subcommand;
use wire::control::{
    CopyRoute, GetMissingCopies, GetStorageClass, MissingCopy, SetStorageClass, StorageClass,
    StorageClassInfo,
};

/// Set how many tape copies files have, and where these go
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A storage class counts for all files below a directory, also for those that are on tape already: what they \
        lack is written when no drive has other work. A file is archived when all its copies are on tape."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the storage class that counts, and where it was set
    Show {
        /// A file or directory
        path: FilePath,
    },
    /// Set the storage class of a directory
    Set {
        /// The directory
        path: FilePath,
        /// Where one copy goes: any, library=NAME, pool=NAME, or library=NAME,pool=NAME; once for each copy
        #[arg(long = "copy", required = true, value_name = "WHERE")]
        copies: Vec<CopyRoute>,
    },
    /// Remove the storage class of a directory; that of the directory above it counts then
    Unset {
        /// The directory
        path: FilePath,
    },
    /// Show files that have fewer tape copies than their class says
    Missing,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what {
        What::Show { path } => show(path, context),
        What::Set { path, copies } => set(path, Some(StorageClass { copies }), context),
        What::Unset { path } => set(path, None, context),
        What::Missing => missing(context),
    }
}

fn set(path: FilePath, class: Option<StorageClass>, context: &mut Context) -> Run {
    context.done(&SetStorageClass { path, class })?;
    Ok(0)
}

fn show(path: FilePath, context: &mut Context) -> Run {
    let info = context.call(&GetStorageClass { path: path.clone() })?;
    if context.output.is_json() {
        context.output.json(&info)?;
        return Ok(0);
    }
    match info {
        StorageClassInfo { class: Some(class), from: Some(from) } if from == path => {
            context.output.line(class.to_string())?;
        }
        StorageClassInfo { class: Some(class), from: Some(from) } => {
            context.output.line(format!("{class} (from {from})"))?;
        }
        _ => context.output.news("no storage class is set: files have one tape copy")?,
    }
    Ok(0)
}

fn missing(context: &mut Context) -> Run {
    let reply = context.call(&GetMissingCopies {})?;
    if context.output.is_json() {
        context.output.json(&reply)?;
        return Ok(0);
    }
    if reply.files.is_empty() {
        context.output.news("every file has the tape copies that its storage class wants")?;
    } else {
        context.output.table(&table(&reply.files))?;
    }
    let left = reply.files_len.saturating_sub(reply.files.len() as u64);
    if left > 0 {
        context.output.toned(Tone::Faint, &format!("and {}", counted(left, "other file", "other files")))?;
    }
    if reply.is_checking {
        context.output.news("files are still compared with their storage classes")?;
    }
    Ok(0)
}

/// Files that lack copies, as a table.
fn table(files: &[MissingCopy]) -> Table {
    let mut table = Table::new([
        Column::Left("path"),
        Column::Right("copies"),
        Column::Left("missing"),
        Column::Text("why"),
    ]);
    for file in files {
        if file.waits.is_none() {
            table.next_step("a file without a request: `bp archive PATH` asks for what it lacks");
        }
        let missing = file.missing.iter().map(CopyRoute::to_string).collect::<Vec<_>>().join("; ");
        table.row([
            Cell::from(file.path.as_str()),
            file.copies.to_string().into(),
            missing.into(),
            file.waits.clone().unwrap_or_default().into(),
        ]);
    }
    table
}
