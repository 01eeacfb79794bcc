//! `bp admin recover`: adds the files found on disks to a restored catalogue.

use crate::{
    context::{Context, Run},
    progress,
    verbs::settle,
    words::counted,
};
use base::{Failure, units::Span};
use std::{
    thread,
    time::{Duration, Instant},
};
use wire::control::{GetStatus, RecoverCatalogue, RestoredInfo};

/// How often it is looked who has spoken.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to wait for disk servers that have not listed their objects; their files are also added later
    #[arg(long, default_value = "10m", value_name = "SPAN")]
    timeout: Span,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.call(&RecoverCatalogue {})?;
    let deadline = Instant::now() + Duration::from_millis(args.timeout.0.0.unsigned_abs());
    let spinner = progress::spinner(&context.output);
    let restored = loop {
        let Some(restored) = context.call(&GetStatus {})?.restored else {
            return Err(Failure::busy("the catalogue was accepted meanwhile by another operator").into());
        };
        let absent = restored.absent().len();
        if absent == 0 || Instant::now() >= deadline {
            break restored;
        }
        let of = counted(restored.partitions.len() as u64, "partition", "partitions");
        let taken = counted(restored.recovered(), "object", "objects");
        spinner.set_message(format!("{taken} added; {absent} of {of} have not listed all objects"));
        thread::sleep(INTERVAL);
    };
    spinner.finish_and_clear();
    finish(context, &restored)
}

fn finish(context: &mut Context, restored: &RestoredInfo) -> Run {
    if context.output.is_json() {
        context.output.json(restored)?;
    } else {
        settle::show(&mut context.output, restored)?;
    }
    let absent = restored.absent();
    if absent.is_empty() {
        return Ok(0);
    }
    Err(Failure::timeout(format!("these have not listed all objects: {}", absent.join(", ")))
        .hint("their objects are added when they report; `bp admin settle` shows the progress")
        .into())
}
