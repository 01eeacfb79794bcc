//! The command line of `bpd`.

use base::units::{Size, Span};
use clap::{Args, Parser, Subcommand};
use daemon::facility::config::Config;
use std::{net::IpAddr, path::PathBuf};
use wire::control::Role;

/// The daemon of a Backplane facility; users and operators use `bp`.
#[derive(Parser)]
#[command(name = "bpd", version, disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Makes a facility in a missing or empty directory.
    Create(Create),
    /// Runs the facility in a directory until it gets SIGTERM or SIGINT.
    Run(Run),
    /// Joins this host to a facility with an invitation, then runs it as `bpd run` does.
    Join(Join),
    /// Makes a token for a user; for users who can read the facility's key.
    Token(Token),
    /// Restores the catalogue of a stopped facility from a backup; it must have no catalogue.
    Restore(Restore),
    /// Makes an empty catalogue for a stopped facility that lost its own and has no backup.
    Rebuild(Rebuild),
    /// Moves the catalogue of a stopped facility to a database or a file.
    Migrate(Migrate),
    /// Shows every configuration key with its default.
    Config,
    /// Stays with one batch job; started by the worker.
    #[command(hide = true)]
    Shepherd {
        /// The run's directory.
        run_dir: PathBuf,
        /// What this process is to become.
        #[arg(long, default_value_t)]
        stage: batch::Stage,
    },
}

/// The parts of a host; those of roles that it does not have mean nothing.
#[derive(Args)]
pub(super) struct Parts {
    /// Tape drives of the virtual library.
    #[arg(long)]
    drives: Option<u16>,
    /// Slots of the virtual library.
    #[arg(long)]
    slots: Option<u16>,
    /// Cartridges of the virtual library.
    #[arg(long)]
    volumes: Option<u16>,
    /// Prefix of the cartridges' labels, one or two of A-Z 0-9; for a host that joins, derived from its name if not given.
    #[arg(long)]
    pub(super) prefix: Option<String>,
    /// Capacity of a cartridge, e.g. 16GiB.
    #[arg(long)]
    volume_size: Option<Size>,
    /// Length of data blocks on tape, e.g. 256KiB.
    #[arg(long)]
    block: Option<Size>,
    /// How long the virtual library takes to load a cartridge, e.g. 15s.
    #[arg(long)]
    load_time: Option<Span>,
    /// Most bytes of replicas on disk, e.g. 100GiB; the whole file system if not given.
    #[arg(long)]
    disk_size: Option<Size>,
    /// CPU slots for jobs; as many as the host has if not given.
    #[arg(long)]
    cpus: Option<u32>,
}

#[derive(Args)]
pub(super) struct Create {
    /// The directory of the new facility.
    pub(super) directory: PathBuf,
    /// Name of the facility.
    #[arg(long)]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) parts: Parts,
    /// Database of the catalogue, postgresql://USER@HOST/DATABASE; a file in the directory if not given.
    #[arg(long)]
    pub(super) catalogue: Option<String>,
    /// File with the password of that database.
    #[arg(long)]
    pub(super) catalogue_password: Option<PathBuf>,
    /// Memory that caches the catalogue, e.g. 4GiB; 0: an eighth of the host's memory.
    #[arg(long)]
    pub(super) cache: Option<Size>,
}

#[derive(Args)]
pub(super) struct Run {
    /// The facility's directory.
    pub(super) directory: PathBuf,
    /// Makes the facility first, if the directory is missing or empty.
    #[arg(long)]
    pub(super) create: bool,
    /// Port of root://, 0 for any.
    #[arg(long)]
    pub(super) root_port: Option<u16>,
    /// Port of http://, 0 for any.
    #[arg(long)]
    pub(super) http_port: Option<u16>,
    /// Port of https://, 0 for any; any if only --http-port is given.
    #[arg(long)]
    pub(super) https_port: Option<u16>,
    /// Address to listen on.
    #[arg(long)]
    pub(super) bind: Option<IpAddr>,
    /// Waits until the active head is silent or `bp head take-over` is called; needs a catalogue in a database.
    #[arg(long)]
    pub(super) standby: bool,
    /// Takes over now from the active head on another host.
    #[arg(long, conflicts_with = "standby")]
    pub(super) take_over: bool,
}

