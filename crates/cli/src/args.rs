//! The command line but for its verbs, which `verbs/mod.rs` lists.

use clap::{Args, Parser};

/// One data facility: files on disk and tape, and the jobs that read them.
#[derive(Debug, Parser)]
#[command(name = "bp", version, propagate_version = true, infer_subcommands = false, max_term_width = 100)]
#[command(after_help = "More of n-tuples than `bp hist` shows is made in Python: import backplane.\n\n\
                  Exit codes: 0 done, 2 invalid arguments, 3 not found, 4 exists or has the wrong type,\n5 permission \
                  denied, 6 busy or unreachable, 7 no space, 8 corrupt data, 9 input or output\nfailed, 70 a bug.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
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
