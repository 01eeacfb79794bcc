//! One file for each verb, and the one list of them: [`GROUPS`].
//!
//! A verb's name is that of its file. Its arguments are the type `Args` there, of which the comment says in one line what the
//! verb does; `run` does it. Help, completion, manual pages and the page of reference are made from the list.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod adopt;
pub(crate) mod alter;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bill;
pub(crate) mod cancel;
pub(crate) mod cat;
pub(crate) mod chmod;
pub(crate) mod chown;
pub(crate) mod class;
pub(crate) mod completion;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod drives;
pub(crate) mod du;
pub(crate) mod events;
pub(crate) mod evict;
pub(crate) mod find;
pub(crate) mod get;
pub(crate) mod grant;
pub(crate) mod head;
pub(crate) mod hist;
pub(crate) mod hold;
pub(crate) mod host;
mod job_args;
pub(crate) mod jobs;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod lease;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod message;
pub(crate) mod mkdir;
pub(crate) mod mount;
pub(crate) mod r#move;
pub(crate) mod mv;
pub(crate) mod operator;
pub(crate) mod pool;
pub(crate) mod project;
pub(crate) mod put;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod repack;
pub(crate) mod report;
pub(crate) mod rerun;
pub(crate) mod rm;
pub(crate) mod rmdir;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod settle;
pub(crate) mod shares;
pub(crate) mod shims;
pub(crate) mod signal;
pub(crate) mod stage;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod trash;
pub(crate) mod tree;
pub(crate) mod trust;
pub(crate) mod umount;
pub(crate) mod up;
pub(crate) mod volumes;
pub(crate) mod wait;
pub(crate) mod why;
pub(crate) mod worker;

use crate::context::{Context, Run};
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};

/// A verb of `bp`, as its file declares it.
pub(crate) struct Verb {
    /// What is typed.
    pub(crate) name: &'static str,
    arguments: fn(Command) -> Command,
    parse: fn(&ArgMatches) -> Result<Action, clap::Error>,
}

/// What a command line asks for; the number that it returns is the exit code.
pub(crate) type Action = Box<dyn FnOnce(&mut Context) -> Run>;

/// The name of a file whose name is a word of the language: `r#move` is `move`.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// The verbs of these files.
macro_rules! verbs {
    ($($file:ident),*) => {
        &[$(Verb {
            name: plain(stringify!($file)),
            arguments: $file::Args::augment_args,
            parse: |found| {
                let args = $file::Args::from_arg_matches(found)?;
                Ok(Box::new(|context| $file::run(args, context)))
            },
        }),*]
    };
}

/// The verbs by what people do. A verb of `bp` acts (`bp stage`); a noun has verbs of its own (`bp pool drain`), of which
/// `list` shows what there is.
pub(crate) const GROUPS: [(&str, &[Verb]); 9] = [
    (
        "Files",
        verbs![
            ls, stat, find, du, tree, put, get, cat, cp, mkdir, rmdir, mv, rm, trash, chmod, chown, grant,
            mount, umount, lease, layout
        ],
    ),
    ("Tape", verbs![archive, stage, evict, release, wait, queue, class]),
    (
        "Jobs",
        verbs![submit, run, jobs, top, log, cancel, hold, rerun, alter, r#move, signal, message, why, shims],
    ),
    ("Analysis", verbs![hist]),
    ("Accounts", verbs![account, bill, report, quota, project, shares]),
    ("Facility (operators)", verbs![create, up, down, status, doctor, events, host, worker, head, backup]),
    ("Disks and tapes (operators)", verbs![pool, scan, adopt, volumes, repack, drives, operator, admin]),
    ("Security (operators)", verbs![token, trust, key, audit]),
    ("Help", verbs![man, completion]),
];

/// All verbs, in the order of [`GROUPS`].
fn all() -> impl Iterator<Item = &'static Verb> {
    GROUPS.iter().flat_map(|(_, verbs)| *verbs)
}

/// Adds the verbs to a command line.
pub(crate) fn add_to(command: Command) -> Command {
    let verbs = all().map(|verb| (verb.arguments)(Command::new(verb.name)));
    command.subcommand_required(true).arg_required_else_help(true).subcommands(verbs)
}

/// Reads what a command line asks for. It names a verb: clap refuses others.
pub(crate) fn parse(found: &ArgMatches) -> Result<Action, clap::Error> {
    let asked =
        found.subcommand().and_then(|(name, found)| Some((all().find(|verb| verb.name == name)?, found)));
    let (verb, found) = asked.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))?;
    (verb.parse)(found)
}
