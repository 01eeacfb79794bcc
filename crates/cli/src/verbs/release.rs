//! `bp release`: lets go of pins.

use super::wait::{self, Timeout};
use crate::{
    context::{Context, Run},
    glob::{self, Depth},
    path_arg::{self, PathArg},
};
use base::units::Span;
use wire::control::Release;

/// Release pins that keep files on disk
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also directories, with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Release the pins after this time, e.g. 1h, instead of now
    #[arg(long, value_name = "TIME")]
    after: Option<Span>,
    /// Release the pins of this user instead of your own; for operators
    #[arg(long, value_name = "USER")]
    of: Option<String>,
    /// Files; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::files(context, &paths, Depth::of(args.recursive))?;
    let (after, user) = (args.after.map(|span| span.0), args.of);
    let call = |paths| Release { paths, after, user: user.clone() };
    let outcomes = wait::in_parts(context, &paths, call)?;
    wait::asked(context, outcomes, None, &Timeout::default())
}