#[derive(Args)]
pub(super) struct Join {
    /// Directory for the host's configuration, keys and data; it must be missing or empty.
    pub(super) directory: PathBuf,
    /// The invitation, as `bp host invite` prints it; `-` reads it from standard input.
    #[arg(long)]
    pub(super) token: String,
    /// Role of the host: disk, tape or cpu; repeatable.
    #[arg(long, required = true)]
    pub(super) role: Vec<Role>,
    /// Name of the host in the facility; its host name if not given.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Name or address by which the head and clients reach it; the address it listens on if not given.
    #[arg(long)]
    pub(super) address: Option<String>,
    /// Address to listen on.
    #[arg(long)]
    pub(super) bind: Option<IpAddr>,
    /// Port of root://, 0 for any.
    #[arg(long)]
    pub(super) root_port: Option<u16>,
    /// Port of https://, 0 for any.
    #[arg(long)]
    pub(super) https_port: Option<u16>,
    /// Only joins; start the host later with `bpd run`.
    #[arg(long)]
    pub(super) only: bool,
    #[command(flatten)]
    pub(super) parts: Parts,
}

#[derive(Args)]
pub(super) struct Restore {
    /// The facility's directory.
    pub(super) directory: PathBuf,
    /// The file that `bp backup` wrote.
    pub(super) backup: PathBuf,
}

#[derive(Args)]
pub(super) struct Rebuild {
    /// The facility's directory, with its configuration, `id`, `key` and `tls/`.
    pub(super) directory: PathBuf,
    /// User who runs the facility; the current user if not given.
    #[arg(long)]
    pub(super) owner: Option<String>,
}

#[derive(Args)]
pub(super) struct Migrate {
    /// The facility's directory.
    pub(super) directory: PathBuf,
    /// An empty database, postgresql://USER@HOST/DATABASE, or `file` for a file in the directory.
    #[arg(long)]
    pub(super) to: String,
    /// File with the password of that database.
    #[arg(long)]
    pub(super) catalogue_password: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Token {
    /// The facility's directory.
    pub(super) directory: PathBuf,
    /// User of the token; the facility's owner if not given.
    #[arg(long)]
    pub(super) user: Option<String>,
    /// How long the token is valid, e.g. 12h.
    #[arg(long, default_value = "12h")]
    pub(super) lifetime: Span,
    /// A scope that limits the token, e.g. storage.read:/data; all that the user may do if not given.
    #[arg(long, num_args = 1..)]
    pub(super) scope: Vec<String>,
    /// A group of the user, for grants and mode bits.
    #[arg(long, conflicts_with = "scope")]
    pub(super) group: Vec<String>,
    /// Audience of the token; this facility if not given.
    #[arg(long)]
    pub(super) audience: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Parts {
    /// Changes what was given.
    pub(super) fn put_into(&self, config: &mut Config) {
        let (tape, disk, batch) = (&mut config.tape, &mut config.disk, &mut config.batch);
        tape.drives = self.drives.unwrap_or(tape.drives);
        tape.volumes = self.volumes.unwrap_or(tape.volumes);
        tape.slots = self.slots.unwrap_or(tape.slots.max(tape.volumes));
        tape.prefix = self.prefix.clone().unwrap_or_else(|| tape.prefix.clone());
        tape.volume_size = self.volume_size.unwrap_or(tape.volume_size);
        tape.block = self.block.unwrap_or(tape.block);
        tape.load_time = self.load_time.unwrap_or(tape.load_time);
        disk.size = self.disk_size.unwrap_or(disk.size);
        batch.cpus = self.cpus.unwrap_or(batch.cpus);
    }
}
