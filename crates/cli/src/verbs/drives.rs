//! `bp drives`: shows tape drives, and takes them out of use.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{percent, phase},
};
use clap::Subcommand;
use wire::control::{DisableDrive, DriveDevice, DriveInfo, EnableDrive, GetStatus};

/// Show tape drives, and take them out of use
#[derive(Debug, clap::Args)]
#[command(visible_alias = "drive")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show tape drives; `bp drives` does the same
    #[command(visible_alias = "ls")]
    List,
    /// Put drives back into use
    Up {
        /// The drives
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
    },
    /// Take drives out of use: each ends its session, gives its volume back and starts no other session
    Down {
        /// The drives
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
        /// Reason, shown by `bp drives`, `bp status` and `bp why`
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb.unwrap_or(Verb::List) {
        Verb::List => list(context),
        Verb::Up { drives } => context.each(drives, |context, drive| context.done(&EnableDrive { drive })),
        Verb::Down { drives, reason } => context
            .each(drives, |context, drive| context.done(&DisableDrive { drive, reason: reason.clone() })),
    }
}

fn list(context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status.drives)?;
    } else if status.drives.is_empty() {
        context.output.news("no tape library has registered")?;
    } else {
        context.output.table(&table(&status.drives))?;
        let devices = devices(&status.drives);
        if !devices.is_empty() {
            context.output.titled("Devices", &devices)?;
        }
    }
    Ok(0)
}

/// What the drives say they are, as far as they have told.
fn devices(drives: &[DriveInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("drive"),
        Column::Left("library"),
        Column::Left("make and model"),
        Column::Left("serial"),
        Column::Path("address"),
    ]);
    for drive in drives.iter().filter(|drive| drive.device != DriveDevice::default()) {
        let DriveDevice { vendor, model, serial, address } = &drive.device;
        table.row([
            Cell::from(drive.name.as_str()),
            drive.library.as_str().into(),
            format!("{} {}", vendor.trim(), model.trim()).into(),
            serial.trim().into(),
            address.as_str().into(),
        ]);
    }
    table
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
