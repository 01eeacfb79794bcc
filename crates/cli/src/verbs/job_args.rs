//! Verbs on jobs that exist: what they have in common.

use crate::context::{Context, Run};
use wire::control::{Call, JobOutcome, JobOutcomes, JobSelection};

/// Jobs as arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Jobs (12), whole arrays (12), elements of arrays (12_3, 12_[1-5])
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<JobSelection>,
}

/// Makes a call for jobs, and shows what was refused.
pub(crate) fn make(context: &mut Context, call: &impl Call<Reply = JobOutcomes>, done: &str) -> Run {
    let reply = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&reply)?;
    }
    show(context, reply, done)
}

/// Shows what came of a call for jobs; the exit code is that of the first failure.
pub(crate) fn show(context: &mut Context, reply: JobOutcomes, done: &str) -> Run {
    context.each(reply.outcomes, |context, outcome| {
        let JobOutcome { jobs, changed, failure } = outcome;
        if changed > 1 && !context.output.is_json() {
            context.output.news(format!("{changed} elements of {jobs} {done}"))?;
        }
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    })
}
