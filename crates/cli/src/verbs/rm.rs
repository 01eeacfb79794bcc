//! `bp rm`: removes files, and directories with what is in them.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    path_arg::{self, PathArg},
    words::{counted, kept_for},
};
use base::{ErrorKind, Failure, FilePath, Millis, Result, units::human_bytes};
use wire::control::{Entry, NodeKind, Remove, RemoveDirectory, Removed, Stat};

/// Most names that are removed at once: their paths are held in memory, some hundred bytes each.
const NAMES_MAX: usize = 10_000_000;

/// Remove files, and directories with -r; see trash
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removed files can be restored for a while: `bp trash ls`, `bp trash restore PATH`. On a \
        terminal bp asks before it removes more than one file."
)]
pub(crate) struct Args {
    /// Files, with -r also directories; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
    /// Remove directories and everything that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask
    #[arg(short, long, visible_alias = "force")]
    yes: bool,
}

/// What is to be removed.
#[derive(Default)]
struct Plan {
    files: Vec<FilePath>,
    /// Those above come before those below.
    directories: Vec<FilePath>,
    /// Of the files, as far as they were looked at.
    bytes: u64,
}

/// The numbers of removed files and directories.
#[derive(Default)]
struct RemovedCounts {
    files: u64,
    directories: u64,
    bytes: u64,
    in_trash: u64,
    restorable_for: Option<Millis>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let which = if args.recursive { Match::All } else { Match::Files };
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, which)?;
    let (plan, missing) = plan(context, paths, args.recursive)?;
    let names = plan.files.len() + plan.directories.len();
    if names > 1 && !args.yes && context.output.can_ask() && !context.output.ask(&question(&plan))? {
        return Err(Failure::invalid("nothing was removed").into());
    }
    let says = args.recursive || plan.files.len() > 1;
    let mut gone = RemovedCounts::default();
    let files = context.each(plan.files, |context, path| {
        let reply = context.call(&Remove { path })?;
        gone.add(reply);
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })?;
    // From below to above: a directory must be empty.
    let directories = context.each(plan.directories.into_iter().rev(), |context, path| {
        let reply = context.call(&RemoveDirectory { path })?;
        gone.directories += 1;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })?;
    if says {
        context.output.news(gone.told())?;
    }
    Ok([missing, files, directories].into_iter().find(|code| *code != 0).unwrap_or(0))
}

/// Looks at what is to be removed; without -r a path is taken for a file. The number is the exit code of what is missing.
fn plan(context: &mut Context, paths: Vec<FilePath>, is_recursive: bool) -> Run<(Plan, u8)> {
    let mut plan = Plan::default();
    if !is_recursive {
        plan.files = paths;
        return Ok((plan, 0));
    }
    let code = context.each(paths, |context, path| {
        if path.is_root() {
            return Err(Failure::permission("the root directory cannot be removed").into());
        }
        let info = context.call(&Stat { path: path.clone() })?;
        plan.add(path, &info.entry)?;
        Ok(())
    })?;
    let mut looked = 0;
    while let Some(directory) = plan.directories.get(looked).cloned() {
        let mut entries = Vec::new();
        glob::list(&context.control()?, &directory, &mut |entry| entries.push(entry))?;
        for entry in entries {
            plan.add(directory.join(&entry.name)?, &entry)?;
        }
        looked += 1;
    }
    Ok((plan, code))
}

impl Plan {
    fn add(&mut self, path: FilePath, entry: &Entry) -> Result<()> {
        if self.files.len() + self.directories.len() >= NAMES_MAX {
            return Err(Failure::new(ErrorKind::Busy, format!("more than {NAMES_MAX} names at once"))
                .hint("remove directories one at a time"));
        }
        if entry.kind == NodeKind::Directory {
            self.directories.push(path);
        } else {
            self.bytes += entry.size;
            self.files.push(path);
        }
        Ok(())
    }
}

fn question(plan: &Plan) -> String {
    let mut words = vec![counted(plan.files.len() as u64, "file", "files")];
    if !plan.directories.is_empty() {
        words.push(counted(plan.directories.len() as u64, "directory", "directories"));
        words.push(human_bytes(plan.bytes));
    }
    format!("remove {}?", words.join(", "))
}

impl RemovedCounts {
    fn add(&mut self, removed: Removed) {
        self.files += 1;
        self.bytes += removed.bytes;
        self.in_trash += u64::from(removed.restorable_for.is_some());
        self.restorable_for = self.restorable_for.or(removed.restorable_for);
    }

    /// `3 files, 2 directories, 1.2 GB; in the trash for a day`.
    fn told(&self) -> String {
        let mut words = vec![counted(self.files, "file", "files")];
        if self.directories > 0 {
            words.push(counted(self.directories, "directory", "directories"));
        }
        words.push(human_bytes(self.bytes));
        let where_to = match self.restorable_for {
            Some(kept) if self.in_trash == self.files => format!("in the trash {}", kept_for(kept)),
            Some(kept) => format!("{} of them are in the trash {}", self.in_trash, kept_for(kept)),
            None => "gone for good".to_owned(),
        };
        format!("{}; {where_to}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_counted_and_where_it_is_told() {
        let day = Millis::from_seconds(86_400);
        let mut gone = RemovedCounts { directories: 2, ..RemovedCounts::default() };
        for bytes in [1_200_000_000, 0, 0] {
            gone.add(Removed { bytes, restorable_for: Some(day) });
        }
        assert_eq!(gone.told(), "3 files, 2 directories, 1.12 GiB; in the trash for a day");
        gone.add(Removed { bytes: 0, restorable_for: None });
        assert_eq!(gone.told(), "4 files, 2 directories, 1.12 GiB; 3 of them are in the trash for a day");
        let mut gone = RemovedCounts::default();
        gone.add(Removed { bytes: 1, restorable_for: None });
        assert_eq!(gone.told(), "1 file, 1 B; gone for good");
    }
}
