//! `bp host`: manages the hosts of the facility.

use super::pool::drain;
use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
};
use base::units::{Span, human_bytes};
use clap::Subcommand;
use wire::control::{
    GetHosts, GetSoleFiles, HostInfo, HostLabel, Invite, LabelHost, Presence, RemoveHost, Role, SoleFiles,
};

/// Invite, list, label and remove hosts
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Invite a host: print the command to run there
    Invite {
        /// Role of the host: disk, tape or cpu; repeatable
        #[arg(long, required = true)]
        role: Vec<Role>,
        /// How long the invitation is valid
        #[arg(long, default_value = "1h", value_name = "TIME")]
        lifetime: Span,
    },
    /// List the hosts that joined
    List,
    /// Label a host with its location: `rack=r12 room=b513`
    Label {
        /// The host
        name: String,
        /// NAME=VALUE, or NAME= to remove a label; other labels stay
        #[arg(required = true, value_name = "LABEL")]
        labels: Vec<HostLabel>,
    },
    /// List the files whose only copy is on a host
    Files {
        /// The host
        name: String,
    },
    /// Drain a host: stop storing new files on its partitions and move their files to other hosts
    Drain {
        /// The host
        name: String,
        #[command(flatten)]
        options: drain::Options,
    },
    /// Remove a host: the facility refuses it from now on, and files stored only there become unreachable
    Remove {
        /// The host
        name: String,
        /// Remove the host even if it has the only copy of files
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        Verb::Invite { role, lifetime } => invite(role, lifetime, context),
        Verb::List => list(context),
        Verb::Label { name, labels } => {
            let done = context.call(&LabelHost { name: name.clone(), labels })?;
            if context.output.is_json() {
                context.output.json(&done)?;
            } else {
                context.output.news(format!(
                    "labelled {name}; `bp pool set POOL --failure-domain LABEL` places copies by a label"
                ))?;
            }
            Ok(0)
        }
        Verb::Files { name } => files(name, context),
        Verb::Drain { name, options } => drain::host(name, options, context),
        Verb::Remove { name, force } => {
            let done = context.call(&RemoveHost { name: name.clone(), force })?;
            if context.output.is_json() {
                context.output.json(&done)?;
            } else {
                context.output.news(format!("{name} was removed from the facility"))?;
            }
            Ok(0)
        }
    }
}

/// Files that a person is shown; `--json` has all.
const SHOWN: usize = 20;

fn files(host: String, context: &mut Context) -> Run {
    let (mut all, mut after) = (SoleFiles { files: Vec::new(), is_partial: false }, None);
    loop {
        let page = context.call(&GetSoleFiles { host: host.clone(), after })?;
        after = page.files.last().map(|file| file.id);
        all.files.extend(page.files);
        if !page.is_partial {
            break;
        }
    }
    if context.output.is_json() {
        context.output.json(&all)?;
        return Ok(0);
    }
    if all.files.is_empty() {
        context.output.news(format!("every file on {host} has another copy elsewhere"))?;
        return Ok(0);
    }
    let mut table = Table::new([Column::Left("owner"), Column::Right("size"), Column::Path("path")]);
    for file in all.files.iter().take(SHOWN) {
        let size = human_bytes(file.size);
        table.row([Cell::from(file.owner.as_str()), size.into(), file.path.as_str().into()]);
    }
    context.output.table(&table)?;
    let left = all.files.len().saturating_sub(SHOWN);
    if left > 0 {
        context.output.news(format!("and {left} more: --json lists all"))?;
    }
    Ok(0)
}

fn invite(roles: Vec<Role>, lifetime: Span, context: &mut Context) -> Run {
    let words: Vec<_> = roles.iter().map(|role| format!("--role {role}")).collect();
    let invited = context.call(&Invite { roles, lifetime: lifetime.0 })?;
    if context.output.is_json() {
        context.output.json(&invited)?;
        return Ok(0);
    }
    context.output.line(format!("bpd join DIR {} --token {}", words.join(" "), invited.token))?;
    context.output.news(format!("run this on the other host within {lifetime}; it works once"))?;
    Ok(0)
}

fn list(context: &mut Context) -> Run {
    let hosts = context.call(&GetHosts {})?;
    if context.output.is_json() {
        context.output.json(&hosts)?;
    } else if hosts.hosts.is_empty() {
        context.output.news("no host has joined; `bp host invite` prints the command that joins one")?;
    } else {
        context.output.table(&table(&hosts.hosts))?;
    }
    Ok(0)
}

fn table(hosts: &[HostInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("host"),
        Column::Left("roles"),
        Column::Left("state"),
        Column::Left("labels"),
    ]);
    for host in hosts {
        if host.removed.is_none() && host.presence != Presence::Here {
            table.next_step(
                "`bp host files HOST` lists what only that host has; its own log says why it stopped",
            );
        }
        let roles: Vec<_> = host.roles.iter().map(|role| role.as_str()).collect();
        let state = match host.removed {
            None if host.presence == Presence::Here => Cell::toned("up", Tone::Good),
            None => Cell::toned(host.presence.as_str(), Tone::Bad),
            Some(_) => Cell::toned("removed", Tone::Bad),
        };
        let labels: Vec<_> = host.labels.iter().map(ToString::to_string).collect();
        table.row([
            Cell::from(host.name.as_str()),
            Cell::from(roles.join(" ")),
            state,
            Cell::from(labels.join(" ")),
        ]);
    }
    table
}
