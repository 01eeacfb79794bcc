//! `bp drives`: shows tape drives.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{percent, phase},
};
use wire::control::{DriveInfo, GetStatus};

/// Show tape drives
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status.drives)?;
    } else if status.drives.is_empty() {
        context.output.news("no tape library has registered")?;
    } else {
        context.output.table(&table(&status.drives))?;
    }
    Ok(0)
}

/// Drives as a table.
pub(crate) fn table(drives: &[DriveInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("drive"),
        Column::Left("library"),
        Column::Left("host"),
        Column::Left("volume"),
        Column::Left("state"),
        Column::Right("done"),
        Column::Right("left"),
        Column::Path("file"),
        Column::Text("problem"),
    ]);
    for drive in drives {
        if drive.trouble.is_some() {
            table.next_step("`bp doctor` says what to do about a problem");
        }
        let done = drive.path.as_ref().map(|_| percent(drive.bytes_done, drive.bytes_total));
        table.row([
            Cell::from(drive.name.as_str()),
            drive.library.as_str().into(),
            drive.host.as_str().into(),
            drive.vid.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            phase(drive.phase),
            done.unwrap_or_default().into(),
            drive.files_left.to_string().into(),
            drive.path.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            Cell::toned(drive.trouble.clone().unwrap_or_default(), Tone::Bad),
        ]);
    }
    table
}
