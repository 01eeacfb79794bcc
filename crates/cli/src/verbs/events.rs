//! `bp events`: shows and follows events of the facility.

use crate::{
    context::{Context, Run},
    output::Tone,
    words::{counted, exact_time},
};
use base::{ErrorKind, Timestamp, units::Span};
use client::control::WAIT_MAX;
use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};
use wire::control::{EVENTS_KEPT_MAX, EventType, Events, GetEvents};

/// How long a head that is gone is tried: longer than any restart, and not for ever.
const AWAY_MAX: Duration = Duration::from_secs(3600);
/// First and longest pause between two tries.
const AWAY_PAUSE_MIN: Duration = Duration::from_millis(250);
const AWAY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Show recent events of the facility, or follow new ones
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Continue to print new events until interrupted, also after a restart of the head
    #[arg(long, short)]
    follow: bool,
    /// Only events within this time, e.g. 2h
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
        "Types of events:\n{}\n\nThe head keeps the newest {EVENTS_KEPT_MAX} events in memory; they are lost \
            when it stops. `bp audit` shows the durable\nrecord of who did what.",
        lines.join("\n")
    )
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let now = Timestamp::from_system(SystemTime::now());
    let since = args.since.map(|Span(span)| Timestamp(now.0.saturating_sub(span.0)));
    let mut call = GetEvents { since, types: args.types, ..GetEvents::default() };
    loop {
        let reply = if args.follow { follow(&call, context)? } else { context.call(&call)? };
        let is_end = reply.events.is_empty();
        show(&reply, &call, context)?;
        if is_end && !args.follow {
            return Ok(0);
        }
        (call.after, call.incarnation) = (reply.next_after, reply.incarnation);
    }
}

/// Waits for what comes next. Who has been answered before goes on when the head is back.
fn follow(call: &GetEvents, context: &mut Context) -> Run<Events> {
    let (begun, mut pause) = (Instant::now(), AWAY_PAUSE_MIN);
    loop {
        let asked = context.control().and_then(|control| control.call_waiting(call, WAIT_MAX));
        let failure = match asked {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        let is_away = matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Io);
        if !is_away || call.incarnation == 0 || begun.elapsed() > AWAY_MAX {
            return Err(failure.into());
        }
        if pause == AWAY_PAUSE_MIN {
            context.output.aside(&format!("[{}; trying again for an hour]", failure.what))?;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(AWAY_PAUSE_MAX);
        // It may come back with other ports.
        context.forget_facility();
    }
}

fn show(reply: &Events, call: &GetEvents, context: &mut Context) -> Run<()> {
    let output = &mut context.output;
    if call.incarnation != 0 && call.incarnation != reply.incarnation {
        output.aside("[the head was restarted; older events are lost]")?;
    }
    if reply.missed > 0 {
        let missed = counted(reply.missed, "earlier event is", "earlier events are");
        output.aside(&format!("[{missed} no longer kept]"))?;
    }
    for event in &reply.events {
        if output.is_json() {
            output.json(event)?;
        } else {
            let line = format!("{}  {:<18} {}", exact_time(event.at), event.kind.as_str(), event.what);
            let tone = if event.kind.is_trouble() { Tone::Bad } else { Tone::Plain };
            output.toned(tone, &line)?;
        }
    }
    output.flush()
}
