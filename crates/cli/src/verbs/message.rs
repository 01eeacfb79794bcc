//! `bp message`: writes a line to the output of running jobs.

use super::job_args;
use crate::context::{Context, Run};
use wire::control::{JobSelection, MessageJobs};

/// Write a line to the output of a running job
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// To standard output instead of standard error
    #[arg(long)]
    stdout: bool,
    /// A job (12), a whole array (12), elements of an array (12_3, 12_[1-5])
    #[arg(value_name = "JOB")]
    job: JobSelection,
    /// The text
    text: String,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let call = MessageJobs { jobs: vec![args.job], text: args.text, to_stdout: args.stdout };
    job_args::make(context, &call, "get the message")
}
