//! `bp repack`: copies the files of tape volumes to others, and shows how far that is.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::span,
};
use base::{Timestamp, Vid, units::human_bytes};
use wire::control::{GetRepacks, GetStatus, RepackInfo, RepackVolume, StopRepack};

/// Copy the files of volumes to others, or show how far that is
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The volumes
    #[arg(value_name = "VOLUME")]
    vids: Vec<Vid>,
    /// Write the volumes from their beginning when they are empty
    #[arg(long, requires = "vids", conflicts_with = "stop")]
    reclaim: bool,
    /// Stop; what was copied stays where it is
    #[arg(long, requires = "vids")]
    stop: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let Args { vids, reclaim: reclaims, stop } = args;
    if vids.is_empty() {
        return list(context);
    }
    context.each(vids, |context, vid| {
        if stop { context.done(&StopRepack { vid }) } else { context.done(&RepackVolume { vid, reclaims }) }
    })
}

fn list(context: &mut Context) -> Run {
    let repacks = context.call(&GetRepacks {})?.repacks;
    if context.output.is_json() {
        context.output.json(&repacks)?;
    } else if repacks.is_empty() {
        context.output.news("no volume is being repacked")?;
    } else {
        let now = context.call(&GetStatus {})?.now;
        context.output.table(&table(&repacks, now))?;
        for repack in &repacks {
            for failure in &repack.failures {
                let line = format!("{}: {}: {}", repack.vid, failure.path, failure.reason);
                context.output.toned(Tone::Bad, &line)?;
            }
        }
    }
    Ok(0)
}

/// Repacks as a table.
fn table(repacks: &[RepackInfo], now: Timestamp) -> Table {
    let mut table = Table::new([
        Column::Left("volume"),
        Column::Left("state"),
        Column::Right("since"),
        Column::Right("moved"),
        Column::Right("bytes"),
        Column::Right("left"),
        Column::Right("bytes"),
        Column::Right("failed"),
        Column::Left("ordered by"),
    ]);
    for repack in repacks {
        if repack.files_failed > 0 {
            table.next_step(
                "`bp queue` shows requests that failed, `bp admin request retry ID` tries them again",
            );
        }
        let (state, tone) = state(repack);
        table.row([
            Cell::from(repack.vid.as_str()),
            Cell::toned(state, tone),
            span(now - repack.started).into(),
            repack.files_moved.to_string().into(),
            human_bytes(repack.bytes_moved).into(),
            repack.files_left.to_string().into(),
            human_bytes(repack.bytes_left).into(),
            repack.files_failed.to_string().into(),
            repack.owner.as_str().into(),
        ]);
    }
    table
}

fn state(repack: &RepackInfo) -> (&'static str, Tone) {
    if repack.finished.is_some() {
        return ("empty", Tone::Good);
    }
    match (repack.files_under_way, repack.files_left) {
        (0, left) if left > 0 && left == repack.files_failed => ("stuck", Tone::Bad),
        (0, _) => ("waits for a drive", Tone::Wait),
        _ => ("moving", Tone::Wait),
    }
}
