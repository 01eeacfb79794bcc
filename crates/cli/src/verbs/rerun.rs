//! `bp rerun`: runs jobs again.

use super::job_args::{self, JobArgs};
use crate::context::{Context, Run};
use wire::control::RerunJobs;

/// Run jobs again that allow it (`bp submit --rerunnable`)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    jobs: JobArgs,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    job_args::make(context, &RerunJobs { jobs: args.jobs.jobs }, "run again")
}
