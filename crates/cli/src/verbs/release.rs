//! `bp release`: lets go of pins, and of jobs that are held.

use super::{
    job_args,
    wait::{self, Timeout},
};
use crate::{
    context::{Context, Run},
    glob::{self, Depth},
    path_arg::{self, PathArg},
};
use base::{Failure, units::Span};
use wire::control::{JobSelection, Release, ReleaseJobs};

/// Release pins that keep files on disk, and jobs that are held
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
    /// Files; *, ? and [a-z] in the last component are wildcards. Or jobs (12), whole arrays (12), elements of arrays (12_3)
    #[arg(required = true, value_name = "PATH|JOB")]
    things: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let (jobs, paths): (Vec<_>, Vec<_>) =
        args.things.iter().partition(|thing| thing.starts_with(|c: char| c.is_ascii_digit()));
    let jobs: Result<Vec<JobSelection>, Failure> = jobs.into_iter().map(|job| job.parse()).collect();
    let jobs = jobs?;
    if !jobs.is_empty() {
        let code = job_args::make(context, &ReleaseJobs { jobs, hold: None }, "are released")?;
        if paths.is_empty() || code != 0 {
            return Ok(code);
        }
    }
    let paths: Result<Vec<PathArg>, _> = paths.into_iter().map(|path| path.parse()).collect();
    let paths = path_arg::paths(context, paths?)?;
    let paths = glob::files(context, &paths, Depth::of(args.recursive))?;
    let (after, user) = (args.after.map(|span| span.0), args.of);
    let call = |paths| Release { paths, after, user: user.clone() };
    let outcomes = wait::in_parts(context, &paths, call)?;
    wait::asked(context, outcomes, None, &Timeout::default())
}
