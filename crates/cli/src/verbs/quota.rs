//! `bp quota`: shows and sets quotas of users, groups and projects.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
};
use base::units::{Size, human_bytes};
use clap::{Subcommand, ValueEnum};
use wire::control::{GetQuotas, QuotaInfo, QuotaKind, SetQuota};

/// Show and set quotas of users, groups and projects
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A quota limits the number and bytes of files, on disk or on tape; open writes count. Without \
        a command, the quotas are listed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Set a quota; a limit that is not given does not apply
    #[command(group = clap::ArgGroup::new("limit").required(true).multiple(true))]
    Set {
        /// Whether it limits a user, a group or a project
        kind: Kind,
        /// Name of the user, group or project
        name: String,
        /// Most bytes, as 10TB
        #[arg(long, group = "limit")]
        bytes: Option<Size>,
        /// Most files
        #[arg(long, group = "limit")]
        files: Option<u64>,
    },
    /// Remove a quota
    Lift {
        /// Whether it limits a user, a group or a project
        kind: Kind,
        /// Name of the user, group or project
        name: String,
    },
    /// List the quotas and their usage
    List,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// What a user owns
    User,
    /// What belongs to a group
    Group,
    /// What belongs to a project
    Project,
}

impl From<Kind> for QuotaKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::User => Self::User,
            Kind::Group => Self::Group,
            Kind::Project => Self::Project,
        }
    }
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what.unwrap_or(What::List) {
        What::Set { kind, name, bytes, files } => {
            let bytes = bytes.map(|Size(bytes)| bytes);
            set(context, &SetQuota { kind: kind.into(), name, bytes, files })
        }
        What::Lift { kind, name } => {
            set(context, &SetQuota { kind: kind.into(), name, bytes: None, files: None })
        }
        What::List => list(context),
    }
}

fn set(context: &mut Context, call: &SetQuota) -> Run {
    let reply = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&reply)?;
    }
    Ok(0)
}

fn list(context: &mut Context) -> Run {
    let quotas = context.call(&GetQuotas {})?;
    if context.output.is_json() {
        context.output.json(&quotas)?;
        return Ok(0);
    }
    if quotas.quotas.is_empty() {
        context.output.news("no quota is set")?;
        return Ok(0);
    }
    context.output.table(&table(&quotas.quotas))?;
    Ok(0)
}

fn table(quotas: &[QuotaInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("kind"),
        Column::Text("name"),
        Column::Right("used"),
        Column::Right("being written"),
        Column::Right("limit"),
        Column::Right("files"),
        Column::Right("limit"),
    ]);
    let or_none = |limit: Option<String>| limit.unwrap_or_else(|| "-".to_owned());
    for quota in quotas {
        let tone = |used: u64, max: Option<u64>| match max {
            Some(max) if used >= max => Tone::Bad,
            _ => Tone::Plain,
        };
        let bytes_tone = tone(quota.bytes + quota.reserved_bytes, quota.bytes_max);
        table.row([
            Cell::from(quota.kind.as_str()),
            quota.name.as_str().into(),
            Cell::toned(human_bytes(quota.bytes), bytes_tone),
            human_bytes(quota.reserved_bytes).into(),
            or_none(quota.bytes_max.map(human_bytes)).into(),
            Cell::toned(quota.files.to_string(), tone(quota.files, quota.files_max)),
            or_none(quota.files_max.map(|max| max.to_string())).into(),
        ]);
    }
    table
}
