//! `bp lease`: which hosts have mounted the facility, which files they use, and who waits for whom.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{span, time},
};
use clap::Subcommand;
use wire::control::{EvictMount, GetMounts, MountInfo, Mounts, SharedFileInfo};

/// Show mounts with their grants, locks and waits, or evict one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A grant lets a mount write to a file, or cache what it has read. A mount that does not renew its lease \
        is silent; it keeps what it has until another one needs it, and is evicted then. Users see their own mounts and \
        files, operators see all."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List mounts, the files that they use, and who waits for them
    List,
    /// Take everything from a mount: what it has not synced is lost
    Evict {
        /// Number of the mount
        mount: u64,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what.unwrap_or(What::List) {
        What::List => list(context),
        What::Evict { mount } => {
            let reply = context.call(&EvictMount { client: mount.into() })?;
            if context.output.is_json() {
                context.output.json(&reply)?;
            } else {
                context.output.news(format!("mount {mount} is evicted"))?;
            }
            Ok(0)
        }
    }
}

fn list(context: &mut Context) -> Run {
    let all = context.call(&GetMounts {})?;
    if context.output.is_json() {
        context.output.json(&all)?;
        return Ok(0);
    }
    if all.mounts.is_empty() {
        context.output.news("nobody has mounted the facility")?;
    } else {
        context.output.table(&mounts(&all.mounts))?;
    }
    if !all.files.is_empty() {
        context.output.table(&files(&all.files))?;
    }
    if all.files.iter().any(|file| !file.waits.is_empty()) {
        context.output.table(&waits(&all))?;
    }
    Ok(0)
}

fn mounts(mounts: &[MountInfo]) -> Table {
    let mut table = Table::new([
        Column::Right("mount"),
        Column::Left("user"),
        Column::Left("state"),
        Column::Left("since"),
        Column::Path("path"),
        Column::Text("where"),
    ]);
    for mount in mounts {
        let state = if mount.is_live { Cell::from("live") } else { Cell::toned("silent", Tone::Bad) };
        table.row([
            mount.client.to_string().into(),
            mount.user.as_str().into(),
            state,
            time(mount.since).into(),
            mount.path.to_string().into(),
            mount.host.as_str().into(),
        ]);
    }
    table
}

fn files(files: &[SharedFileInfo]) -> Table {
    let columns = ["grants", "locks", "opened by"].map(Column::Text);
    let [grants, locks, opens] = columns;
    let mut table = Table::new([Column::Path("file"), grants, locks, opens]);
    for file in files {
        let grants: Vec<_> = file.grants.iter().map(ToString::to_string).collect();
        let locks: Vec<_> = file.locks.iter().map(ToString::to_string).collect();
        let opens: Vec<_> = file.opens.iter().map(ToString::to_string).collect();
        let texts = [grants, locks, opens].map(|texts| Cell::from(texts.join(", ")));
        let [grants, locks, opens] = texts;
        table.row([Cell::from(file.path.to_string()), grants, locks, opens]);
    }
    table
}

fn waits(all: &Mounts) -> Table {
    let mut table = Table::new([
        Column::Right("mount"),
        Column::Left("waited"),
        Column::Text("wants"),
        Column::Path("of file"),
        Column::Text("because"),
    ]);
    for (file, wait) in all.files.iter().flat_map(|file| file.waits.iter().map(move |wait| (file, wait))) {
        let who = if wait.client.0 == 0 { "door".to_owned() } else { wait.client.to_string() };
        table.row([
            Cell::from(who),
            span(all.now - wait.since).into(),
            wait.what.as_str().into(),
            file.path.to_string().into(),
            wait.why.as_str().into(),
        ]);
    }
    table
}
