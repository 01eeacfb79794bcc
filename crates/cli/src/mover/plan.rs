//! The plan of a copy: files with their targets, and directories to make.

use super::place::{Entry, Found, Location};
use base::{
    ErrorKind, Failure, Result,
    limits::PATH_DEPTH_MAX,
    pattern::{is_pattern, matches},
};
use client::xrd::Options;

/// Files and directories of one command: a plan of so many fits into memory.
const PLACES_MAX: usize = 5_000_000;

/// One file to copy.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) source: Location,
    pub(crate) target: Location,
    /// Size as listed, for the bar.
    pub(crate) bytes: u64,
}

/// What a copy consists of.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    /// Directories that must exist though no file may be in them.
    pub(crate) directories: Vec<Location>,
}

/// Finds out what to copy. Directories need `is_recursive`.
pub(crate) fn plan(
    sources: &[Location],
    target: &Location,
    must_be_directory: bool,
    is_recursive: bool,
    options: &Options,
) -> Result<Plan> {
    let sources = expand(sources, options)?;
    let found = target.look(options)?;
    let into = found == Found::Directory || must_be_directory;
    if !into && sources.len() > 1 {
        return Err(Failure::new(ErrorKind::NotDirectory, format!("{target} is not a directory"))
            .hint("end it with / to make it"));
    }
    let mut plan = Plan::default();
    for (source, found) in sources {
        let target = if into { target.join(source.name()?)? } else { target.clone() };
        match found {
            Found::File(bytes) => plan.jobs.push(Job { source, target, bytes }),
            Found::Directory if is_recursive => plan.descend(&source, target, 0, options)?,
            Found::Directory => {
                return Err(Failure::new(ErrorKind::IsDirectory, format!("{source} is a directory"))
                    .hint("add -r to copy it with what is in it"));
            }
            Found::Nothing => return Err(Failure::not_found(format!("{source} does not exist"))),
        }
    }
    Ok(plan)
}

/// The sources, with `*`, `?` and `[a-z]` in the last component of remote paths expanded unless a source exists as it is written;
/// the shell does the local ones.
fn expand(sources: &[Location], options: &Options) -> Result<Vec<(Location, Found)>> {
    let mut all = Vec::new();
    for source in sources {
        let pattern = match source {
            Location::Remote { url, .. } if is_pattern(url.path.name()) => url.path.name(),
            _ => {
                all.push((source.clone(), source.look(options)?));
                continue;
            }
        };
        // A name with a question mark can be listed only: requests cannot hold it.
        let found = if pattern.contains('?') { Found::Nothing } else { source.look(options)? };
        if found == Found::Nothing {
            all.extend(matching(source, pattern, options)?);
        } else {
            all.push((source.clone(), found));
        }
    }
    Ok(all)
}

/// The entry of the name `pattern`, or those that it matches.
fn matching(source: &Location, pattern: &str, options: &Options) -> Result<Vec<(Location, Found)>> {
    let parent = source.parent().ok_or_else(|| Failure::invalid(format!("{source} has no directory")))?;
    let mut entries = parent.list(options)?;
    if entries.iter().any(|entry| entry.name == pattern) {
        entries.retain(|entry| entry.name == pattern);
    } else {
        let is_shown = |name: &str| pattern.starts_with('.') || !name.starts_with('.');
        entries.retain(|entry| matches(pattern, &entry.name) && is_shown(&entry.name));
    }
    if entries.is_empty() {
        return Err(Failure::not_found(format!("nothing matches {source}")));
    }
    entries.into_iter().map(|Entry { name, found }| Ok((parent.join(&name)?, found))).collect()
}

impl Plan {
    fn descend(
        &mut self,
        source: &Location,
        target: Location,
        depth: usize,
        options: &Options,
    ) -> Result<()> {
        if depth > PATH_DEPTH_MAX {
            return Err(Failure::invalid(format!("{source} is deeper than {PATH_DEPTH_MAX} directories")));
        }
        for Entry { name, found } in source.list(options)? {
            let (source, target) = (source.join(&name)?, target.join(&name)?);
            match found {
                Found::Directory => self.descend(&source, target, depth + 1, options)?,
                Found::File(bytes) => self.jobs.push(Job { source, target, bytes }),
                Found::Nothing => {}
            }
            if self.jobs.len() + self.directories.len() > PLACES_MAX {
                let what = format!("more than {PLACES_MAX} files and directories");
                return Err(Failure::busy(what).hint("copy them in parts"));
            }
        }
        self.directories.push(target);
        Ok(())
    }
}
