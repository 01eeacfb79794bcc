//! `bp hold`: keeps jobs from starting.

use super::job_args::{self, JobArgs};
use crate::context::{Context, Run};
use wire::control::HoldJobs;

/// Keep jobs from starting until `bp release`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    jobs: JobArgs,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    job_args::make(context, &HoldJobs { jobs: args.jobs.jobs, hold: None }, "are held")
}
