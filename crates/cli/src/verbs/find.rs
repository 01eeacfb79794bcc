//! `bp find`: finds files and directories below directories.

use crate::{
    context::{Context, Run},
    walk,
};
use base::{
    FilePath, Timestamp,
    pattern::matches,
    units::{Size, Span},
};
use clap::ValueEnum;
use serde::Serialize;
use std::time::SystemTime;
use wire::control::{Entry, FileState, NodeKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Files
    F,
    /// Directories
    D,
    /// Symbolic links
    L,
}

impl Kind {
    fn is(self, kind: NodeKind) -> bool {
        let wanted = match self {
            Self::F => NodeKind::File,
            Self::D => NodeKind::Directory,
            Self::L => NodeKind::Link,
        };
        wanted == kind
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    /// With a disk replica
    Online,
    /// With a tape copy only
    Nearline,
    /// With both
    Both,
    /// On hosts only that do not answer, and on no tape
    OutOfReach,
    /// With neither
    Lost,
}

/// Find files and directories by name, size, age or state
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to look
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<FilePath>,
    /// Only names that match; *, ? and [a-z] are wildcards
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Only files (f), directories (d) or symbolic links (l)
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<Kind>,
    /// Only files and directories of this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Only files with this state
    #[arg(long)]
    state: Option<State>,
    /// Only files of this size or more, e.g. 1GiB
    #[arg(long, value_name = "SIZE")]
    larger: Option<Size>,
    /// Only entries changed within this time, e.g. 2d
    #[arg(long, value_name = "TIME")]
    newer: Option<Span>,
    /// Only entries not changed within this time, e.g. 30d
    #[arg(long, value_name = "TIME")]
    older: Option<Span>,
}

impl Args {
    fn wants(&self, entry: &Entry, now: Timestamp) -> bool {
        let is_file = entry.kind == NodeKind::File;
        let age = now - entry.modified;
        let state = |state| match state {
            State::Online => entry.state.is_some_and(FileState::is_online),
            State::Nearline => entry.state == Some(FileState::Nearline),
            State::Both => entry.state == Some(FileState::Both),
            State::OutOfReach => entry.state == Some(FileState::OutOfReach),
            State::Lost => entry.state == Some(FileState::Lost),
        };
        self.name.as_ref().is_none_or(|pattern| matches(pattern, &entry.name))
            && self.kind.is_none_or(|kind| kind.is(entry.kind))
            && self.owner.as_ref().is_none_or(|owner| *owner == entry.owner)
            && self.state.is_none_or(state)
            && self.larger.is_none_or(|Size(least)| is_file && entry.size >= least)
            && self.newer.is_none_or(|Span(most)| age <= most)
            && self.older.is_none_or(|Span(least)| age > least)
    }
}

/// What `--json` shows, one on each line.
#[derive(Serialize)]
struct Found<'a> {
    path: &'a FilePath,
    #[serde(flatten)]
    entry: &'a Entry,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let now = Timestamp::from_system(SystemTime::now());
    let mut code = 0;
    let ended = context.each(args.paths.clone(), |context, root| {
        let walked = walk::walk(context, &root, &mut |context, met| {
            if !args.wants(&met.entry, now) {
                return Ok(());
            }
            if context.output.is_json() {
                return context.output.json(&Found { path: &met.path, entry: &met.entry });
            }
            context.output.line(met.path.as_str())
        })?;
        code = if code == 0 { walked } else { code };
        Ok(())
    })?;
    Ok(if ended == 0 { code } else { ended })
}
