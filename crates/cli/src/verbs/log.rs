//! `bp log`: shows what a job printed.

use crate::context::{Context, Run};
use base::JobId;
use wire::control::JobLog;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What the job printed on standard error is printed on standard error; of long\noutputs beginning and end are kept ([batch] log of the worker)."
)]
pub(crate) struct Args {
    /// The job
    id: JobId,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let text = context.call(&JobLog { job: args.id })?;
    if context.output.is_json() {
        context.output.json(&text)?;
    } else {
        context.output.foreign(&text.stdout)?;
        context.output.foreign_error(&text.stderr)?;
    }
    Ok(0)
}
