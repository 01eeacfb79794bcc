//! `bp token`: creates bearer tokens.

use crate::{
    context::{Context, Run},
    daemon,
};
use base::{Failure, units::Span};
use clap::Subcommand;
use std::{ffi::OsString, path::Path};

/// Make tokens by which users authenticate
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token and print it
    #[command(
        after_help = "Anyone who holds the token can act as the user until it expires. Only users who can read \
            the facility's key can make one.\nClients read it from BEARER_TOKEN, or from the file that \
            BEARER_TOKEN_FILE names."
    )]
    Create(Create),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// How long the token is valid, e.g. 12h [default: 12h]
    #[arg(long, value_name = "TIME")]
    lifetime: Option<Span>,
    /// A scope that limits the token, e.g. storage.read:/data; repeatable [default: all that the user may do]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// A group of the user, for grants and mode bits; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "scope")]
    group: Vec<String>,
    /// Audience of the token [default: this facility]
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
