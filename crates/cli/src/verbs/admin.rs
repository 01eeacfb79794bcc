//! `bp admin`: volumes, drives and requests that need a person.

use super::volumes::State;
use crate::{
    context::{Context, Run},
    names,
    words::counted,
};
use base::{RequestId, Vid};
use clap::Subcommand;
use wire::control::{DisableDrive, EnableDrive, RetryRequest, SetVolumeState, SurveyVolumes};

/// Repair volumes, drives, tape requests and the catalogue
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    thing: Thing,
}

#[derive(Debug, Subcommand)]
enum Thing {
    /// Set the state of tape volumes, and read their labels again
    #[command(subcommand)]
    Volume(Volume),
    /// Disable and enable tape drives
    #[command(subcommand)]
    Drive(Drive),
    /// Retry tape requests
    #[command(subcommand)]
    Request(Request),
    /// Compare a restored catalogue with the disks, then accept it as it is
    Settle(super::settle::Args),
    /// Add files on disks that a restored catalogue lacks
    Recover(super::recover::Args),
}

#[derive(Debug, Subcommand)]
enum Volume {
    /// Set the state of a volume
    Set {
        /// The volume
        vid: Vid,
        /// The new state
        state: State,
        /// Reason, shown by `bp volumes` and `bp why`
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
    },
    /// Read the labels of volumes into a catalogue that was lost or restored
    Survey {
        /// The volumes
        #[arg(required_unless_present = "all", value_name = "VID")]
        vids: Vec<Vid>,
        /// All suspect volumes, and those that a restore made read-only
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
enum Drive {
    /// Disable a drive: it ends its session and starts no other
    Disable {
        /// The drive
        drive: String,
        /// Reason, shown by `bp drives`
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
    },
    /// Enable a drive again
    Enable {
        /// The drive
        drive: String,
    },
}

#[derive(Debug, Subcommand)]
enum Request {
    /// Retry requests now that failed or wait for their next try
    Retry {
        /// The requests
        #[arg(required = true, value_name = "ID", value_parser = names::request)]
        ids: Vec<RequestId>,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.thing {
        Thing::Volume(Volume::Set { vid, state, reason }) => {
            context.done(&SetVolumeState { vid, state: state.into(), reason })?;
            Ok(0)
        }
        Thing::Volume(Volume::Survey { vids, all }) => survey(context, &SurveyVolumes { vids, all }),
        Thing::Drive(Drive::Disable { drive, reason }) => {
            context.done(&DisableDrive { drive, reason })?;
            Ok(0)
        }
        Thing::Drive(Drive::Enable { drive }) => {
            context.done(&EnableDrive { drive })?;
            Ok(0)
        }
        Thing::Settle(args) => super::settle::run(args, context),
        Thing::Recover(args) => super::recover::run(args, context),
        Thing::Request(Request::Retry { ids }) => {
            context.each(ids, |context, request| context.done(&RetryRequest { request }))
        }
    }
}

fn survey(context: &mut Context, call: &SurveyVolumes) -> Run {
    let ordered = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&ordered)?;
    } else if ordered.vids.is_empty() {
        context.output.news("no volume needs a survey: the contents of all are known")?;
    } else {
        let vids: Vec<_> = ordered.vids.iter().map(Vid::as_str).collect();
        let volumes = counted(vids.len() as u64, "volume", "volumes");
        let vids = vids.join(" ");
        context
            .output
            .news(format!("{volumes} will be surveyed; `bp volumes` shows the progress: {vids}"))?;
    }
    Ok(0)
}
