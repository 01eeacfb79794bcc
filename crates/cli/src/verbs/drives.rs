//! `bp drives`: shows tape drives, and takes them out of use.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{percent, phase},
};
use clap::Subcommand;
use wire::control::{
    DisableDrive, DriveDevice, DriveInfo, EnableDrive, GetDriveQuotas, GetStatus, RemoveDrive, RequestKind,
    SetDriveQuota,
};

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
    /// Forget drives that no tape server has in its configuration any more
    Remove {
        /// The drives
        #[arg(required = true, value_name = "DRIVE")]
        drives: Vec<String>,
    },
    /// Show or set how many drives read or write files of a group at the same time
    Quota {
        #[command(subcommand)]
        what: Option<Quota>,
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

#[derive(Debug, Subcommand)]
enum Quota {
    /// Show quotas; `bp drive quota` does the same
    #[command(visible_alias = "ls")]
    List,
    /// Set the quota of a group
    #[command(group = clap::ArgGroup::new("direction").required(true).multiple(true))]
    Set {
        /// The group of the files
        group: String,
        /// Drives that write its files; 0: none
        #[arg(long, group = "direction", value_name = "N")]
        archive: Option<u32>,
        /// Drives that read its files; 0: none
        #[arg(long, group = "direction", value_name = "N")]
        recall: Option<u32>,
    },
    /// Let a group have as many drives as there are
    Unset {
        /// The group
        group: String,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb.unwrap_or(Verb::List) {
        Verb::List => list(context),
        Verb::Remove { drives } => {
            context.each(drives, |context, drive| context.done(&RemoveDrive { drive }))
        }
        Verb::Quota { what } => quota(what.unwrap_or(Quota::List), context),
        Verb::Up { drives } => context.each(drives, |context, drive| context.done(&EnableDrive { drive })),
        Verb::Down { drives, reason } => context
            .each(drives, |context, drive| context.done(&DisableDrive { drive, reason: reason.clone() })),
    }
}

fn quota(what: Quota, context: &mut Context) -> Run {
    match what {
        Quota::List => return list_quotas(context),
        Quota::Set { group, archive, recall } => {
            for (kind, drives) in [(RequestKind::Archive, archive), (RequestKind::Recall, recall)] {
                if drives.is_some() {
                    context.done(&SetDriveQuota { group: group.clone(), kind, drives })?;
                }
            }
        }
        Quota::Unset { group } => {
            let quotas = context.call(&GetDriveQuotas {})?.quotas;
            let mut kinds: Vec<_> =
                quotas.iter().filter(|quota| quota.group == group).map(|quota| quota.kind).collect();
            if kinds.is_empty() {
                // The head says what is wrong.
                kinds.push(RequestKind::Recall);
            }
            for kind in kinds {
                context.done(&SetDriveQuota { group: group.clone(), kind, drives: None })?;
            }
        }
    }
    Ok(0)
}

fn list_quotas(context: &mut Context) -> Run {
    let quotas = context.call(&GetDriveQuotas {})?.quotas;
    if context.output.is_json() {
        context.output.json(&quotas)?;
        return Ok(0);
    }
    if quotas.is_empty() {
        context.output.news("no group has a quota of drives")?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("group"),
        Column::Left("direction"),
        Column::Right("used"),
        Column::Right("drives"),
    ]);
    for quota in &quotas {
        table.row([
            Cell::from(quota.group.as_str()),
            quota.kind.as_str().into(),
            quota.used.to_string().into(),
            quota.drives.to_string().into(),
        ]);
    }
    context.output.table(&table)?;
    Ok(0)
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
