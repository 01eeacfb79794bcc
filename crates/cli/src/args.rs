//! The command line.

use crate::verbs;
use clap::{Args, Parser, Subcommand};

/// One data facility: files on disk and tape, and the jobs that read them.
#[derive(Debug, Parser)]
#[command(name = "bp", version, propagate_version = true, infer_subcommands = false, max_term_width = 100)]
#[command(after_help = "Histograms over n-tuples are made in Python: import backplane.\n\n\
                  Exit codes: 0 done, 2 invalid arguments, 3 not found, 4 exists or has the wrong type,\n5 permission \
                  denied, 6 busy or unreachable, 7 no space, 8 corrupt data, 9 input or output\nfailed, 70 a bug.")]
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
    /// Print the facility's answer as JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Act for this user; only for the owner of the facility [default: the Unix user]
    #[arg(long, global = true, env = "BP_USER", hide_env_values = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print only results and errors
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
    /// Show metadata, replicas and tape copies of files and directories
    Stat(verbs::stat::Args),
    /// Make directories
    Mkdir(verbs::mkdir::Args),
    /// Remove files, and directories with -r; see trash
    Rm(verbs::rm::Args),
    /// List, restore and delete removed files
    Trash(verbs::trash::Args),
    /// Remove empty directories
    Rmdir(verbs::rmdir::Args),
    /// Rename files and directories
    Mv(verbs::mv::Args),
    /// Set permission bits
    Chmod(verbs::chmod::Args),
    /// Set owner and group of files and directories
    Chown(verbs::chown::Args),
    /// Find files and directories by name, size, age or state
    Find(verbs::find::Args),
    /// Show bytes and files below directories
    Du(verbs::du::Args),
    /// Show a directory as a tree
    Tree(verbs::tree::Args),
    /// Show, add and revoke rights of users and groups beside modes
    Grant(verbs::grant::Args),

    /// Copy local files into the facility
    Put(verbs::put::Args),
    /// Copy files out of the facility, or reserve space for a new one
    Get(verbs::get::Args),
    /// Print files
    Cat(verbs::cat::Args),
    /// Copy files between this host and servers, or from server to server
    Cp(verbs::cp::Args),

    /// Request tape copies of files
    Archive(verbs::archive::Args),
    /// Request disk replicas of files that are on tape
    Stage(verbs::stage::Args),
    /// Delete disk replicas of files that are safe on tape
    Evict(verbs::evict::Args),
    /// Release pins that keep files on disk
    Release(verbs::release::Args),
    /// Wait until files are on disk or on tape
    Wait(verbs::wait::Args),

    /// Show why a file, a job or a tape request waits
    Why(verbs::why::Args),

    /// Submit a job
    Submit(verbs::submit::Args),
    /// Show jobs
    Jobs(verbs::jobs::Args),
    /// End jobs, or withdraw tape requests
    Cancel(verbs::cancel::Args),
    /// Show what a job printed
    Log(verbs::log::Args),

    /// Show the tape queue and why each request waits
    Queue(verbs::queue::Args),
    /// Show or add tape volumes
    #[command(visible_alias = "volume")]
    Volumes(verbs::volumes::Args),
    /// Show tape drives
    Drives(verbs::drives::Args),
    /// Show the total usage of each user
    Bill(verbs::bill::Args),
    /// Save the catalogue of a running facility to a file
    Backup(verbs::backup::Args),
    /// Show usage by user, group, project, pool and month
    Account(verbs::account::Args),
    /// Assign files and directories to a project
    Project(verbs::project::Args),
    /// Show and set quotas of users, groups and projects
    Quota(verbs::quota::Args),
    /// Show the audit log: who did what, when, from where
    Audit(verbs::audit::Args),
    /// Check the facility for problems and suggest the next step for each
    Doctor(verbs::doctor::Args),
    /// Show recent events of the facility, or follow new ones
    Events(verbs::events::Args),
    /// Compare partitions with the catalogue and repair the differences
    Scan(verbs::scan::Args),
    /// Add an existing directory of a disk server without copying it
    Adopt(verbs::adopt::Args),
    /// Make tokens by which users authenticate
    Token(verbs::token::Args),
    /// Print the settings by which clients trust the facility
    Trust(verbs::trust::Args),
    /// List, rotate and revoke the keys that sign tokens
    Key(verbs::key::Args),
    /// Invite, list, label and remove hosts
    Host(verbs::host::Args),
    /// Configure pools; drain, freeze and retire their partitions
    Pool(verbs::pool::Args),
    /// Hand over to a standby head; refer directories to other heads
    Head(verbs::head::Args),
    /// Repair volumes, drives, tape requests and the catalogue
    Admin(verbs::admin::Args),

    /// Print a completion script for a shell
    Completion(verbs::completion::Args),
    /// Print the manual page, or write all pages to a directory
    Man(verbs::man::Args),
}
