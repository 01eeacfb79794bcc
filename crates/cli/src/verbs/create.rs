//! `bp create`: makes a facility.

use crate::{
    context::{Context, Run},
    daemon,
};
use base::units::{Size, Span};
use std::{ffi::OsString, path::PathBuf};

/// What a new facility is like. What is not given, the daemon decides.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "New facility")]
pub(crate) struct FacilityOptions {
    /// Name of the facility
    #[arg(long)]
    name: Option<String>,
    /// Tape drives of the virtual library
    #[arg(long, value_name = "N")]
    drives: Option<u32>,
    /// Slots of the virtual library
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Volumes in the slots
    #[arg(long, value_name = "N")]
    volumes: Option<u32>,
    /// Capacity of each volume, e.g. 1GiB
    #[arg(long, value_name = "SIZE")]
    volume_size: Option<Size>,
    /// Length of data blocks on tape, e.g. 256KiB
    #[arg(long, value_name = "SIZE")]
    block: Option<Size>,
    /// How long the virtual library takes to load a volume, e.g. 15s
    #[arg(long, value_name = "TIME")]
    load_time: Option<Span>,
    /// Most bytes of replicas on disk, e.g. 100GiB
    #[arg(long, value_name = "SIZE")]
    disk_size: Option<Size>,
    /// CPU slots for jobs
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Keep the catalogue in this PostgreSQL database [default: in a file of the directory]
    #[arg(long, value_name = "URL")]
    catalogue: Option<String>,
    /// File that holds the password of the database
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    catalogue_password: Option<PathBuf>,
    /// Memory that caches the catalogue, e.g. 4GiB
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
}

impl FacilityOptions {
    /// The same as arguments of the daemon.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let options = [
            ("--name", self.name.clone()),
            ("--drives", self.drives.map(|n| n.to_string())),
            ("--slots", self.slots.map(|n| n.to_string())),
            ("--volumes", self.volumes.map(|n| n.to_string())),
            ("--volume-size", self.volume_size.map(|size| size.to_string())),
            ("--block", self.block.map(|size| size.to_string())),
            ("--load-time", self.load_time.map(|span| span.to_string())),
            ("--disk-size", self.disk_size.map(|size| size.to_string())),
            ("--cpus", self.cpus.map(|n| n.to_string())),
            ("--catalogue", self.catalogue.clone()),
            ("--cache", self.cache.map(|size| size.to_string())),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some(OsString::from(format!("{name}={}", value?))));
        let password = self.catalogue_password.iter();
        let password =
            password.flat_map(|file| ["--catalogue-password".into(), file.clone().into_os_string()]);
        given.chain(password).collect()
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.arguments().is_empty()
    }
}

/// Make a facility in an empty directory
#[derive(Debug, clap::Args)]
#[command(after_help = "`bpd config` shows all settings of a facility and their defaults.")]
pub(crate) struct Args {
    /// A directory that is empty or does not exist
    directory: PathBuf,
    #[command(flatten)]
    shape: FacilityOptions,
}

pub(crate) fn run(args: Args, _context: &mut Context) -> Run {
    Err(daemon::become_daemon(&arguments(args.directory, &args.shape)).into())
}

/// The daemon's arguments that make a facility.
pub(crate) fn arguments(directory: PathBuf, shape: &FacilityOptions) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("create"), directory.into_os_string()];
    arguments.extend(shape.arguments());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_is_handed_on() {
        let shape = FacilityOptions {
            drives: Some(3),
            volume_size: Some("1GiB".parse().unwrap()),
            ..FacilityOptions::default()
        };
        assert_eq!(arguments("d".into(), &shape), ["create", "d", "--drives=3", "--volume-size=1GiB"]);
    }
}
