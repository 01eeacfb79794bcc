//! `bp admin`: volumes, drives and requests that need a person.

use crate::{
    context::{Context, Run},
    words::counted,
};
use base::{RequestId, Vid};
use clap::{Subcommand, ValueEnum};
use wire::control::{
    Call, DisableDrive, Done, EnableDrive, RetryRequest, SetVolumeState, SurveyVolumes, VolumeState,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    thing: Thing,
}

#[derive(Debug, Subcommand)]
enum Thing {
    /// Tape volumes
    #[command(subcommand)]
    Volume(Volume),
    /// Tape drives
    #[command(subcommand)]
    Drive(Drive),
    /// Rows of the tape queue
    #[command(subcommand)]
    Request(Request),
    /// A catalogue that was restored: show what lies on disks and is not in it, then say that it is good as it is
    Settle(super::settle::Args),
    /// A catalogue that was restored: take in what lies on disks and is not in it, as it describes itself
    Recover(super::recover::Args),
}

#[derive(Debug, Subcommand)]
enum Volume {
    /// Put a volume into use, or take it out
    Set {
        /// The volume
        vid: Vid,
        /// What may be done with it
        state: State,
    },
    /// Read what lies on volumes and take it in, if the catalogue was lost or restored
    Survey {
        /// The volumes
        #[arg(required_unless_present = "all", value_name = "VID")]
        vids: Vec<Vid>,
        /// All that are suspect, and those that a restore made read only
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
enum Drive {
    /// Take a drive out of use: it ends what it does, and begins nothing new
    Disable {
        /// The drive
        drive: String,
        /// Why, for those who look at `bp drives`
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
    },
    /// Put a drive that was taken out of use back
    Enable {
        /// The drive
        drive: String,
    },
}

#[derive(Debug, Subcommand)]
enum Request {
    /// Try requests again now that failed or wait for their next try
    Retry {
        /// The requests
        #[arg(required = true, value_name = "ID", value_parser = request_id)]
        ids: Vec<RequestId>,
    },
}

/// A request as `bp queue` shows it, or only its number.
pub(super) fn request_id(text: &str) -> base::Result<RequestId> {
    text.strip_prefix('r').unwrap_or(text).parse()
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    /// It has no label yet
    Blank,
    /// Read it and append to it
    Appendable,
    /// Read it
    Full,
    /// Do not use it
    Suspect,
}

impl From<State> for VolumeState {
    fn from(state: State) -> Self {
        match state {
            State::Blank => Self::Blank,
            State::Appendable => Self::Appendable,
            State::Full => Self::Full,
            State::Suspect => Self::Suspect,
        }
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.thing {
        Thing::Volume(Volume::Set { vid, state }) => {
            call(context, &SetVolumeState { vid, state: state.into() })?;
            Ok(0)
        }
        Thing::Volume(Volume::Survey { vids, all }) => survey(context, &SurveyVolumes { vids, all }),
        Thing::Drive(Drive::Disable { drive, reason }) => {
            call(context, &DisableDrive { drive, reason })?;
            Ok(0)
        }
        Thing::Drive(Drive::Enable { drive }) => {
            call(context, &EnableDrive { drive })?;
            Ok(0)
        }
        Thing::Settle(args) => super::settle::run(args, context),
        Thing::Recover(args) => super::recover::run(args, context),
        Thing::Request(Request::Retry { ids }) => {
            context.each(ids, |context, request| call(context, &RetryRequest { request }))
        }
    }
}

fn survey(context: &mut Context, call: &SurveyVolumes) -> Run {
    let ordered = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&ordered)?;
    } else if ordered.vids.is_empty() {
        context.output.news("there is nothing to survey: of every volume it is known what lies on it")?;
    } else {
        let vids: Vec<_> = ordered.vids.iter().map(Vid::as_str).collect();
        let volumes = counted(vids.len() as u64, "volume", "volumes");
        let vids = vids.join(" ");
        context.output.news(format!("{volumes} will be surveyed, `bp volumes` shows how far: {vids}"))?;
    }
    Ok(0)
}

fn call<C: Call<Reply = Done>>(context: &mut Context, call: &C) -> Run<()> {
    let reply = context.call(call)?;
    if context.output.is_json() { context.output.json(&reply) } else { Ok(()) }
}
