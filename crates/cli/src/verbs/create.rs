//! `bp create`: makes a facility.

use crate::{
    context::{Context, Run},
    daemon,
};
use std::{ffi::OsString, path::PathBuf};

/// What a new facility is like. What is not given, the daemon decides.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "New facility")]
pub(crate) struct Shape {
    /// Name that people see
    #[arg(long)]
    name: Option<String>,
    /// Tape drives of the virtual library [default: 2]
    #[arg(long, value_name = "N")]
    drives: Option<u32>,
    /// Slots of the virtual library [default: 8]
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Volumes in the slots [default: 6]
    #[arg(long, value_name = "N")]
    volumes: Option<u32>,
    /// What each volume holds [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    volume_size: Option<base::units::Size>,
}

impl Shape {
    /// The same as arguments of the daemon.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let options = [
            ("--name", self.name.clone()),
            ("--drives", self.drives.map(|n| n.to_string())),
            ("--slots", self.slots.map(|n| n.to_string())),
            ("--volumes", self.volumes.map(|n| n.to_string())),
            ("--volume-size", self.volume_size.map(|size| size.to_string())),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some(OsString::from(format!("{name}={}", value?))));
        given.collect()
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.arguments().is_empty()
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory that is empty or does not exist
    directory: PathBuf,
    #[command(flatten)]
    shape: Shape,
}

pub(crate) fn run(args: Args, _context: &mut Context) -> Run {
    Err(daemon::become_daemon(&arguments(args.directory, &args.shape)).into())
}

/// The daemon's arguments that make a facility.
pub(crate) fn arguments(directory: PathBuf, shape: &Shape) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("create"), directory.into_os_string()];
    arguments.extend(shape.arguments());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_is_handed_on() {
        let shape = Shape {
            name: None,
            drives: Some(3),
            slots: None,
            volumes: None,
            volume_size: Some("1GiB".parse().unwrap()),
        };
        assert_eq!(
            arguments("d".into(), &shape),
            ["create", "d", "--drives=3", "--volume-size=1GiB"]
        );
    }
}
