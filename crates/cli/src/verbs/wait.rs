//! `bp wait`: waits until files are on disk or on tape.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    path_arg::{self, PathArg},
    waiting,
};
use base::{ErrorKind, FilePath, Result, units::Span};
use wire::control::{Call, PathOutcome, PathOutcomes, Want};

/// How long to wait.
#[derive(Debug, clap::Args)]
pub(crate) struct Timeout {
    /// Give up waiting after this time
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub(crate) timeout: Span,
}

impl Default for Timeout {
    fn default() -> Self {
        Self { timeout: Span(waiting::PATIENCE_DEFAULT) }
    }
}

/// Wait until files are on disk or on tape
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    goal: Goal,
    #[command(flatten)]
    timeout: Timeout,
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Goal {
    /// Until they have disk replicas; this is the default
    #[arg(long)]
    online: bool,
    /// Until they have tape copies
    #[arg(long)]
    archived: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, Match::Files)?;
    let want = if args.goal.archived { Want::Archived } else { Want::Online };
    finish(context, &paths, want, &args.timeout)
}

/// Paths of one call: it stays far below the longest one that is taken.
const PART_LEN: usize = 1000;

/// Makes a call for so many paths that one call could not name them all.
pub(crate) fn in_parts<C: Call<Reply = PathOutcomes>>(
    context: &mut Context,
    paths: &[FilePath],
    call: impl Fn(Vec<FilePath>) -> C,
) -> Result<PathOutcomes> {
    let mut files = Vec::with_capacity(paths.len());
    for part in paths.chunks(PART_LEN) {
        files.extend(context.call(&call(part.to_vec()))?.files);
    }
    Ok(PathOutcomes { files })
}

fn finish(context: &mut Context, paths: &[FilePath], want: Want, timeout: &Timeout) -> Run {
    let mut outcomes = PathOutcomes { files: Vec::with_capacity(paths.len()) };
    for part in paths.chunks(PART_LEN) {
        outcomes.files.extend(waiting::files(context, part, want, timeout.timeout.0)?.files);
    }
    if context.output.is_json() {
        context.output.json(&outcomes)?;
    }
    Ok(0)
}

/// Shows what a call that names many files did, and waits for the rest if that is wanted.
pub(crate) fn asked(
    context: &mut Context,
    outcomes: PathOutcomes,
    want: Option<Want>,
    timeout: &Timeout,
) -> Run {
    if context.output.is_json() && want.is_none() {
        context.output.json(&outcomes)?;
        return Ok(first_failure(&outcomes));
    }
    let code = context.each(&outcomes.files, |context, file| match (&file.failure, want) {
        (Some(failure), _) if failure.kind == ErrorKind::IsDirectory && failure.hint.is_none() => {
            Err(failure.clone().hint("add -r for the files in it").into())
        }
        (Some(failure), _) => Err(failure.clone().into()),
        // Waiting says it all in a moment.
        (None, Some(_)) => Ok(()),
        (None, None) => context.output.news(line(file)),
    })?;
    let Some(want) = want else { return Ok(code) };
    let accepted = outcomes.files.into_iter().filter(|file| file.failure.is_none()).map(|file| file.path);
    let paths: Vec<FilePath> = accepted.collect();
    let waited = if paths.is_empty() { 0 } else { finish(context, &paths, want, timeout)? };
    Ok(if code == 0 { waited } else { code })
}

fn line(file: &PathOutcome) -> String {
    let state = file.state.map_or("", |state| state.as_str());
    match &file.waits {
        Some(waits) => format!("{}  {state}: {waits}", file.path),
        None => format!("{}  {state}", file.path),
    }
}

fn first_failure(outcomes: &PathOutcomes) -> u8 {
    outcomes.files.iter().find_map(|file| file.failure.as_ref()).map_or(0, |failure| failure.kind.exit_code())
}
