//! `bp shares`: who is entitled to which share of the CPU slots.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
};
use base::{Millis, units::human_span};
use clap::Subcommand;
use wire::control::{GetShares, SetShare, ShareInfo};

/// Show and set shares of the CPU slots
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Free slots go to the group that has used least for its share, and in it to the user who has used least \
        for theirs. Usage counts while jobs run, and half of it is forgotten in each half-life."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List groups and users with their shares
    List,
    /// Set the share of a group, or of a user within a group
    Set {
        /// Name of the group, or of a user in it, as physics/ann
        #[arg(value_name = "GROUP[/USER]")]
        whose: String,
        /// Share relative to those of others, as 3
        share: f64,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what.unwrap_or(What::List) {
        What::List => list(context),
        What::Set { whose, share } => {
            let (group, user) = match whose.split_once('/') {
                Some((group, user)) => (group.to_owned(), Some(user.to_owned())),
                None => (whose, None),
            };
            let reply = context.call(&SetShare { group, user, share })?;
            if context.output.is_json() {
                context.output.json(&reply)?;
            }
            Ok(0)
        }
    }
}

fn list(context: &mut Context) -> Run {
    let all = context.call(&GetShares {})?;
    if context.output.is_json() {
        context.output.json(&all)?;
    } else if all.shares.is_empty() {
        context.output.news("nobody has used any slots, and all have equal shares")?;
    } else {
        context.output.table(&table(&all.shares))?;
        context
            .output
            .news(format!("half of what was used is forgotten every {}", human_span(all.half_life)))?;
    }
    Ok(0)
}

fn table(shares: &[ShareInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("group"),
        Column::Left("user"),
        Column::Right("share"),
        Column::Right("used"),
        Column::Right("slots now"),
    ]);
    for share in shares {
        let used = Millis((share.used_seconds * 1000.0) as i64);
        table.row([
            Cell::from(share.group.as_str()),
            share.user.as_deref().unwrap_or("-").into(),
            share.share.to_string().into(),
            human_span(used).into(),
            share.slots.to_string().into(),
        ]);
    }
    table
}
