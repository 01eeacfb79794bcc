//! `bp head`: shows the active head and manages standby heads and referrals.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words,
};
use base::{ErrorKind, Failure, FilePath, OtherHead};
use clap::Subcommand;
use wire::control::{GetEntry, GetReferrals, GetStatus, NodeKind, Refer, Referral, TakeOver};

/// Hand over to a standby head; refer directories to other heads
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a standby head active; the active head stops
    TakeOver {
        /// Host of the standby [default: the first that responds]
        host: Option<String>,
    },
    /// Refer a directory to another head; without one, list the referrals
    #[command(
        after_help = "Clients are redirected to the other head for DIRECTORY and everything below it. The \
            directory must exist there under the same path and be empty here. If DIRECTORY is /, every path \
            that this head does not have is redirected."
    )]
    Refer {
        /// A directory
        #[arg(value_name = "DIRECTORY", requires = "what")]
        path: Option<FilePath>,
        /// HTTP address of the other head
        #[arg(value_name = "https://HOST:PORT", group = "what")]
        head: Option<String>,
        /// End the referral: this head serves the directory again
        #[arg(long, group = "what")]
        end: bool,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        Verb::TakeOver { host } => take_over(host, context),
        Verb::Refer { path: None, .. } => list(context),
        Verb::Refer { path: Some(path), head, .. } => refer(path, head, context),
    }
}

fn take_over(host: Option<String>, context: &mut Context) -> Run {
    let done = context.call(&TakeOver { host: host.clone() })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    } else {
        let who = host.unwrap_or_else(|| "the first standby to respond".to_owned());
        context.output.news(format!("{who} takes over"))?;
    }
    Ok(0)
}

fn refer(path: FilePath, head: Option<String>, context: &mut Context) -> Run {
    let to = match head {
        Some(head) => Some(other_head(&path, &head, context)?),
        None => None,
    };
    let done = context.call(&Refer { path, to })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    }
    Ok(0)
}

/// Asks a head where it is, and whether it has the directory.
fn other_head(path: &FilePath, head: &str, context: &mut Context) -> Result<OtherHead, Failure> {
    let other = context.control()?.at_head(head)?;
    let root = other.call(&GetStatus {})?.root;
    let entry = other.call(&GetEntry { path: path.clone() }).map_err(|failure| match failure.kind {
        ErrorKind::NotFound => Failure::not_found(format!("{path} does not exist at {head}"))
            .hint(format!("`bp --facility {head} mkdir -p {path}` makes it")),
        _ => failure.during(head),
    })?;
    if entry.kind != NodeKind::Directory {
        return Err(Failure::new(
            ErrorKind::NotDirectory,
            format!("{path} is a {} at {head}", entry.kind.as_str()),
        ));
    }
    Ok(OtherHead { root, http: other.address() })
}

fn list(context: &mut Context) -> Run {
    let listed = context.call(&GetReferrals {})?;
    if context.output.is_json() {
        context.output.json(&listed)?;
    } else if listed.referrals.is_empty() {
        context.output.news("no directory is referred to another head")?;
    } else {
        context.output.table(&table(&listed.referrals))?;
    }
    Ok(0)
}

fn table(referrals: &[Referral]) -> Table {
    let columns = [
        Column::Path("directory"),
        Column::Left("head"),
        Column::Left("root"),
        Column::Left("set by"),
        Column::Left("since"),
    ];
    let mut table = Table::new(columns);
    for referral in referrals {
        table.row([
            Cell::from(referral.path.as_str()),
            Cell::from(referral.at.http.as_str()),
            Cell::from(referral.at.root.as_str()),
            Cell::from(referral.giver.as_str()),
            Cell::from(words::time(referral.made)),
        ]);
    }
    table
}
