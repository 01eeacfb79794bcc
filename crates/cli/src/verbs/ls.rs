//! `bp ls`: lists directories.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    output::Tone,
    path_arg::{self, PathArg},
    table::{Cell, Column, Table},
    words::{file_state, mode, time},
};
use base::{Failure, FilePath, Result, limits::PATH_DEPTH_MAX, units::human_bytes};
use wire::control::{Entry, Listing, NodeKind, Stat};

/// List directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show mode, owner, group, size, time (UTC) and whether the file is on disk or tape
    #[arg(short)]
    long: bool,
    /// Also list everything below
    #[arg(short = 'R')]
    recursive: bool,
    /// Files or directories; *, ? and [a-z] in the last component are wildcards
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    let paths = path_arg::paths(context, args.paths.clone())?;
    let code = context.each(paths, |context, argument| {
        for path in glob::expand(context, std::slice::from_ref(&argument), Match::All)? {
            let info = context.call(&Stat { path: path.clone() })?;
            match info.entry.kind {
                NodeKind::Directory => directories.push(path),
                _ => files.push((path, info.entry)),
            }
        }
        Ok(())
    })?;
    let has_titles = args.recursive || directories.len() + files.len() > 1;
    if !files.is_empty() {
        let named = files.into_iter().map(|(path, entry)| Entry { name: path.into(), ..entry }).collect();
        print(context, named, args.long)?;
    }
    let listed =
        context.each(directories, |context, path| directory(context, &path, &args, has_titles, 0))?;
    Ok(if code == 0 { listed } else { code })
}

fn directory(context: &mut Context, path: &FilePath, args: &Args, has_title: bool, depth: usize) -> Run<()> {
    let entries = entries(context, path)?;
    if has_title && !context.output.is_json() {
        context.output.toned(Tone::Strong, &format!("{path}:"))?;
    }
    let below: Vec<FilePath> = if args.recursive && depth < PATH_DEPTH_MAX {
        let names = entries.iter().filter(|entry| entry.kind == NodeKind::Directory);
        names.map(|entry| path.join(&entry.name)).collect::<Result<_, Failure>>()?
    } else {
        Vec::new()
    };
    print(context, entries, args.long)?;
    for path in below {
        if !context.output.is_json() {
            context.output.line("")?;
        }
        directory(context, &path, args, has_title, depth + 1)?;
    }
    Ok(())
}

fn entries(context: &mut Context, path: &FilePath) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    glob::list(&context.control()?, path, &mut |entry| entries.push(entry))?;
    Ok(entries)
}

fn print(context: &mut Context, entries: Vec<Entry>, is_long: bool) -> Run<()> {
    if context.output.is_json() {
        return context.output.json(&Listing { entries, is_partial: false });
    }
    if !is_long {
        return entries.iter().try_for_each(|entry| {
            let (tone, mark) = kind(entry);
            context.output.toned(tone, &format!("{}{mark}", entry.name))
        });
    }
    let mut table = Table::new([
        Column::Left("mode"),
        Column::Left("owner"),
        Column::Left("group"),
        Column::Right("size"),
        Column::Left("modified"),
        Column::Left("state"),
        Column::Left("name"),
    ]);
    for entry in &entries {
        let (tone, mark) = kind(entry);
        let size = match entry.kind {
            NodeKind::File => human_bytes(entry.size),
            _ => String::new(),
        };
        table.row([
            Cell::from(mode(entry)),
            entry.owner.as_str().into(),
            entry.group.as_str().into(),
            size.into(),
            time(entry.modified).into(),
            file_state(entry.state),
            Cell::toned(format!("{}{mark}", entry.name), tone),
        ]);
    }
    if table.is_empty() { Ok(()) } else { context.output.table(&table) }
}

fn kind(entry: &Entry) -> (Tone, &'static str) {
    match entry.kind {
        NodeKind::Directory => (Tone::Blue, "/"),
        NodeKind::File => (Tone::Plain, ""),
        // As `ls -F` marks them.
        NodeKind::Link => (Tone::Plain, "@"),
        NodeKind::Fifo => (Tone::Plain, "|"),
        NodeKind::Socket => (Tone::Plain, "="),
        NodeKind::BlockDevice | NodeKind::CharacterDevice => (Tone::Plain, ""),
    }
}
