//! `bp stage`: asks for disk replicas.

use super::wait::{self, Timeout};
use crate::{
    context::{Context, Run},
    glob::{self, Depth},
    path_arg::{self, PathArg},
};
use base::units::Span;
use wire::control::{ExplainStage, Stage, Want};

/// Request disk replicas of files that are on tape
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Return when the files are on disk
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: Timeout,
    /// Show where the files are and what they would wait for; request nothing
    #[arg(long, conflicts_with_all = ["wait", "pin"])]
    explain: bool,
    /// Keep the files on disk at least this long, e.g. 12h or 1d
    #[arg(long, value_name = "TIME")]
    pin: Option<Span>,
    /// Also directories, with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::files(context, &paths, Depth::of(args.recursive))?;
    let pin = args.pin.map(|span| span.0);
    if args.explain {
        let outcomes = wait::in_parts(context, &paths, |paths| ExplainStage { paths })?;
        return wait::asked(context, outcomes, None, &args.timeout);
    }
    let outcomes = wait::in_parts(context, &paths, |paths| Stage { paths, pin })?;
    wait::asked(context, outcomes, args.wait.then_some(Want::Online), &args.timeout)
}
