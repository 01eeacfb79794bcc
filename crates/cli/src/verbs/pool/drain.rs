//! `bp pool drain` and `bp host drain`: empty partitions, and show what is left to move.

use crate::{
    context::{Context, Run},
    words::counted,
};
use base::{
    Failure, Millis,
    units::{Span, human_bytes},
};
use std::{
    thread,
    time::{Duration, Instant},
};
use wire::control::{Done, Drain, GetPools, PartitionInfo, PartitionState, SetPartition};

/// How often somebody who waits looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often somebody who waits is told what is left.
const TELL_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Drain even if the only copies of some files cannot be moved; these stay
    #[arg(long, conflicts_with = "undo")]
    force: bool,
    /// Stop draining and use the partitions again
    #[arg(long)]
    undo: bool,
    /// Wait until it is empty, at most this long, e.g. 2h; 1d if no time is given
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1d", conflicts_with = "undo")]
    wait: Option<Span>,
}

pub(super) fn partitions(names: Vec<String>, options: Options, context: &mut Context) -> Run {
    if options.undo {
        return undo(&names, context);
    }
    drain(Drain { partitions: names, host: None, force: options.force }, &options, context)
}

/// The same for all partitions of a host.
pub(crate) fn host(name: String, options: Options, context: &mut Context) -> Run {
    if !options.undo {
        return drain(
            Drain { host: Some(name), force: options.force, ..Drain::default() },
            &options,
            context,
        );
    }
    let own = |one: &PartitionInfo| one.server == name && one.state == PartitionState::Draining;
    let names: Vec<_> = shown(context)?.into_iter().filter(own).map(|one| one.name).collect();
    if names.is_empty() {
        let failure = Failure::not_found(format!("no partition of host {name} is draining"));
        return Err(failure.hint("`bp pool list` shows partitions and their hosts").into());
    }
    undo(&names, context)
}

fn drain(call: Drain, options: &Options, context: &mut Context) -> Run {
    let drained = context.call(&call)?;
    let names: Vec<_> = drained.partitions.iter().map(|one| one.name.clone()).collect();
    if context.output.is_json() {
        context.output.json(&drained)?;
    } else {
        for one in &drained.partitions {
            let what = match one.replicas {
                0 => "it is empty".to_owned(),
                len => format!("{} to move; `bp pool list` shows the rest", amount(len, one.bytes)),
            };
            context.output.news(format!("partition {} drains: {what}", one.name))?;
        }
    }
    match options.wait {
        Some(span) => wait(&names, span.0, context),
        None => Ok(0),
    }
}

fn amount(replicas: u64, bytes: u64) -> String {
    format!("{} ({})", counted(replicas, "replica", "replicas"), human_bytes(bytes))
}

fn undo(names: &[String], context: &mut Context) -> Run {
    for name in names {
        context.call(&SetPartition { partition: name.clone(), state: PartitionState::InUse })?;
        if !context.output.is_json() {
            context.output.news(format!("partition {name} is in use"))?;
        }
    }
    if context.output.is_json() {
        context.output.json(&Done {})?;
    }
    Ok(0)
}

fn shown(context: &mut Context) -> Run<Vec<PartitionInfo>> {
    Ok(context.call(&GetPools {})?.pools.into_iter().flat_map(|pool| pool.partitions).collect())
}

/// Waits until partitions are empty.
fn wait(names: &[String], patience: Millis, context: &mut Context) -> Run {
    let patience = Duration::from_millis(patience.0.max(0).unsigned_abs());
    let (began, mut told) = (Instant::now(), Instant::now());
    loop {
        let all = shown(context)?;
        let left: Vec<_> = all.iter().filter(|one| names.contains(&one.name) && one.replicas > 0).collect();
        let Some(first) = left.first() else { break };
        let replicas = left.iter().map(|one| one.replicas).sum();
        let bytes = left.iter().map(|one| one.replica_bytes).sum();
        let stuck = left.iter().find_map(|one| one.stuck.as_ref());
        let why = stuck.map_or_else(String::new, |stuck| format!("; {stuck}"));
        let text = format!("{} left on {}{why}", amount(replicas, bytes), first.name);
        if began.elapsed() >= patience {
            let failure = Failure::timeout(format!("not all files were moved in time: {text}"));
            return Err(failure.hint("moving continues; `bp pool list` shows the rest").into());
        }
        if told.elapsed() >= TELL_EVERY && !context.output.is_json() {
            context.output.news(text)?;
            told = Instant::now();
        }
        thread::sleep(LOOK_EVERY);
    }
    if !context.output.is_json() {
        context.output.news(format!("{} is empty", names.join(", ")))?;
    }
    Ok(0)
}
