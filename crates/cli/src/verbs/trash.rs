//! `bp trash`: lists, restores and deletes removed files.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words::{counted, file_state, kept_for, time},
};
use base::{FileId, FilePath, units::human_bytes};
use clap::Subcommand;
use wire::control::{EmptyTrash, GetTrash, RestoreTrash, Trash, TrashEmptied, TrashRestored, TrashedFile};

/// List, restore and delete removed files
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The user who removed a file, its owner and the owner of the facility can restore it. It is \
        deleted for good when its time is over, or earlier when its space is needed. Without a command, the \
        trash is listed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the removed files, the newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only files that were at this path or below it
        #[arg(value_name = "PATH")]
        path: Option<FilePath>,
    },
    /// Restore the file removed last at a path, or all files below it
    Restore {
        /// A path, or the number of a file as `bp trash ls` shows it
        #[arg(value_name = "PATH|NUMBER")]
        what: Wanted,
        /// Restore it under this name
        #[arg(long, value_name = "PATH")]
        to: Option<FilePath>,
    },
    /// Delete files in the trash for good; for the owner of the facility
    Empty {
        /// Only files that were at this path or below it
        #[arg(value_name = "PATH")]
        path: Option<FilePath>,
        /// Do not ask
        #[arg(short, long, visible_alias = "force")]
        yes: bool,
    },
}

/// The file to restore.
#[derive(Debug, Clone)]
enum Wanted {
    At(FilePath),
    Number(FileId),
}

impl std::str::FromStr for Wanted {
    type Err = base::Failure;

    fn from_str(text: &str) -> base::Result<Self> {
        text.parse().map_or_else(|_| text.parse().map(Self::At), |number| Ok(Self::Number(FileId(number))))
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what.unwrap_or(What::List { path: None }) {
        What::List { path } => list(path, context),
        What::Restore { what, to } => restore(what, to, context),
        What::Empty { path, yes } => empty(path, yes, context),
    }
}

fn list(path: Option<FilePath>, context: &mut Context) -> Run {
    let mut all: Option<Trash> = None;
    let mut after = None;
    loop {
        let page = context.call(&GetTrash { path: path.clone(), after })?;
        after = page.next;
        match &mut all {
            Some(all) => all.files.extend(page.files),
            None => all = Some(Trash { next: None, ..page }),
        }
        if after.is_none() {
            break;
        }
    }
    let Some(trash) = all else { return Ok(0) };
    if context.output.is_json() {
        context.output.json(&trash)?;
    } else if trash.files.is_empty() {
        let word = if trash.retention.0 > 0 {
            format!("nothing to restore; what is removed is kept {}", kept_for(trash.retention))
        } else {
            "nothing to restore; this facility has no trash ([trash] retention = 0s)".to_owned()
        };
        context.output.news(word)?;
    } else {
        context.output.table(&table(&trash.files))?;
    }
    Ok(0)
}

fn table(files: &[TrashedFile]) -> Table {
    let mut table = Table::new([
        Column::Right("number"),
        Column::Left("when"),
        Column::Left("how"),
        Column::Left("by"),
        Column::Right("size"),
        Column::Left("state"),
        Column::Path("path"),
    ]);
    for file in files {
        table.row([
            Cell::from(file.id.to_string()),
            time(file.removed).into(),
            file.why.as_str().into(),
            file.remover.as_str().into(),
            human_bytes(file.size).into(),
            file_state(Some(file.state)),
            file.path.as_str().into(),
        ]);
    }
    table
}

fn restore(what: Wanted, to: Option<FilePath>, context: &mut Context) -> Run {
    let (path, id) = match what {
        Wanted::At(path) => (Some(path), None),
        Wanted::Number(id) => (None, Some(id)),
    };
    let mut all = TrashRestored { files: Vec::new(), bytes: 0, taken: Vec::new(), next: None };
    let mut after = None;
    loop {
        let part = context.call(&RestoreTrash { path: path.clone(), id, to: to.clone(), after })?;
        after = part.next;
        all.bytes += part.bytes;
        all.files.extend(part.files);
        all.taken.extend(part.taken);
        if after.is_none() {
            break;
        }
    }
    // An older version of what an earlier part has brought back.
    all.taken.retain(|path| !all.files.contains(path));
    if context.output.is_json() {
        context.output.json(&all)?;
        return Ok(0);
    }
    match &*all.files {
        [one] => context.output.news(format!("restored {one}, {}", human_bytes(all.bytes)))?,
        files => {
            let count = counted(files.len() as u64, "file", "files");
            context.output.news(format!("restored {count}, {}", human_bytes(all.bytes)))?;
        }
    }
    if let Some(first) = all.taken.first() {
        let count = counted(all.taken.len() as u64, "file stays", "files stay");
        context
            .output
            .news(format!("{count} in the trash: {first} exists; `--to PATH` restores elsewhere"))?;
    }
    Ok(0)
}

fn empty(path: Option<FilePath>, yes: bool, context: &mut Context) -> Run {
    let what = path.as_ref().map_or_else(|| "all files in the trash".to_owned(), ToString::to_string);
    if !yes && context.output.can_ask() && !context.output.ask(&format!("remove {what} for good?"))? {
        return Err(base::Failure::invalid("nothing was removed").into());
    }
    let mut all = TrashEmptied { files: 0, bytes: 0, is_more: false };
    loop {
        let part = context.call(&EmptyTrash { path: path.clone() })?;
        all.files += part.files;
        all.bytes += part.bytes;
        if !part.is_more {
            break;
        }
    }
    if context.output.is_json() {
        context.output.json(&all)?;
    } else {
        let (count, bytes) = (counted(all.files, "file is", "files are"), human_bytes(all.bytes));
        context.output.news(format!("{count} gone for good, {bytes} on disk"))?;
    }
    Ok(0)
}
