//! `bp token`: makes what proves who somebody is.

use crate::{
    context::{Context, Run},
    daemon,
};
use base::{Failure, units::Span};
use clap::Subcommand;
use std::{ffi::OsString, path::Path};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token and print it, once
    #[command(
        after_help = "Whoever has the token is the user, until it expires. Only who can read the facility's key \
                            can make one.\nClients find it in BEARER_TOKEN or in the file that BEARER_TOKEN_FILE names."
    )]
    Create(Create),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// How long it holds, as 12h [default: 12h]
    #[arg(long, value_name = "TIME")]
    lifetime: Option<Span>,
    /// What it allows, as storage.read:/data; may be given again [default: all that the user may do]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// A group of the user, for grants and modes; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "scope")]
    group: Vec<String>,
    /// For whom it is [default: this facility]
    #[arg(long, value_name = "NAME")]
    audience: Option<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let Verb::Create(create) = args.verb;
    let place = context.place()?;
    if !Path::new(place).is_dir() {
        return Err(Failure::invalid(format!("{place} is not the directory of a facility"))
            .hint("tokens are made on the facility's host, with --facility DIR")
            .into());
    }
    let mut arguments: Vec<OsString> = vec!["token".into(), place.into()];
    let mut add = |name: &str, value: &str| arguments.push(format!("--{name}={value}").into());
    add("user", context.user());
    if let Some(lifetime) = create.lifetime {
        add("lifetime", &lifetime.to_string());
    }
    for scope in &create.scope {
        add("scope", scope);
    }
    for group in &create.group {
        add("group", group);
    }
    if let Some(audience) = &create.audience {
        add("audience", audience);
    }
    if context.output.is_json() {
        arguments.push("--json".into());
    }
    Err(daemon::become_daemon(&arguments).into())
}
