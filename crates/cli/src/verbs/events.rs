//! `bp events`: what happened in the facility lately, and what happens.

use crate::{
    context::{Context, Run},
    output::Tone,
    words::{counted, exact_time},
};
use base::{Timestamp, units::Span};
use client::control::WAIT_MAX;
use std::time::SystemTime;
use wire::control::{EVENTS_KEPT_MAX, Event, EventType, Events, GetEvents};

#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Go on with what happens until it is interrupted
    #[arg(long, short)]
    follow: bool,
    /// Only events of the last so long, e.g. 2h
    #[arg(long, value_name = "TIME")]
    since: Option<Span>,
    /// Only events whose types match, e.g. 'drive.*'; may be given several times
    #[arg(long = "type", value_name = "PATTERN")]
    types: Vec<String>,
    // Stands for the option of all verbs, whose short form means something else here, as it does with `tail` and its like.
    /// The facility: its directory or its http:// endpoint
    #[arg(long, env = client::facility::ENVIRONMENT, hide_env_values = true, value_name = "DIR|URL", help_heading = "Everywhere")]
    facility: Option<String>,
}

fn after_help() -> String {
    let words: Vec<_> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
    let lines: Vec<_> = words.chunks(5).map(|line| format!("  {}", line.join(" "))).collect();
    format!(
        "Types of events:\n{}\n\nThe head keeps the newest {EVENTS_KEPT_MAX} events in memory: they end with it. `bp audit` \
         shows who did what,\ndurably.",
        lines.join("\n")
    )
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let now = Timestamp::from_system(SystemTime::now());
    let since = args.since.map(|Span(span)| Timestamp(now.0.saturating_sub(span.0)));
    let mut call = GetEvents { since, types: args.types, ..GetEvents::default() };
    loop {
        let reply = if args.follow {
            context.control()?.call_waiting(&call, WAIT_MAX)?
        } else {
            context.call(&call)?
        };
        let is_end = reply.events.is_empty();
        show(&reply, &call, context)?;
        if is_end && !args.follow {
            return Ok(0);
        }
        (call.after, call.incarnation) = (reply.next_after, reply.incarnation);
    }
}

fn show(reply: &Events, call: &GetEvents, context: &mut Context) -> Run<()> {
    let output = &mut context.output;
    if call.incarnation != 0 && call.incarnation != reply.incarnation {
        output.aside("[the head has started anew: older events are lost]")?;
    }
    if reply.missed > 0 {
        let missed = counted(reply.missed, "earlier event is", "earlier events are");
        output.aside(&format!("[{missed} not kept any more]"))?;
    }
    for event in &reply.events {
        if output.is_json() {
            output.json(event)?;
        } else {
            let line = format!("{}  {:<18} {}", exact_time(event.at), event.kind.as_str(), event.what);
            output.toned(tone(event), &line)?;
        }
    }
    output.flush()
}

/// What needs a person is red.
fn tone(event: &Event) -> Tone {
    match event.kind {
        EventType::CatalogueDoubted
        | EventType::HostSilent
        | EventType::PartitionTrouble
        | EventType::PartitionGivenUp
        | EventType::PartitionFull
        | EventType::ReplicaDamaged
        | EventType::ReplicaMissing
        | EventType::DriveFailed
        | EventType::VolumeSuspect
        | EventType::RequestFailed
        | EventType::JobFailed => Tone::Bad,
        _ => Tone::Plain,
    }
}
