//! `bp volumes`: shows tape volumes, adds some, and says what may be done with them.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{percent, volume_state},
};
use base::{Vid, units::human_bytes};
use clap::{Subcommand, ValueEnum};
use wire::control::{
    AddVolumes, GetDamagedCopies, GetStatus, ReclaimVolume, SetVolumePool, SetVolumeState, VerifyVolume,
    VolumeInfo, VolumeState,
};

/// Show or add tape volumes, and say what may be done with them
#[derive(Debug, clap::Args)]
#[command(visible_alias = "volume")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show tape volumes; `bp volumes` does the same
    #[command(visible_alias = "list")]
    Ls,
    /// Add new volumes without a label; a virtual library also creates the cartridges
    Add {
        /// Labels, 1 to 6 of A-Z 0-9 each
        #[arg(required = true, value_name = "LABEL")]
        vids: Vec<Vid>,
        /// The tape library, if there are several
        #[arg(long, value_name = "NAME")]
        library: Option<String>,
    },
    /// Have all files of volumes read and compared with the catalogue
    Verify {
        /// The volumes
        #[arg(required = true, value_name = "VOLUME")]
        vids: Vec<Vid>,
    },
    /// Show files whose copy on tape is damaged
    Damaged,
    /// Have volumes without files written from their beginning
    Reclaim {
        /// The volumes
        #[arg(required = true, value_name = "VOLUME")]
        vids: Vec<Vid>,
    },
    /// Put volumes into a tape pool, which storage classes name; what is on them stays there
    Pool {
        /// The tape pool; `none`: they leave the one that they are in
        pool: String,
        /// The volumes
        #[arg(required = true, value_name = "VOLUME")]
        vids: Vec<Vid>,
    },
    /// Set the state of volumes
    Set {
        /// The new state
        state: State,
        /// The volumes
        #[arg(required = true, value_name = "VOLUME")]
        vids: Vec<Vid>,
        /// Reason, shown by `bp volumes` and `bp why`
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
    },
}

/// A state that an operator can set.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum State {
    /// Volume has no label yet
    Blank,
    /// Volume is read and appended to
    Appendable,
    /// Volume is read and not written, whatever room it has
    ReadOnly,
    /// Volume is read
    Full,
    /// Volume is not used until somebody has looked at it
    Suspect,
    /// Volume cannot be read any more: what is only on it is lost
    Broken,
    /// Volume is not used for a while
    Disabled,
    /// Volume has left the house; if its files are wanted, an operator is asked to bring it back
    Exported,
}

impl From<State> for VolumeState {
    fn from(state: State) -> Self {
        match state {
            State::Blank => Self::Blank,
            State::Appendable => Self::Appendable,
            State::ReadOnly => Self::ReadOnly,
            State::Full => Self::Full,
            State::Suspect => Self::Suspect,
            State::Broken => Self::Broken,
            State::Disabled => Self::Disabled,
            State::Exported => Self::Exported,
        }
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        None | Some(Verb::Ls) => list(context),
        Some(Verb::Add { vids, library }) => add(vids, library, context),
        Some(Verb::Verify { vids }) => context.each(vids, |context, vid| context.done(&VerifyVolume { vid })),
        Some(Verb::Damaged) => damaged(context),
        Some(Verb::Reclaim { vids }) => {
            context.each(vids, |context, vid| context.done(&ReclaimVolume { vid }))
        }
        Some(Verb::Pool { pool, vids }) => {
            let pool = if pool == "none" { String::new() } else { pool };
            context.each(vids, |context, vid| context.done(&SetVolumePool { vid, pool: pool.clone() }))
        }
        Some(Verb::Set { state, vids, reason }) => context.each(vids, |context, vid| {
            context.done(&SetVolumeState { vid, state: state.into(), reason: reason.clone() })
        }),
    }
}

fn add(vids: Vec<Vid>, library: Option<String>, context: &mut Context) -> Run {
    let added = context.call(&AddVolumes { vids, library })?;
    if context.output.is_json() {
        context.output.json(&added)?;
        return Ok(0);
    }
    let vids = added.vids.iter().map(Vid::as_str).collect::<Vec<_>>().join(" ");
    let library = &added.library;
    context
        .output
        .news(format!("added to library {library}: {vids}; they are labelled before their first file"))?;
    Ok(0)
}

fn list(context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status.volumes)?;
    } else if status.volumes.is_empty() {
        context.output.news("no tape library has registered")?;
    } else {
        context.output.table(&table(&status.volumes))?;
        let left = status.counts.all_volumes().saturating_sub(status.volumes.len() as u64);
        if left > 0 {
            context.output.toned(Tone::Faint, &format!("and {left} more"))?;
        }
    }
    Ok(0)
}

fn damaged(context: &mut Context) -> Run {
    let copies = context.call(&GetDamagedCopies {})?.copies;
    if context.output.is_json() {
        context.output.json(&copies)?;
        return Ok(0);
    }
    if copies.is_empty() {
        context.output.news("no copy on tape is known to be damaged")?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("path"),
        Column::Left("volume"),
        Column::Right("file"),
        Column::Right("size"),
        Column::Left("state"),
        Column::Text("damage"),
    ]);
    for copy in &copies {
        let state = if copy.is_last { "last copy" } else { copy.state.as_str() };
        if copy.is_last && !copy.state.is_online() {
            table.next_step("a last copy that is damaged: `bp stage PATH` tries to read it once more");
        }
        table.row([
            Cell::from(copy.path.as_str()),
            copy.vid.as_str().into(),
            copy.fseq.to_string().into(),
            human_bytes(copy.size).into(),
            state.into(),
            copy.reason.as_str().into(),
        ]);
    }
    context.output.table(&table)?;
    Ok(0)
}

/// The library of a volume, with its tape pool if it is in one.
fn place(volume: &VolumeInfo) -> String {
    match (volume.library.as_str(), volume.pool.as_str()) {
        (library, "") => library.to_owned(),
        ("", pool) => format!("({pool})"),
        (library, pool) => format!("{library} ({pool})"),
    }
}

/// Volumes as a table.
pub(crate) fn table(volumes: &[VolumeInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("volume"),
        Column::Left("library"),
        Column::Left("state"),
        Column::Right("files"),
        Column::Right("live"),
        Column::Right("used"),
        Column::Right("capacity"),
        Column::Right("filled"),
        Column::Right("loads"),
        Column::Left("drive"),
        Column::Text("why"),
    ]);
    for volume in volumes {
        if volume.state == VolumeState::Suspect {
            table.next_step("`bp admin volume survey VOLUME` reads what is on a suspect volume");
        }
        table.row([
            Cell::from(volume.vid.as_str()),
            place(volume).into(),
            volume_state(volume.state),
            volume.files.to_string().into(),
            human_bytes(volume.live_bytes).into(),
            human_bytes(volume.used_bytes).into(),
            human_bytes(volume.capacity_bytes).into(),
            percent(volume.used_bytes, volume.capacity_bytes).into(),
            volume.loads.to_string().into(),
            volume.drive.clone().unwrap_or_default().into(),
            volume.reason.clone().unwrap_or_default().into(),
        ]);
    }
    table
}
