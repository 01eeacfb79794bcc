//! `bp grant`: grants users and groups rights beyond the permission bits.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words,
};
use base::{Failure, FilePath};
use wire::control::{GetGrants, GrantInfo, Rights, SetGrant, Subject};

/// Show, add and revoke rights of users and groups beside modes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A grant applies to the file, or to the directory and everything below it, now and later. It \
        adds to the mode bits.\nOnly the owner of the file or directory can grant. To use a grant, a user also \
        needs x on every directory above."
)]
pub(crate) struct Args {
    /// A file or directory
    #[arg(required_unless_present = "list", value_name = "PATH")]
    path: Option<FilePath>,
    /// Who gets the rights: user:NAME or group:NAME
    #[arg(required_unless_present = "list", conflicts_with = "list", value_name = "WHO")]
    subject: Option<Subject>,
    /// r to read and list, w to make, change, rename and remove, rw for both
    #[arg(required_unless_present_any = ["list", "revoke"], conflicts_with_all = ["list", "revoke"])]
    rights: Option<Rights>,
    /// Show the grants that apply at PATH, or all grants of the facility
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Remove the grants of WHO on PATH itself
    #[arg(long)]
    revoke: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if args.list {
        return list(args.path, context);
    }
    let (Some(path), Some(subject)) = (args.path, args.subject) else {
        return Err(Failure::invalid("a grant needs a path and a user or group").into());
    };
    let done = context.call(&SetGrant { path, subject, rights: args.rights })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    }
    Ok(0)
}

fn list(path: Option<FilePath>, context: &mut Context) -> Run {
    let listed = context.call(&GetGrants { path })?;
    if context.output.is_json() {
        context.output.json(&listed)?;
    } else if listed.grants.is_empty() {
        context.output.news("no grant applies here; only the mode bits do")?;
    } else {
        context.output.table(&table(&listed.grants))?;
    }
    Ok(0)
}

fn table(grants: &[GrantInfo]) -> Table {
    let columns = [
        Column::Path("path"),
        Column::Left("to"),
        Column::Left("rights"),
        Column::Left("by"),
        Column::Left("since"),
    ];
    let mut table = Table::new(columns);
    for grant in grants {
        table.row([
            Cell::from(grant.path.as_str()),
            Cell::from(grant.subject.to_string()),
            Cell::from(grant.rights.as_str()),
            Cell::from(grant.giver.as_str()),
            Cell::from(words::time(grant.made)),
        ]);
    }
    table
}
