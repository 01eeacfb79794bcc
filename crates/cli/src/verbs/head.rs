//! `bp head`: which head of the facility is active.

use crate::context::{Context, Run};
use clap::Subcommand;
use wire::control::TakeOver;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Have a standby take over from the active head, which ends
    TakeOver {
        /// Host of the standby [default: whichever is first]
        host: Option<String>,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let Verb::TakeOver { host } = args.verb;
    let done = context.call(&TakeOver { host: host.clone() })?;
    if context.output.is_json() {
        context.output.json(&done)?;
    } else {
        let who = host.unwrap_or_else(|| "the first standby that looks".to_owned());
        context.output.news(format!("{who} takes over"))?;
    }
    Ok(0)
}
