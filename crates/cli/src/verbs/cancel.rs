//! `bp cancel`: ends jobs.

use crate::context::{Context, Run};
use base::JobId;
use wire::control::CancelJob;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Jobs, whatever their state
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.each(args.ids, |context, job| {
        let reply = context.call(&CancelJob { job })?;
        if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
    })
}
