//! `bp key`: manages the generations of the key that signs tokens and capabilities.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words,
};
use base::{Timestamp, units::Span};
use clap::Subcommand;
use wire::control::{GetKeys, KeyGeneration, KeyGenerations, KeyState, RevokeKey, RotateKey};

/// List, rotate and revoke the keys that sign tokens
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the generations of the key
    List,
    /// Make a new generation of the key, and sign with it from now on
    #[command(
        after_help = "Tokens signed by the previous generation are accepted until the grace time is over, even \
            if they would last longer."
    )]
    Rotate {
        /// How long tokens of the previous generation stay valid
        #[arg(long, default_value = "7d", value_name = "TIME")]
        grace: Span,
    },
    /// Revoke a generation at once, with everything signed by it
    #[command(
        after_help = "All tokens and open invitations signed by it become invalid at once, also in open \
            sessions. Running jobs get new tokens.\nIf it is the newest generation, a new one is made."
    )]
    Revoke {
        /// Its number, as `bp key list` shows it
        generation: u32,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let (keys, news) = match args.verb {
        Verb::List => (context.call(&GetKeys {})?, None),
        Verb::Rotate { grace } => {
            let keys = context.call(&RotateKey { grace: grace.0 })?;
            let news =
                format!("generation {} signs from now on; copy DIR/key to standby heads", current(&keys));
            (keys, Some(news))
        }
        Verb::Revoke { generation } => {
            let keys = context.call(&RevokeKey { generation })?;
            let news = format!(
                "generation {generation} is revoked, generation {} signs; copy DIR/key to standby heads",
                current(&keys)
            );
            (keys, Some(news))
        }
    };
    if context.output.is_json() {
        context.output.json(&keys)?;
    } else if let Some(news) = news {
        context.output.news(news)?;
    } else {
        context.output.table(&table(&keys.generations))?;
    }
    Ok(0)
}

fn current(keys: &KeyGenerations) -> u32 {
    keys.generations.last().map_or(0, |newest| newest.number)
}

fn table(generations: &[KeyGeneration]) -> Table {
    let columns =
        [Column::Right("generation"), Column::Left("made"), Column::Left("state"), Column::Left("until")];
    let mut table = Table::new(columns);
    for generation in generations {
        let made = match generation.made {
            Timestamp(0) => "with the facility".to_owned(),
            made => words::exact_time(made),
        };
        let tone = match generation.state {
            KeyState::Current => Tone::Good,
            KeyState::Verifies | KeyState::Expired => Tone::Plain,
            KeyState::Revoked => Tone::Bad,
        };
        let state = Cell::toned(generation.state.as_str(), tone);
        let until = generation.until.map_or_else(String::new, words::exact_time);
        table.row([Cell::from(generation.number.to_string()), Cell::from(made), state, Cell::from(until)]);
    }
    table
}
