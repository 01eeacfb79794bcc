//! `bp up`: starts a facility.

use super::create::{self, FacilityOptions};
use crate::{
    context::{Context, Run},
    daemon,
};
use base::{Failure, Result};
use std::{
    ffi::OsString,
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Start a facility
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The facility's directory
    directory: PathBuf,
    /// Make the facility first if the directory is empty or does not exist
    #[arg(long)]
    create: bool,
    /// Run in the background; return when the facility answers
    #[arg(long)]
    detach: bool,
    /// Port of the root:// door; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    root_port: Option<u16>,
    /// Port of the http:// door; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// Port of the https:// door; 0 takes a free one [default: as configured, or free with --http-port]
    #[arg(long, value_name = "PORT")]
    https_port: Option<u16>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Leave the terminal's session first
    #[arg(long, hide = true)]
    in_session: bool,
    #[command(flatten)]
    shape: FacilityOptions,
}

impl Args {
    /// Options of the daemon.
    fn options(&self) -> Vec<OsString> {
        let options = [
            ("--root-port", self.root_port.map(|port| port.to_string())),
            ("--http-port", self.http_port.map(|port| port.to_string())),
            ("--https-port", self.https_port.map(|port| port.to_string())),
            ("--bind", self.bind.map(|address| address.to_string())),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some(OsString::from(format!("{name}={}", value?))));
        given.collect()
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    prepare(&args)?;
    let mut arguments = vec![args.directory.clone().into_os_string()];
    arguments.extend(args.options());
    if args.detach {
        let endpoints = daemon::detach(&args.directory, &arguments)?;
        if context.output.is_json() {
            context.output.json(&endpoints)?;
        } else {
            context.output.line(format!("root  {}", endpoints.root))?;
            context.output.line(format!("http  {}", endpoints.http))?;
            if let Some(https) = &endpoints.https {
                context.output.line(format!("https {https}"))?;
            }
            context.output.line(format!("pid   {}", endpoints.pid))?;
        }
        return Ok(0);
    }
    if args.in_session {
        daemon::leave_session()?;
    }
    arguments.insert(0, OsString::from("run"));
    Err(daemon::become_daemon(&arguments).into())
}

/// Makes the facility if that is wanted and there is none; refuses to start what does not exist.
fn prepare(args: &Args) -> Result<()> {
    let is_blank = is_blank(&args.directory)?;
    if args.create && is_blank {
        return daemon::run(&create::arguments(args.directory.clone(), &args.shape));
    }
    if is_blank {
        let what = format!("there is no facility in {}", args.directory.display());
        return Err(Failure::not_found(what).hint("add --create to make one"));
    }
    if !args.create && !args.shape.is_empty() {
        return Err(Failure::invalid("options of a new facility need --create"));
    }
    Ok(())
}

/// Whether there is nothing in the directory, or no directory.
fn is_blank(directory: &Path) -> Result<bool> {
    match directory.read_dir() {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(cause) => Err(Failure::io(format!("read {}", directory.display()), &cause)),
    }
}
