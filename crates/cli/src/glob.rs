//! Wildcards in paths of the facility: `*`, `?` and `[a-z]` in the last component.
//!
//! A path that exists is that path, whatever characters its name has: only otherwise is it a pattern. The same holds for
//! everything else that is written into a path, such as the name behind the colon of a job's input.

use crate::context::Context;
use base::{
    ErrorKind, Failure, FilePath, Result,
    pattern::{is_pattern, matches},
};
use client::Control;
use wire::control::{Entry, List, NodeKind, Stat};

/// Pages of one listing: a directory of 400 million entries is somebody's mistake.
const PAGES_MAX: usize = 100_000;

/// Files of one command: so many fit into memory.
const FILES_MAX: usize = 5_000_000;

/// Which entries a wildcard stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// Files only.
    Files,
    /// Directories too.
    All,
}

/// Calls `each` for every entry of a directory, in name order.
pub(crate) fn list(control: &Control, path: &FilePath, each: &mut dyn FnMut(Entry)) -> Result<()> {
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let page = control.call(&List { path: path.clone(), after: after.clone() })?;
        let Some(last) = page.entries.last() else {
            return Ok(());
        };
        after.clone_from(&last.name);
        page.entries.into_iter().for_each(&mut *each);
        if !page.is_partial {
            return Ok(());
        }
    }
    Err(Failure::busy(format!("directory {path} has too many entries")))
}

/// Whether there is something at `path`.
pub(crate) fn exists(control: &Control, path: &FilePath) -> Result<bool> {
    match control.call(&Stat { path: path.clone() }) {
        Ok(_) => Ok(true),
        Err(failure) if matches!(failure.kind, ErrorKind::NotFound | ErrorKind::NotDirectory) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The paths that the arguments stand for. An argument without wildcards stands for itself, whether it exists or not.
pub(crate) fn expand(context: &mut Context, arguments: &[FilePath], which: Match) -> Result<Vec<FilePath>> {
    let mut paths = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if is_pattern(argument.name()) && !exists(&context.control()?, argument)? {
            paths.extend(expand_one(&context.control()?, argument, which)?);
        } else {
            paths.push(argument.clone());
        }
    }
    Ok(paths)
}

/// Whether directories stand for the files in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// They are refused.
    Flat,
    /// They do, with all below.
    Recursive,
}

impl Depth {
    pub(crate) fn of(is_recursive: bool) -> Self {
        if is_recursive { Self::Recursive } else { Self::Flat }
    }
}

/// The files that the arguments stand for.
pub(crate) fn files(context: &mut Context, arguments: &[FilePath], depth: Depth) -> Result<Vec<FilePath>> {
    if depth == Depth::Flat {
        return expand(context, arguments, Match::Files);
    }
    let control = context.control()?;
    let mut files = Vec::new();
    for path in expand(context, arguments, Match::All)? {
        // What is not there is told by the call that it is for.
        let entry = control.call(&Stat { path: path.clone() });
        if entry.is_ok_and(|info| info.entry.kind == NodeKind::Directory) {
            below(&control, path, &mut files)?;
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// The files below a directory. What is still to be listed is kept in a list: trees may be as deep as they like.
fn below(control: &Control, directory: FilePath, files: &mut Vec<FilePath>) -> Result<()> {
    let mut ahead = vec![directory];
    while let Some(directory) = ahead.pop() {
        let mut names = Vec::new();
        list(control, &directory, &mut |entry| names.push((entry.name, entry.kind)))?;
        for (name, kind) in names {
            let path = directory.join(&name)?;
            match kind {
                NodeKind::Directory => ahead.push(path),
                // What is no file is refused by name where it is opened.
                _ => files.push(path),
            }
        }
        if files.len() + ahead.len() > FILES_MAX {
            return Err(Failure::busy(format!("{directory} and others hold more than {FILES_MAX} files"))
                .hint("name subdirectories, one at a time"));
        }
    }
    Ok(())
}

fn expand_one(control: &Control, argument: &FilePath, which: Match) -> Result<Vec<FilePath>> {
    let pattern = argument.name();
    let directory = argument.parent().unwrap_or_else(FilePath::root);
    let mut names = Vec::new();
    list(control, &directory, &mut |entry| {
        let is_kind = which == Match::All || entry.kind == NodeKind::File;
        let is_shown = pattern.starts_with('.') || !entry.name.starts_with('.');
        if is_kind && is_shown && matches(pattern, &entry.name) {
            names.push(entry.name);
        }
    })?;
    if names.is_empty() {
        return Err(Failure::not_found(format!("nothing matches {argument}")));
    }
    names.iter().map(|name| directory.join(name)).collect()
}
