//! The command line.

use crate::verbs;
use clap::{Args, Parser, Subcommand};

/// One data facility: files on disk and tape, and the jobs that read them.
#[derive(Debug, Parser)]
#[command(name = "bp", version, propagate_version = true, infer_subcommands = false, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 2 makes no sense, 3 not found, 4 exists or is of the wrong kind, 5 not \
                        allowed,\n6 busy or out of reach, 7 no space, 8 corrupt, 9 input or output failed, 70 a bug."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The facility: its directory or its http:// endpoint
    #[arg(long, short, global = true, env = client::facility::ENVIRONMENT, hide_env_values = true, value_name = "DIR|URL")]
    pub(crate) facility: Option<String>,
    /// Print what the facility answered as JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// On whose behalf [default: the Unix user]
    #[arg(long, global = true, env = "BP_USER", hide_env_values = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print only errors and what was asked for
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a facility in an empty directory
    Create(verbs::create::Args),
    /// Start a facility
    Up(verbs::up::Args),
    /// Stop a facility
    Down(verbs::down::Args),
    /// Show the facility at a glance
    Status(verbs::status::Args),

    /// List directories
    Ls(verbs::ls::Args),
    /// Show everything known of files and directories
    Stat(verbs::stat::Args),
    /// Make directories
    Mkdir(verbs::mkdir::Args),
    /// Remove files, and directories with -r; `bp trash` brings them back
    Rm(verbs::rm::Args),
    /// Show and restore what was removed
    Trash(verbs::trash::Args),
    /// Remove empty directories
    Rmdir(verbs::rmdir::Args),
    /// Rename files and directories
    Mv(verbs::mv::Args),
    /// Set permission bits
    Chmod(verbs::chmod::Args),
    /// Give files and directories to another owner or group
    Chown(verbs::chown::Args),
    /// Find files and directories by name, size, age or state
    Find(verbs::find::Args),
    /// Show how many bytes and files are below directories
    Du(verbs::du::Args),
    /// Show a directory with all that is below it
    Tree(verbs::tree::Args),
    /// Grant users and groups what they may do with files and in directories
    Grant(verbs::grant::Args),

    /// Copy local files into the facility
    Put(verbs::put::Args),
    /// Copy files out of the facility, or reserve room for one
    Get(verbs::get::Args),
    /// Print files
    Cat(verbs::cat::Args),
    /// Copy files between this host and servers, or from server to server
    Cp(verbs::cp::Args),

    /// Ask for tape copies
    Archive(verbs::archive::Args),
    /// Ask for disk replicas
    Stage(verbs::stage::Args),
    /// Drop disk replicas of files that are on tape
    Evict(verbs::evict::Args),
    /// Let go of pins that keep files on disk
    Release(verbs::release::Args),
    /// Wait until files are on disk or on tape
    Wait(verbs::wait::Args),

    /// Tell why a file, a job or a tape request waits
    Why(verbs::why::Args),

    /// Submit a job
    Submit(verbs::submit::Args),
    /// Show jobs
    Jobs(verbs::jobs::Args),
    /// End jobs, take tape requests back
    Cancel(verbs::cancel::Args),
    /// Show what a job printed
    Log(verbs::log::Args),

    /// Show what waits for tape, and why
    Queue(verbs::queue::Args),
    /// Show tape volumes
    Volumes(verbs::volumes::Args),
    /// Show tape drives
    Drives(verbs::drives::Args),
    /// Show who used what
    Bill(verbs::bill::Args),
    /// Save the catalogue of a running facility in a file
    Backup(verbs::backup::Args),
    /// Show accounts by user, group, project, pool and month
    Account(verbs::account::Args),
    /// Say what belongs to a project
    Project(verbs::project::Args),
    /// Show and set how much users, groups and projects may hold
    Quota(verbs::quota::Args),
    /// Show who did what
    Audit(verbs::audit::Args),
    /// Compare partitions with the catalogue, and mend what is wrong
    Scan(verbs::scan::Args),
    /// Take a directory beside a partition into the facility without copying it
    Adopt(verbs::adopt::Args),
    /// Make a token that proves who somebody is
    Token(verbs::token::Args),
    /// Print what clients need to trust the facility's certificates
    Trust(verbs::trust::Args),
    /// Show, replace and revoke generations of the facility's key
    Key(verbs::key::Args),
    /// Let hosts join the facility, show them, turn them away
    Host(verbs::host::Args),
    /// Say what pools promise; drain, freeze, use and retire partitions
    Pool(verbs::pool::Args),
    /// Have another head of the facility take over
    Head(verbs::head::Args),
    /// Deal with volumes, drives and requests that need a person
    Admin(verbs::admin::Args),

    /// Print a completion script for a shell
    Completion(verbs::completion::Args),
    /// Print the manual page, or write all pages into a directory
    Man(verbs::man::Args),
}
