//! `bp admin settle`: shows and accepts a catalogue that was restored to an older state.

use crate::{
    context::{Context, Run},
    output::{Output, Tone},
    table::{Column, Table},
    words::{counted, exact_time},
};
use base::units::human_bytes;
use wire::control::{GetStatus, RestoredInfo, SettleCatalogue};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Accept the catalogue if exactly this many objects are unknown, as `bp admin settle` showed. Unknown objects are kept
    #[arg(long, value_name = "N")]
    unknown: Option<u64>,
    /// Do not wait for disk servers that have not listed their objects, nor for surveys of volumes
    #[arg(long, requires = "unknown")]
    without_absent: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if let Some(unknown) = args.unknown {
        let done = context.call(&SettleCatalogue { unknown, without_absent: args.without_absent })?;
        if context.output.is_json() {
            context.output.json(&done)?;
        } else {
            context
                .output
                .news("the restored catalogue is accepted; disk servers delete unneeded objects again")?;
        }
        return Ok(0);
    }
    let restored = context.call(&GetStatus {})?.restored;
    if context.output.is_json() {
        context.output.json(&restored)?;
        return Ok(0);
    }
    let Some(restored) = restored else {
        context.output.news("there is nothing to settle: the catalogue was not restored")?;
        return Ok(0);
    };
    show(&mut context.output, &restored)?;
    Ok(0)
}

pub(super) fn show(output: &mut Output, restored: &RestoredInfo) -> Run<()> {
    warn(output, restored)?;
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Right("object"),
        Column::Right("size"),
        Column::Text("path"),
    ]);
    let mut shown = 0;
    for partition in &restored.partitions {
        for found in &partition.shown {
            let path = found.described.as_ref().map(|described| described.label.path.to_string());
            let path = path.unwrap_or_else(|| "description unreadable".to_owned());
            table.row([
                partition.partition.as_str().into(),
                found.object.to_string().into(),
                human_bytes(found.size).into(),
                path.into(),
            ]);
            shown += 1;
        }
    }
    if !table.is_empty() {
        output.titled("Not in the catalogue", &table)?;
    }
    let unknown = restored.unknown();
    if unknown > shown {
        output.toned(Tone::Faint, &format!("and {} more", unknown - shown))?;
    }
    if unknown > 0 && !restored.is_recovering {
        output.line("to add them to the catalogue: bp admin recover")?;
    }
    output.line(format!("to accept the catalogue without them: bp admin settle --unknown {unknown}"))
}

/// What is the matter, in a few lines.
pub(crate) fn warn(output: &mut Output, restored: &RestoredInfo) -> Run<()> {
    let of = restored.taken.map_or(String::new(), |taken| format!(", of {}", exact_time(taken)));
    let what = format!("The catalogue was restored to an older state: {}{of}.", restored.reason);
    output.toned(Tone::Bad, &what)?;
    let unknown = counted(restored.unknown(), "object", "objects");
    let bytes: u64 = restored.partitions.iter().map(|partition| partition.bytes).sum();
    output.line(format!(
        "Nothing is deleted on disks until `bp admin settle`. Objects missing from it: {unknown}, {}.",
        human_bytes(bytes)
    ))?;
    if restored.is_recovering {
        output.line(format!("Added: {}.", counted(restored.recovered(), "object", "objects")))?;
    }
    if restored.volumes > 0 {
        let volumes = counted(restored.volumes, "volume", "volumes");
        output.line(format!(
            "Volumes that may hold files missing from it: {volumes}; run `bp admin volume survey \
                --all`."
        ))?;
    }
    let absent = restored.absent();
    if absent.is_empty() {
        return Ok(());
    }
    output.line(format!("Disk servers that have not reported yet: {}.", absent.join(", ")))
}
