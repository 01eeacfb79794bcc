//! `bp move`: moves jobs to another queue.

use super::job_args;
use crate::context::{Context, Run};
use base::Failure;
use wire::control::{JobSelection, MoveJobs};

/// Move jobs that have not started to another queue
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs (12), whole arrays (12), elements of arrays (12_3, 12_[1-5]), and then the queue
    #[arg(required = true, num_args = 2.., value_name = "JOB… QUEUE")]
    words: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut words = args.words;
    let queue = words.pop().unwrap_or_default();
    let jobs: Result<Vec<JobSelection>, Failure> = words.iter().map(|word| word.parse()).collect();
    let news = format!("are in queue {queue}");
    job_args::make(context, &MoveJobs { jobs: jobs?, queue }, &news)
}
