//! `bp log`: shows or follows the output of a job.

use crate::context::{Context, Run};
use base::{Failure, JobId, units::human_bytes};
use client::control::WAIT_MAX;
use std::time::{Duration, Instant};
use wire::control::{FollowJob, FollowedJob, JobLog, JobState, OutputPiece};

/// How long the worker of a job that runs may take to say what it has printed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Show what a job printed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "bp prints the job's standard output and standard error to its own. Of a long output only the \
        beginning\nand the end are kept ([batch] log in the worker's facility.toml); of a running job, the \
        newest 1 MiB of each."
)]
pub(crate) struct Args {
    /// The job
    id: JobId,
    /// Continue to print the output until the job ends
    #[arg(long, short)]
    follow: bool,
    // Stands for the option of all verbs, whose short form means something else here, as it does with `tail` and its like.
    /// The facility: its directory or its http:// endpoint
    #[arg(long, env = client::facility::ENVIRONMENT, hide_env_values = true, value_name = "DIR|URL", help_heading = "Everywhere")]
    facility: Option<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    show(args.id, args.follow, context)
}

/// Prints what a job prints until it ends.
pub(crate) fn follow(context: &mut Context, job: JobId) -> Run {
    show(job, true, context)
}

fn show(job: JobId, follows: bool, context: &mut Context) -> Run {
    let (mut seen, mut was_told) = (PrintedOutput::default(), false);
    let begun = Instant::now();
    let mut told_state = None;
    loop {
        let PrintedOutput { attempt, after } = seen;
        let call = FollowJob { job, attempt, after, more: follows };
        let reply = context.control()?.call_waiting(&call, WAIT_MAX)?;
        if !goes_on(reply.state) && !was_told {
            return whole(job, context);
        }
        was_told |= reply.pieces.iter().any(|pieces| !pieces.is_empty());
        seen.show(&reply, context)?;
        if reply.is_all {
            return Ok(0);
        }
        if told_state != Some(reply.state) && reply.state != JobState::Running {
            let hint = format!("job {job} is {}; `bp why {job}` says why", reply.state.as_str());
            context.output.aside(&hint)?;
            if !follows {
                // It has printed nothing.
                return Ok(0);
            }
        }
        told_state = Some(reply.state);
        if !follows && begun.elapsed() > PATIENCE {
            let what = format!("the worker of job {job} does not answer, so its output cannot be shown");
            return Err(Failure::timeout(what).hint("`bp status` shows when it last reported").into());
        }
    }
}

fn goes_on(state: JobState) -> bool {
    matches!(state, JobState::Held | JobState::Queued | JobState::Running)
}

/// What is kept of a job that is over.
fn whole(job: JobId, context: &mut Context) -> Run {
    let text = context.call(&JobLog { job })?;
    if context.output.is_json() {
        context.output.json(&text)?;
    } else {
        context.output.foreign(&text.stdout)?;
        context.output.foreign_error(&text.stderr)?;
    }
    Ok(0)
}

/// What was shown of a run.
#[derive(Debug, Default)]
struct PrintedOutput {
    attempt: u32,
    after: [u64; 2],
}

impl PrintedOutput {
    fn show(&mut self, reply: &FollowedJob, context: &mut Context) -> Run<()> {
        if self.attempt != reply.attempt {
            *self = Self { attempt: reply.attempt, after: [0; 2] };
        }
        if context.output.is_json() && reply.pieces.iter().any(|pieces| !pieces.is_empty()) {
            context.output.json(reply)?;
        }
        for (index, piece) in reply
            .pieces
            .iter()
            .enumerate()
            .flat_map(|(index, pieces)| pieces.iter().map(move |piece| (index, piece)))
        {
            if !context.output.is_json() {
                self.show_piece(index, piece, context)?;
            }
            self.after[index] = piece.end;
        }
        context.output.flush()
    }

    fn show_piece(&self, index: usize, piece: &OutputPiece, context: &mut Context) -> Run<()> {
        let left_out = piece.start.saturating_sub(self.after[index]);
        if left_out > 0 {
            let stream = ["standard output", "standard error"][index];
            context.output.aside(&format!("[{} of {stream} omitted]", human_bytes(left_out)))?;
        }
        match index {
            0 => context.output.foreign(&piece.text),
            _ => context.output.foreign_error(&piece.text),
        }
    }
}
